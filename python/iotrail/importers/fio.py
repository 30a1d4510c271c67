"""fio's iologs (`write_iolog`), versions 2 and 3 (fio 3.33, HOWTO "Trace file format", iolog.c).

Version 3 begins each line with the time in µs since the job's start; version 2 has no times, only `wait`
actions: its lines follow each other by 1 µs. Neither says how long an operation took. A log is one thread's.
"""

import re

import numpy as np

from iotrail.errors import TraceError
from iotrail.importers.base import (
    CLOSE,
    DISCARD,
    FLUSH,
    OPEN,
    READ,
    RELATIVE_START,
    SYNC,
    SYNC_RANGE,
    WRITE,
    Actor,
    BlockRows,
    Job,
    match_lines,
    running,
)

_HEADER = re.compile(rb"fio version ([23]) iolog\r?\n")
_LINES = {
    2: re.compile(rb"^()(\S+) (\w+)(?: (\d{1,18}) (\d{1,18}))?\r?$", re.MULTILINE),
    3: re.compile(rb"^(\d{1,15}) (\S+) (\w+)(?: (\d{1,18}) (\d{1,18}))?\r?$", re.MULTILINE),
}
_ACTIONS = {
    b"read": READ,
    b"write": WRITE,
    b"sync": SYNC,
    b"datasync": FLUSH,
    b"sync_file_range": SYNC_RANGE,
    b"trim": DISCARD,
    b"open": OPEN,
    b"close": CLOSE,
}
_STEP = 1000
# A day, in µs.
_LONGEST = 86_400_000_000


def looks_like(head: bytes) -> bool:
    """The first line says so."""
    return _HEADER.match(head) is not None


def read(job: Job) -> None:
    """Import iologs."""
    rows = BlockRows(job)
    actors = []
    job.facts["dur"] = "unknown: iologs have no response times"
    for number, source in enumerate(job.sources):
        header = _HEADER.match(source.head())
        if header is None:
            raise TraceError(
                f"{source.path}:1: expected 'fio version 2 iolog' or 'fio version 3 iolog'",
                "version 1 is not read; fio --write_iolog writes version 3",
            )
        version = int(header[1])
        job.facts["fio_version"] = version
        if version == 2:
            job.relative(
                "none", "version 2 has no times: each line is 1 µs after the last, wait actions are kept"
            )
            job.note("a version 2 iolog has no times: order is kept, each line is 1 µs after the last")
        else:
            job.relative("us")
        actor = Actor.of(job, number, source.path.name)
        actors.append(actor)
        clock = 0
        for first, block in job.lines(source):
            if first == 1:
                block = block[header.end() :]
                first = 2
            if block:
                clock = _add(
                    job,
                    rows,
                    match_lines(job, source, first, block, _LINES[version], _NEVER),
                    clock,
                    version,
                    actor,
                )
    rows.finish(actors)


_NEVER = re.compile(rb"(?!)")


def _add(
    job: Job, rows: BlockRows, lines: list[tuple[bytes, ...]], clock: int, version: int, actor: Actor
) -> int:
    """Add the lines of a block; returns the time of version 2 after it."""
    if not lines:
        return clock
    stamps, names, actions, positions, lengths = zip(*lines, strict=True)
    count = len(lines)
    known = {action: _ACTIONS.get(action, -1) for action in set(actions)}
    op = np.fromiter((known[action] for action in actions), np.int64, count)
    pos = np.fromiter((int(value or 0) for value in positions), np.int64, count)
    length = np.fromiter((int(value or 0) for value in lengths), np.int64, count)
    for action in known.keys() - _ACTIONS.keys() - {b"add", b"wait"}:
        job.skipped.add(
            f"{job.sources[0].path}: no action {action.decode('utf-8', 'replace')!r} is known",
            actions.count(action),
        )
    if version == 3:
        ts = np.fromiter(map(int, stamps), np.int64, count) * 1000
    else:
        waits = np.fromiter((action == b"wait" for action in actions), bool, count)
        # the wait of a line of garbage mustn't be more than 63 bits hold
        steps = np.where(waits, np.minimum(pos, _LONGEST) * 1000, _STEP)
        ts, clock = running(clock, steps)
    files = {name: rows.file(_path(name)) for name in set(names)}
    file = np.fromiter((files[name] for name in names), np.int64, count)
    keep = op >= 0
    if keep.any():
        rows.add(
            ts=RELATIVE_START + ts[keep],
            op=op[keep],
            pos=pos[keep],
            length=length[keep],
            file=file[keep],
            who=np.full(int(keep.sum()), actor.code, np.int64),
            thread={actor.code: actor.thread},
        )
    return clock


def _path(name: bytes) -> str:
    return name.decode("utf-8", "replace")
