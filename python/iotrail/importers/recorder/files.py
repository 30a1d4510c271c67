"""The files that Recorder leaves: who called what with which arguments, in what order and when.

A call's function, thread, depth and arguments are a signature, numbered in a table (CST). The order of a rank's calls is a
grammar over these numbers (CFG, made by Sequitur), and apart from it lie their times. Layouts follow
include/recorder-logger.h, lib/recorder-cst-cfg.c and lib/recorder-sequitur-logger.c of Recorder 2.3 to 3.0, x86-64:

| version | recorder.mt | signatures and grammars | times |
|---|---|---|---|
| 2.3 | 32 bytes, names of functions | N.cst, N.cfg of each rank | N.ts |
| 2.4 | 40 bytes, names | the same, or one 0.cst and grammars that ranks share by ug.mt | N.ts |
| 2.5, 3.0 | 40 bytes, names (from byte 1,024 in 3.0) | the same with zlib, the shared ones as recorder.cst and ug.cfg | recorder.ts |

Whatever a file says of its sizes is believed only as far as the file can hold it.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from iotrail.errors import TraceError
from iotrail.importers.recorder.grammar import Grammar
from iotrail.importers.source import Source

# A size_t before what zlib made: compressed bytes, then bytes.
_ZLIB = struct.Struct("<QQ")
# What zlib can make of a byte at most.
_MOST = 1032
# More signatures or grammars than this is no trace, but a trap.
_TOP_TABLE = 1 << 30
_TOP_RANKS = 1 << 24
# Calls of which the times are read at a time.
_PIECE = 1 << 16
_NAMES = b"creat\ncreat64\n"
_NAMES_AT = 1024


@dataclass(frozen=True)
class Signature:
    """What calls have in common that differ in time only."""

    thread: int
    function: str
    arguments: list[str]


@dataclass
class Part:
    """A file of the trace, read from its beginning; `at` is where."""

    source: Source
    at: int = 0
    stream: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        self.stream = self.source.open()

    def some(self, size: int) -> bytes:
        """The next bytes: `size`, fewer at the end."""
        parts = []
        try:
            while size > 0 and (data := self.stream.read(min(size, 1 << 20))):
                parts.append(data)
                size -= len(data)
        except OSError as error:
            raise TraceError(f"{self.source.path}: can't be read: {error.strerror}") from None
        whole = b"".join(parts)
        self.at += len(whole)
        return whole

    def take(self, size: int, what: str) -> bytes:
        """The next `size` bytes, which are `what`."""
        begin = self.at
        data = self.some(size)
        if len(data) < size:
            raise self.wrong(begin, f"{size:,} bytes of {what}", f"{len(data):,}")
        return data

    def rest(self, what: str) -> bytes:
        """All that follows."""
        data = self.some(_TOP_TABLE + 1)
        if len(data) > _TOP_TABLE:
            raise self.wrong(self.at, f"at most {_TOP_TABLE:,} bytes of {what}", "more")
        return data

    def unzipped(self, what: str) -> bytes:
        """What zlib made of the next bytes, whose sizes come first."""
        begin = self.at
        packed, size = _ZLIB.unpack(self.take(_ZLIB.size, f"sizes of {what}"))
        if size > min(_TOP_TABLE, packed * _MOST):
            raise self.wrong(begin, f"sizes of {what} before and after zlib", f"{packed:,} and {size:,}")
        if packed > _TOP_TABLE:
            raise self.wrong(begin, f"at most {_TOP_TABLE:,} bytes of {what}", f"{packed:,}")
        try:
            data = zlib.decompressobj().decompress(self.take(packed, what), size + 1)
        except zlib.error as error:
            raise self.wrong(begin, f"zlib's data of {what}", str(error)) from None
        if len(data) != size:
            raise self.wrong(begin, f"{size:,} bytes of {what} in zlib's data", f"{len(data):,}")
        return data

    def wrong(self, at: int, expected: str, found: str) -> TraceError:
        """What is said of a file that isn't as it should be."""
        return TraceError(f"{self.source.path}: byte {at:,}: expected {expected}, found {found}")


class Trace:
    """A trace: what holds for all ranks, and each rank's signatures and calls."""

    def __init__(self, sources: list[Source]) -> None:
        self.files = {source.path.name: source for source in sources}
        self.folder = sources[0].path.parent
        self.version = self._version()
        self._metadata()
        # Bytes of a signature before its arguments; told by the first signature.
        self._head = 0
        # Of signatures and grammars that ranks share.
        self._shared: list[Signature] | None = None
        self._packed: list[bytes] = []
        self._last: tuple[int, Grammar] | None = None
        self._grammar_of = self._shared_grammars() if self.merged else []
        self._times = self._part("recorder.ts") if self.version >= (2, 5) else None
        self._sizes = self._sizes_of_times() if self._times else []

    def _part(self, name: str) -> Part:
        if name not in self.files:
            raise TraceError(
                f"{self.folder / name}: no such file, but the trace needs it",
                "a program that was killed leaves no whole trace: Recorder writes it when the program ends;\n"
                "without VERSION it is of a Recorder before 2.3 or after 3.0, which can't be read",
            )
        return Part(self.files[name])

    def _version(self) -> tuple[int, int]:
        part = self._part("VERSION")
        text = part.some(64).strip()
        numbers = text.split(b".")
        if len(numbers) < 2 or not all(number.isdigit() and len(number) < 5 for number in numbers):
            raise part.wrong(0, "a version as 2.4.0", repr(text.decode("utf-8", "replace")))
        version = int(numbers[0]), int(numbers[1])
        if not (2, 3) <= version < (4, 0):
            raise TraceError(
                f"{part.source.path}: traces of Recorder 2.3 to 3 can be read, found {'.'.join(map(str, version))}",
                "its own recorder2text shows it",
            )
        return version

    def _metadata(self) -> None:
        part = self._part("recorder.mt")
        data = part.rest("metadata")
        old = self.version < (2, 5)
        size = 32 if self.version == (2, 3) else 40
        if len(data) < size:
            raise part.wrong(0, f"{size} bytes of metadata", f"{len(data)}")
        self.ranks = struct.unpack_from("<i", data)[0]
        self.start, self.resolution = struct.unpack_from("<dd", data, 8 if old else 16)
        flags = data[36:40]
        self.merged = size == 40 and bool(struct.unpack_from("<i", data, 32)[0] if old else flags[1])
        self.zipped_times = not old and bool(flags[0])
        # Offsets are given as the step from the function's last call.
        self.steps = not old and bool(flags[3])
        if not 0 < self.ranks <= _TOP_RANKS:
            raise part.wrong(0, f"a number of ranks up to {_TOP_RANKS:,}", f"{self.ranks:,}")
        if not 1e-9 <= self.resolution <= 1:
            raise part.wrong(16 if old else 24, "a resolution from 1e-9 to 1 s", f"{self.resolution}")
        if not 0 <= self.start < 4.6e9:
            raise part.wrong(8 if old else 16, "seconds since 1970", f"{self.start}")
        at = next((at for at in (size, _NAMES_AT) if data.startswith(_NAMES, at)), None)
        if at is None:
            found = data[size : size + 16].hex()
            raise part.wrong(size, "names of functions, which begin with creat", f"bytes {found}")
        self.functions = data[at:].decode("utf-8", "replace").split("\n")[:-1]

    def _shared_grammars(self) -> list[int]:
        """Which grammar each rank has."""
        part = self._part("ug.mt")
        numbers = struct.unpack(f"<{self.ranks}i", part.take(4 * self.ranks, "grammars of ranks"))
        count = struct.unpack("<i", part.take(4, "the number of grammars"))[0]
        if not 0 < count <= self.ranks or not all(0 <= number < count for number in numbers):
            raise part.wrong(
                0,
                f"numbers of grammars below their number, at most {self.ranks:,}",
                f"{min(numbers):,} to {max(numbers):,} of {count:,}",
            )
        if self.version >= (2, 5):
            part = self._part("ug.cfg")
            held = 0
            for number in range(count):
                self._packed.append(part.unzipped(f"grammar {number}"))
                held += len(self._packed[-1])
                if held > _TOP_TABLE:
                    raise part.wrong(part.at, f"at most {_TOP_TABLE:,} bytes of grammars", "more")
        return list(numbers)

    def signatures(self, rank: int) -> list[Signature]:
        """The signatures of a rank's calls, by number."""
        if self._shared is not None:
            return self._shared
        name = f"{rank}.cst"
        if self.merged:
            name = "recorder.cst" if self.version >= (2, 5) else "0.cst"
        part = self._part(name)
        data = part.unzipped("signatures") if self.version >= (2, 5) else part.rest("signatures")
        found = self._parsed(data, part)
        if self.merged:
            self._shared = found
        return found

    def _parsed(self, data: bytes, part: Part) -> list[Signature]:
        size = len(data)
        # number, bytes; with 2.4 number, rank, bytes, calls
        entry, length_at = (8, 4) if self.version == (2, 3) else (16, 8)
        count = struct.unpack_from("<i", data)[0] if size >= 4 else -1
        if not 0 <= count <= (size - 4) // entry:
            raise part.wrong(0, f"a number of signatures that {size:,} bytes can hold", f"{count:,}")
        found: list[Signature | None] = [None] * count
        at = 4
        for _ in range(count):
            if at + entry > size:
                raise part.wrong(at, f"{entry} bytes before a signature", f"{size - at}")
            number, length = (
                struct.unpack_from("<i", data, at)[0],
                struct.unpack_from("<i", data, at + length_at)[0],
            )
            begin = at + entry
            if not 0 <= number < count or found[number] is not None:
                raise part.wrong(at, f"each number below {count:,} once", f"{number:,}")
            if not 0 <= length <= size - begin:
                raise part.wrong(at, f"a signature of at most {size - begin:,} bytes", f"{length:,}")
            found[number] = self._signature(data[begin : begin + length], part, begin)
            at = begin + length
        return [signature for signature in found if signature is not None]

    def _signature(self, key: bytes, part: Part, at: int) -> Signature:
        """Thread (8 bytes), function (1, with 3.0 4), depth, number of arguments, their bytes (4), and they."""
        for head in (self._head,) if self._head else (18, 15):
            if len(key) >= head and struct.unpack_from("<i", key, head - 4)[0] == len(key) - head:
                self._head = head
                break
        else:
            raise part.wrong(at, "a signature whose arguments fill it", f"bytes {key[:18].hex()}")
        thread = struct.unpack_from("<Q", key)[0] & ((1 << 63) - 1)
        number = struct.unpack_from("<i", key, 8)[0] if head == 18 else key[8]
        function = self.functions[number] if 0 <= number < len(self.functions) else f"function {number}"
        return Signature(thread, function, key[head:].decode("utf-8", "replace").split(" ")[:-1])

    def grammar(self, rank: int, signatures: int) -> Grammar:
        """The order of a rank's calls, which have so many signatures."""
        number = self._grammar_of[rank] if self.merged else rank
        if self._last and self._last[0] == number:
            return self._last[1]
        if self._packed:
            data, where = self._packed[number], f"{self.folder / 'ug.cfg'}: grammar {number}"
        else:
            part = self._part(f"{number}.cfg")
            data = part.unzipped("a grammar") if self.version >= (2, 5) else part.rest("a grammar")
            where = str(part.source.path)
        grammar = Grammar(data, where, signatures)
        self._last = number, grammar
        return grammar

    def _sizes_of_times(self) -> list[int]:
        assert self._times is not None
        return list(
            struct.unpack(f"<{self.ranks}Q", self._times.take(8 * self.ranks, "sizes of ranks' times"))
        )

    def times(self, rank: int) -> Iterator[npt.NDArray[np.uint32]]:
        """A rank's times in pieces of shape (calls, 2), to be asked for rank by rank.

        When a call began and ended, in ticks since the one before it began. Ends early where the file does.
        """
        if self._times is None and f"{rank}.ts" not in self.files:
            # an archive's empty files are passed over
            return
        part = self._times or self._part(f"{rank}.ts")
        left = self._sizes[rank] if self._times else 1 << 62
        zipped = self._times is not None and self.zipped_times
        if zipped:
            # what zlib's data says of its own size is not needed
            left -= len(part.some(min(left, _ZLIB.size)))
        blocks = _blocks(part, left)
        rest = b""
        for block in _inflated(blocks) if zipped else blocks:
            data = rest + block
            whole = len(data) // 8 * 8
            rest = data[whole:]
            yield np.frombuffer(data, "<u4", whole // 4).reshape(-1, 2)
        for _ in blocks:
            # behind broken data the next rank's begins where its size says
            pass


def _blocks(part: Part, size: int) -> Iterator[bytes]:
    while size > 0 and (block := part.some(min(size, _PIECE * 8))):
        size -= len(block)
        yield block


def _inflated(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """What zlib made, as far as it is whole."""
    unzip = zlib.decompressobj()
    for packed in blocks:
        more = True
        while more:
            try:
                data = unzip.decompress(packed, _PIECE * 8)
            except zlib.error:
                return
            packed = unzip.unconsumed_tail
            more = bool(packed) or len(data) == _PIECE * 8
            if data:
                yield data
