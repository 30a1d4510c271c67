"""blktrace's binaries: a file for each CPU, of `struct blk_io_trace` and data behind each (PDU).

Layout and numbers: include/uapi/linux/blktrace_api.h. The byte order is that of the traced machine, told by
the magic. Files of one trace (NAME.blktrace.0 …) are merged by time, a block of each at a time.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrail.errors import TraceError
from iotrail.importers.base import RELATIVE_START, Job
from iotrail.importers.binary import cut
from iotrail.importers.requests import (
    BACK_MERGE,
    COMPLETE,
    EVENT,
    FRONT_MERGE,
    ISSUE,
    QUEUE,
    REQUEUE,
    SECTOR,
    SPLIT,
    Events,
    Requests,
    operation,
)
from iotrail.importers.source import Source

_MAGIC = 0x65617400
_HEADER = 48
# Beyond are only broken records: 4 EiB, 146 years since boot.
_TOP_SECTOR, _TOP_TIME = 1 << 53, 1 << 62
# Records without data in a row after which more are expected, and how many are looked at then.
_PLAIN, _AHEAD = 32, 1024
_NAME = re.compile(r"(.+)\.blktrace\.\d+")
_FIELDS = [
    ("magic", "u4"),
    ("sequence", "u4"),
    ("time", "u8"),
    ("sector", "u8"),
    ("bytes", "u4"),
    ("action", "u4"),
    ("pid", "u4"),
    ("device", "u4"),
    ("cpu", "u4"),
    ("error", "u2"),
    ("pdu_len", "u2"),
]
# Categories, in the upper half of an action.
_WRITE, _NOTIFY, _PC, _DISCARD = 1 << 1, 1 << 10, 1 << 9, 1 << 13
# Notes: a process' name, the wall clock. An action's bit 8 says that 8 bytes of a cgroup's id come first.
_TN_PROCESS, _TN_TIMESTAMP, _CGROUP = 0, 1, 1 << 8
_WANTED = np.zeros(256, bool)
_WANTED[[QUEUE, BACK_MERGE, FRONT_MERGE, REQUEUE, ISSUE, COMPLETE, SPLIT]] = True


def looks_like(head: bytes) -> bool:
    """The first record begins with the magic."""
    return _order(head) is not None


def _order(head: bytes) -> str | None:
    for order in "<>":
        if len(head) >= 4 and struct.unpack(order + "I", head[:4])[0] & ~0xFF == _MAGIC:
            return order
    return None


def files(words: list[Path]) -> list[Path]:
    """The files meant: a folder of per-CPU files, or one of them, stands for all of its trace."""
    found: list[Path] = []
    for path in words:
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if _NAME.fullmatch(entry.name))
            names = {_NAME.fullmatch(entry.name)[1] for entry in inside}  # type: ignore[index]
            if len(names) > 1:
                raise TraceError(
                    f"{path}: holds several traces: {', '.join(sorted(names))}",
                    f"name one: iotrail import blktrace {inside[0]}",
                )
            found += inside or [path]
        elif match := _NAME.fullmatch(path.name):
            siblings = (
                s for s in path.parent.iterdir() if (m := _NAME.fullmatch(s.name)) and m[1] == match[1]
            )
            found += sorted(siblings) or [path]
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read(job: Job) -> None:
    """Import the files of one trace."""
    job.unit = "events"
    requests = Requests(job)
    clock = _Clock(job, requests)
    pieces = {source: _events(job, source, requests, clock) for source in job.sources}
    # what was read of a file, but is later than what was read of another
    waiting: dict[Source, Events] = {}
    while pieces:
        for source in list(pieces):
            if source not in waiting:
                piece = next(pieces[source], None)
                if piece is None:
                    del pieces[source]
                else:
                    waiting[source] = piece
        # what is before the last event of each file is complete
        until = min((int(waiting[source]["ts"][-1]) for source in pieces), default=None)
        ready = [np.zeros(0, EVENT)]
        for source, events in list(waiting.items()):
            now = events["ts"] <= until if until is not None else np.ones(len(events), bool)
            ready.append(events if now.all() else events[now])
            waiting[source] = events[~now]
            if not len(waiting[source]):
                del waiting[source]
        batch = np.concatenate(ready)
        if len(batch):
            clock.settle(int(batch["ts"].min()))
            requests.add(batch)
    clock.settle(0)
    requests.finish()


class _Clock:
    """The moment the trace's clock counts from, if the trace says it."""

    def __init__(self, job: Job, requests: Requests) -> None:
        self.job = job
        self.requests = requests
        # Wall clock minus the trace's.
        self.wall: int | None = None
        self.settled = False

    def settle(self, first: int) -> None:
        """Decide it, once: by a timestamp note, else the first event is 0."""
        if self.settled:
            return
        self.settled = True
        if self.wall is not None:
            self.job.absolute("ns")
            self.requests.base = self.wall
        else:
            self.job.relative("ns", "the trace has no timestamp note; its first event is 0")
            self.requests.base = RELATIVE_START - first


def _events(job: Job, source: Source, requests: Requests, clock: _Clock) -> Iterator[Events]:
    """The events of a file that matter; notes are kept where they belong."""
    order, rest, at = None, b"", 0
    for block in source.blocks():
        data = rest + block
        order = order or _order(data)
        if order is None:
            found = data[:4].hex()
            raise TraceError(
                f"{source.path}: no blktrace binary: expected magic 0x656174.., found bytes {found}"
            )
        layout = np.dtype([(name, order + kind) for name, kind in _FIELDS])
        offsets, used = _walk(data, order)
        # A record may begin at any byte: all of them as overlapping records, of which those wanted are copied.
        everywhere = np.ndarray(max(len(data) - _HEADER + 1, 0), f"V{_HEADER}", data, strides=(1,))
        batch = everywhere[offsets].view(layout)
        wrong = np.flatnonzero(batch["magic"] & ~np.uint32(0xFF) != _MAGIC)
        if len(wrong):
            first = int(wrong[0])
            _lost(job, source, at + int(offsets[first]), int(batch["magic"][first]))
            batch, offsets = batch[:first], offsets[:first]
        job.read += len(batch)
        _notes(data, batch, offsets, order, requests, clock)
        if len(events := _wanted(job, source, data, batch, offsets)):
            yield events
        if len(wrong):
            return
        rest, at = data[used:], at + used
    if len(rest) >= 4 and _order(rest) != order:
        _lost(job, source, at, struct.unpack_from(f"{order}I", rest)[0])
    elif rest:
        need = _HEADER if len(rest) < _HEADER else _HEADER + struct.unpack_from(f"{order}H", rest, 46)[0]
        cut(job, source, at, len(rest), need)


def _lost(job: Job, source: Source, at: int, found: int) -> None:
    """Say where records end to follow each other."""
    job.skipped.add(
        f"{source.path}: byte {at:,}: expected magic {_MAGIC:#x}, found {found:#x};"
        " the rest of the file can't be told apart"
    )


def _walk(data: bytes, order: str) -> tuple[npt.NDArray[np.int64], int]:
    """Where records begin, and where the last whole one ends: each says how long the data behind it is."""
    size = len(data)
    whole = size // _HEADER
    layout = np.dtype([("", "V46"), ("pdu", order + "u2")])
    if not np.frombuffer(data, layout, whole)["pdu"].any():
        return np.arange(whole, dtype=np.int64) * _HEADER, whole * _HEADER
    unpack = struct.Struct(order + "H").unpack_from
    parts: list[npt.NDArray[np.int64]] = []
    offsets: list[int] = []
    at, plain, ahead = 0, 0, _AHEAD
    last = size - _HEADER
    while at <= last:
        length = unpack(data, at + 46)[0]
        following = at + _HEADER + length
        if following > size:
            break
        offsets.append(at)
        at = following
        plain = 0 if length else plain + 1
        if plain >= _PLAIN:
            # Most likely more records without data follow: look at many at once, at more if all were.
            count = min((size - at) // _HEADER, ahead)
            some = np.flatnonzero(np.frombuffer(data, layout, count, at)["pdu"])
            run = int(some[0]) if len(some) else count
            parts += [np.array(offsets, np.int64), np.arange(run, dtype=np.int64) * _HEADER + at]
            at += run * _HEADER
            offsets, plain, ahead = [], 0 if len(some) else _PLAIN, _AHEAD if len(some) else ahead * 2
    return np.concatenate([*parts, np.array(offsets, np.int64)]), at


def _notes(
    data: bytes, batch: Any, offsets: npt.NDArray[np.int64], order: str, requests: Requests, clock: _Clock
) -> None:
    """Names of processes and the wall clock."""
    for at in np.flatnonzero((batch["action"] >> 16) & _NOTIFY).tolist():
        record = batch[at]
        begin = int(offsets[at]) + _HEADER
        pdu = data[begin : begin + int(record["pdu_len"])]
        kind = int(record["action"]) & 0xFFFF
        if kind & _CGROUP:
            pdu, kind = pdu[8:], kind & ~_CGROUP
        if kind == _TN_PROCESS:
            requests.names[int(record["pid"])] = pdu.partition(b"\0")[0].decode("utf-8", "replace")
        elif kind == _TN_TIMESTAMP and len(pdu) >= 8 and clock.wall is None and record["time"] < _TOP_TIME:
            seconds, nanoseconds = struct.unpack_from(order + "II", pdu)
            clock.wall = seconds * 1_000_000_000 + nanoseconds - int(record["time"])


def _wanted(job: Job, source: Source, data: bytes, batch: Any, offsets: npt.NDArray[np.int64]) -> Events:
    """Events of requests."""
    kind = (batch["action"] & 0xFF).astype(np.uint8)
    category = batch["action"] >> 16
    # requests that carry commands (PC) instead of sectors are no reads or writes
    chosen = _WANTED[kind] & (category & (_NOTIFY | _PC) == 0)
    if (beyond := chosen & ((batch["sector"] >= _TOP_SECTOR) | (batch["time"] >= _TOP_TIME))).any():
        job.skipped.add(f"{source.path}: times or sectors out of range", int(beyond.sum()))
        chosen &= ~beyond
    batch, kind, category = batch[chosen], kind[chosen], category[chosen]
    events = np.zeros(len(batch), EVENT)
    events["ts"] = batch["time"]
    events["dev"] = batch["device"]
    events["sector"] = batch["sector"]
    events["bytes"] = batch["bytes"]
    events["pid"] = batch["pid"]
    error = batch["error"].astype(np.int64)
    events["errno"] = np.where(error > 0x7FFF, 0x10000 - error, error)
    events["action"] = kind
    events["op"] = operation(category & _WRITE, category & _DISCARD, batch["bytes"])
    return _split(job, source, data, batch, offsets[chosen], events)


def _split(
    job: Job, source: Source, data: bytes, batch: Any, offsets: npt.NDArray[np.int64], events: Events
) -> Events:
    """Of splits, the second part: the data behind the event says where it begins, big-endian."""
    splits = np.flatnonzero(events["action"] == SPLIT)
    if not len(splits):
        return events
    skip = np.where(batch["action"][splits] & _CGROUP, 8, 0)
    said = batch["pdu_len"][splits] >= skip + 8
    new = np.zeros(len(splits), np.uint64)
    words = np.ndarray(len(data) - 7, "V8", data, strides=(1,))
    new[said] = words[(offsets[splits] + _HEADER + skip)[said]].view(">u8")
    good = said & (new >= batch["sector"][splits]) & (new < _TOP_SECTOR)
    if not good.all():
        job.skipped.add(f"{source.path}: splits that don't say where in their request", int((~good).sum()))
    parts, new = splits[good], new[good].astype(np.int64)
    moved = (new - events["sector"][parts]) * SECTOR
    events["bytes"][parts] -= np.minimum(moved, events["bytes"][parts])
    events["sector"][parts] = new
    return np.delete(events, splits[~good])
