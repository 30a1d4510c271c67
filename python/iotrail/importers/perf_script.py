"""Block events of `perf record -e 'block:*'`, as `perf script` prints them (include/trace/events/block.h).

    fio  1234 [001]   512.001234567:   block:block_rq_issue: 259,0 R 4096 () 2048 + 8 none,0,0 [fio]

`perf script --ns` has nanoseconds, else microseconds. Times count from the boot. Events of requests are joined as
blktrace's are; of other events lines are passed over.
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

# command pid[/tid] [cpu] [flags] time: [count] event:
_HEAD = (
    rb"^[ \t]*(\S[^\n]{0,31}?)[ \t]+(\d{1,10})(?:/\d{1,10})?[ \t]+(?:\[\d{1,5}\][ \t]+)?(?:[.\w]{4,6}[ \t]+)?"
    rb"(\d{1,10})\.(\d{6,9}):[ \t]+(?:\d{1,19}[ \t]+)?"
)
_LINE = re.compile(
    _HEAD + rb"block:(\w{1,40}):[ \t]+(\d{1,6}),(\d{1,7}) ([A-Z]{1,8}) "
    rb"(?:(\d{1,10}) )?(?:\([^)\n]{0,200}\) )?(\d{1,20}) ([+/]) (\d{1,16}) (?:[^\[\n ]{1,40} )?\[([^\]\n]{0,32})\][ \t]*$",
    re.MULTILINE,
)
_OTHER = re.compile(_HEAD + rb"[\w-]{1,60}:|#|\s*$")
_BLOCK = re.compile(_HEAD + rb"block:block_")
_ACTIONS = {
    b"block_bio_queue": QUEUE,
    b"block_bio_backmerge": BACK_MERGE,
    b"block_bio_frontmerge": FRONT_MERGE,
    b"block_rq_requeue": REQUEUE,
    b"block_rq_issue": ISSUE,
    b"block_rq_complete": COMPLETE,
    b"block_split": SPLIT,
}
# Beyond are places of flushes only: sector -1.
_TOP_SECTOR = 1 << 53


def looks_like(head: bytes) -> bool:
    """Most of the first lines are events of the block layer."""
    lines = [line for line in head.split(b"\n")[:50] if line.strip() and not line.startswith(b"#")]
    return bool(lines) and sum(_BLOCK.match(line[:1000]) is not None for line in lines) * 2 > len(lines)


def read(job: Job) -> None:
    """Import block events."""
    job.relative("s", "the trace counts from the boot")
    requests = Requests(job)
    requests.base = RELATIVE_START
    for source in job.sources:
        for number, block in job.lines(source):
            lines = match_lines(job, source, number, block, _LINE, _OTHER)
            _add(requests, [line for line in lines if line[4] in _ACTIONS])
    requests.finish()


def _add(requests: Requests, lines: list[tuple[bytes, ...]]) -> None:
    if not lines:
        return
    comm, pid, seconds, fraction, event, major, minor, kind, _, sector, _, extent, name = zip(
        *lines, strict=True
    )
    count = len(lines)
    events = np.zeros(count, EVENT)
    events["ts"] = np.array(seconds, np.int64) * 1_000_000_000 + [int(f.ljust(9, b"0")) for f in fraction]
    events["dev"] = (np.array(major, np.int64) << 20) | np.array(minor, np.int64)
    events["pid"] = np.array(pid, np.int64)
    events["action"] = [_ACTIONS[e] for e in event]
    events["sector"] = [place if (place := int(s)) < _TOP_SECTOR else 0 for s in sector]
    extents = np.array([int(e) for e in extent], np.int64)
    split = events["action"] == SPLIT
    # of a split, the event says where the second part begins, but not how long it is
    events["bytes"] = np.where(split, SECTOR, np.minimum(extents, 1 << 31) * SECTOR)
    events["sector"][split] = extents[split]
    write = np.array([b"W" in k for k in kind], bool)
    discard = np.array([b"D" in k for k in kind], bool)
    events["op"] = operation(write, discard, events["bytes"])
    complete = events["action"] == COMPLETE
    # a completion has its error in place of a command's name
    for at in np.flatnonzero(complete).tolist():
        error = name[at].lstrip(b"-")
        if error not in (b"0", b"") and error.isdigit() and len(error) < 6:
            events["errno"][at] = int(error)
    # interrupts complete requests in whoever's place
    issued = ~complete
    requests.names.update({
        int(p): c.decode("utf-8", "replace")
        for p, c in {(pid[at], comm[at]) for at in np.flatnonzero(issued).tolist()}
    })  # fmt: skip
    requests.add(events)
