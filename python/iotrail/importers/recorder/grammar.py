"""Grammars of Recorder (lib/recorder-sequitur-logger.c): rules of symbols with how often each is repeated, as one sequence.

Symbols from 0 on are signatures, those below are rules; rule -1 is the whole. A rule is expanded once and kept where it is
short; longer ones are walked, without recursion. No rule is empty and those of one symbol are replaced by it, so
that a walk takes time in proportion to what it gives.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from iotrail.errors import TraceError

Ints = npt.NDArray[np.int32]

_WHOLE = -1
# Beyond is garbage, and a sum of such numbers still fits.
_TOP = 1 << 50
# A rule of at most so many symbols is kept expanded, if there is room: symbols of all together.
_SHORT, _ROOM = 4096, 1 << 24
# Symbols given at a time, and as many as one repeated symbol may add.
_PIECE = 1 << 16


class Grammar:
    """A rank's calls in their order, as numbers of signatures."""

    def __init__(self, data: bytes, where: str, signatures: int) -> None:
        """`where` names the data in errors; `signatures` is how many there are."""
        self.where = where
        # rule -> symbols and how often each is repeated
        self.rules = self._read(data, signatures)
        self.order = self._children_first()
        self.lengths: dict[int, int] = {}
        # rule of one symbol -> that symbol
        self.same: dict[int, int] = {}
        self.short: dict[int, Ints] = {}
        self._measure()

    def __len__(self) -> int:
        return self.lengths[_WHOLE]

    def used(self) -> Ints:
        """The signatures that occur."""
        symbols = np.unique(np.concatenate([self.rules[rule][0] for rule in self.order]))
        return symbols[symbols >= 0]

    def _wrong(self, expected: str, found: object) -> TraceError:
        return TraceError(f"{self.where}: expected {expected}, found {found}")

    def _read(self, data: bytes, signatures: int) -> dict[int, tuple[Ints, Ints]]:
        size = len(data) // 4
        numbers = np.frombuffer(data, "<i4", size)
        count = int(numbers[0]) if size else -1
        if not 0 < count <= size // 2:
            raise self._wrong(f"a number of rules that {len(data):,} bytes can hold", f"{count:,}")
        rules: dict[int, tuple[Ints, Ints]] = {}
        at = 1
        for _ in range(count):
            if at + 2 > size:
                raise self._wrong(f"{count:,} rules", f"the end after {len(rules):,}")
            rule, symbols = int(numbers[at]), int(numbers[at + 1])
            at += 2
            if rule >= 0 or rule in rules:
                raise self._wrong(f"at byte {at * 4 - 8:,} a rule's number, each once", rule)
            if not 0 <= symbols <= (size - at) // 2 or (symbols == 0 and rule != _WHOLE):
                raise self._wrong(
                    f"at byte {at * 4 - 4:,} a rule of 1 to {(size - at) // 2:,} symbols", symbols
                )
            body = numbers[at : at + 2 * symbols].reshape(-1, 2)
            if symbols and (body[:, 1].min() < 1 or body[:, 0].max() >= signatures):
                raise self._wrong(
                    f"in rule {rule} symbols below {signatures:,}, each at least once",
                    f"{body[:, 0].max():,}, {body[:, 1].min():,} times",
                )
            rules[rule] = body[:, 0], body[:, 1]
            at += 2 * symbols
        if _WHOLE not in rules:
            raise self._wrong(f"rule {_WHOLE}", f"{count:,} others")
        return rules

    def _children_first(self) -> list[int]:
        """The rules that are used, each behind those it is made of."""
        order: list[int] = []
        # rules that are being looked at, with what remains of them
        path: list[tuple[int, Iterator[int]]] = [(_WHOLE, self._parts(_WHOLE))]
        open_rules, done = {_WHOLE}, set()
        while path:
            rule, parts = path[-1]
            part = next(parts, None)
            if part is None:
                path.pop()
                open_rules.remove(rule)
                done.add(rule)
                order.append(rule)
            elif part in open_rules:
                raise self._wrong(f"rule {part} made of others", "itself in it")
            elif part not in done:
                if part not in self.rules:
                    raise self._wrong(f"rule {part}, which rule {rule} names", "none")
                open_rules.add(part)
                path.append((part, self._parts(part)))
        return order

    def _parts(self, rule: int) -> Iterator[int]:
        symbols = self.rules[rule][0]
        return iter(np.unique(symbols[symbols < 0]).tolist())

    def _measure(self) -> None:
        """How many symbols each rule gives; short ones are expanded."""
        room = _ROOM
        for rule in self.order:
            symbols, times = self.rules[rule]
            length = 0
            for symbol, often in zip(symbols.tolist(), times.tolist(), strict=True):
                length += (1 if symbol >= 0 else self.lengths[symbol]) * often
                if length > _TOP:
                    raise self._wrong(f"at most {_TOP:,} calls of a rank", f"more, by rule {rule}")
            self.lengths[rule] = length
            if len(symbols) == 1 and times[0] == 1:
                only = int(symbols[0])
                self.same[rule] = self.same.get(only, only)
            if length <= min(_SHORT, room):
                parts = [self._piece(*pair) for pair in zip(symbols.tolist(), times.tolist(), strict=True)]
                # parts may not all be kept: there was no room when they were looked at
                if all(part is not None for part in parts):
                    self.short[rule] = np.concatenate([np.zeros(0, np.int32), *parts])
                    room -= length

    def _piece(self, symbol: int, often: int) -> Ints | None:
        """A repeated symbol expanded; None where its rule isn't kept."""
        if symbol >= 0:
            return np.full(often, symbol, np.int32)
        kept = self.short.get(symbol)
        return None if kept is None else np.tile(kept, often)

    def expanded(self) -> Iterator[Ints]:
        """The whole, in pieces."""
        waiting: list[Ints] = []
        held = 0
        for piece in self._walk():
            waiting.append(piece)
            held += len(piece)
            if held >= _PIECE:
                yield np.concatenate(waiting)
                waiting, held = [], 0
        if held:
            yield np.concatenate(waiting)

    def _walk(self) -> Iterator[Ints]:
        # (rule, next of its symbols, how often that was given)
        path = [(_WHOLE, 0, 0)]
        while path:
            rule, at, given = path.pop()
            symbols, times = self.rules[rule]
            while at < len(symbols):
                symbol, often = int(symbols[at]), int(times[at])
                symbol = self.same.get(symbol, symbol)
                kept = None if symbol >= 0 else self.short.get(symbol)
                if symbol < 0 and kept is None:
                    # its symbols first, and then what remains of this rule
                    path.append((rule, at, given + 1) if given + 1 < often else (rule, at + 1, 0))
                    path.append((symbol, 0, 0))
                    break
                length = 1 if kept is None else len(kept)
                now = min(often - given, max(_PIECE // length, 1))
                yield np.full(now, symbol, np.int32) if kept is None else np.tile(kept, now)
                given += now
                if given == often:
                    at, given = at + 1, 0
