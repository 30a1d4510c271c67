"""blkparse's text in its default format (blkparse(1): `%D %2c %8s %5T.%9t %5p %2a %3d`, then what the action has).

    259,2    0        1     0.000000000  4020  Q   R 282624 + 8 [java]

Times count from the trace's first event. blkparse prints the seconds as a 32-bit number of a 64-bit time
(blkparse_fmt.c, `%T`), so that an event shortly before that first one has some 1266874889 seconds: 2^64 ns less a
little, modulo 2^32. Such times are before the start. Where all times are that large they count from 1970 (made so by
another tool). The summary that blkparse prints at its end is passed over.
"""

import re

import numpy as np

from iotrail.importers.base import RELATIVE_START, Job, match_lines
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
    Requests,
    operation,
)

_LINE = re.compile(
    rb"^ *(\d{1,6}),(\d{1,7}) +\d+ +\d+ +(\d{1,10})\.(\d{9}) +(\d{1,10}) +([A-Z]{1,2}) +([A-Z]+) "
    rb"(?:(\d{1,16})(?: ([+/]) (\d{1,16}))? )?(?:\[(.*)\])?[^\n]*$",
    re.MULTILINE,
)
# What isn't of a request: messages, plugs and the summary.
_OTHER = re.compile(
    rb" *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +(?:m|UT|U|P) +N|CPU\d+ \(|Total \(|Throughput |Events \(|Skips: |Input file | \w[\w ]*:|\s*$"
)
_FIRST = re.compile(rb" *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +[A-Zm]{1,2} +[A-Z]+ ")
# Seconds from which times count from 1970: 2001.
_EPOCH = 1_000_000_000
# 2^64 ns in seconds, modulo 2^32, and what is left below a second, to which wrapped fractions count.
_WRAPPED = 2**64 // 10**9 % 2**32
_BELOW_SECOND = 10**9 - 2**64 % 10**9
# So many seconds before the first event some may lie.
_EARLY = 86_400
_ACTIONS = {
    b"Q": QUEUE,
    b"M": BACK_MERGE,
    b"F": FRONT_MERGE,
    b"R": REQUEUE,
    b"D": ISSUE,
    b"C": COMPLETE,
    b"X": SPLIT,
}


def looks_like(head: bytes) -> bool:
    """The first lines have blkparse's columns."""
    lines = [line for line in head.split(b"\n")[:20] if line.strip()]
    return bool(lines) and sum(_FIRST.match(line) is not None for line in lines) * 2 > len(lines)


def read(job: Job) -> None:
    """Import blkparse's output."""
    requests = Requests(job)
    clock: int | None = None
    for source in job.sources:
        for number, block in job.lines(source):
            lines = match_lines(job, source, number, block, _LINE, _OTHER)
            if clock is None and lines:
                clock = _clock(job, lines)
                requests.base = clock
            _add(requests, [line for line in lines if line[5] in _ACTIONS])
    requests.finish()


def _clock(job: Job, lines: list[tuple[bytes, ...]]) -> int:
    """What the times count from, in ns since 1970: told by the smallest."""
    if min(int(line[2]) for line in lines) >= _EPOCH and not all(_is_wrapped(int(line[2])) for line in lines):
        job.absolute("s since 1970")
        return 0
    job.relative("ns")
    return RELATIVE_START


def _is_wrapped(seconds: int) -> bool:
    return _WRAPPED - _EARLY <= seconds <= _WRAPPED


def _add(requests: Requests, lines: list[tuple[bytes, ...]]) -> None:
    if not lines:
        return
    major, minor, seconds, fraction, pid, action, kind, sector, _, extent, name = zip(*lines, strict=True)
    count = len(lines)
    events = np.zeros(count, EVENT)
    whole = np.array(seconds, np.int64)
    if requests.base:
        whole = np.where((whole >= _WRAPPED - _EARLY) & (whole <= _WRAPPED), whole - _WRAPPED - 1, whole)
        below = np.where(whole < 0, _BELOW_SECOND, 0)
    else:
        below = np.zeros(count, np.int64)
    events["ts"] = whole * 1_000_000_000 + np.array(fraction, np.int64) + below
    events["dev"] = (np.array(major, np.int64) << 20) | np.array(minor, np.int64)
    events["pid"] = np.array(pid, np.int64)
    events["action"] = [_ACTIONS[a] for a in action]
    events["sector"] = [int(s or 0) for s in sector]
    extents = np.array([int(e or 0) for e in extent], np.int64)
    split = events["action"] == SPLIT
    # of a split, blkparse prints where the second part begins, but not how long it is
    events["bytes"] = np.where(split, SECTOR, np.minimum(extents, 1 << 31) * SECTOR)
    events["sector"][split] = extents[split]
    kinds = {k: (b"W" in k, b"D" in k) for k in set(kind)}
    write = np.fromiter((kinds[k][0] for k in kind), bool, count)
    discard = np.fromiter((kinds[k][1] for k in kind), bool, count)
    events["op"] = operation(write, discard, events["bytes"])
    complete = events["action"] == COMPLETE
    for at in np.flatnonzero(complete).tolist():
        if name[at] not in (b"0", b""):
            events["errno"][at] = _errno(name[at])
    requests.names.update({
        int(p): n.decode("utf-8", "replace") for p, n in {*zip(pid, name, strict=True)} if n and not n.isdigit()
    })  # fmt: skip
    requests.add(events)


def _errno(text: bytes) -> int:
    """A completion's error as blkparse prints it: a 16-bit number, negative ones as large ones."""
    value = int(text) if re.fullmatch(rb"-?\d{1,5}", text) else 0
    value = 0x10000 - value if value > 0x7FFF else abs(value)
    return value if 0 <= value <= 0x7FFF else 0
