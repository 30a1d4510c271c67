"""fio's latency logs (`write_lat_log`): a line an I/O, `time_ms, value, direction, bytes, offset[, priority]`.

fio 3.x, HOWTO "Log File Formats". NAME_lat.N.log has the time from submission (with slat) to completion in ns, and
NAME_clat.N.log from issue to completion; the time in ms is that of the completion, and the offset is there with
`log_offset=1`, else 0 in all lines. Completions within a millisecond are taken as evenly spread, in the log's order. Logs of submissions (_slat), bandwidth (_bw) and IOPS (_iops) have no I/O in them
that could be told from another: they are refused, and so are averages (`log_avg_msec`), whose size is 0.
"""

import re
from typing import Any

import numpy as np

from iotrail.errors import TraceError
from iotrail.importers.base import (
    DISCARD,
    READ,
    RELATIVE_START,
    WRITE,
    Actor,
    BlockRows,
    Job,
    match_lines,
)

_LINE = re.compile(
    rb"^(\d{1,12}), (\d{1,18}), ([012]), (\d{1,12}), (\d{1,18})(?:, (?:0x[0-9a-fA-F]{1,8}|\d{1,8}))*[ \t]*\r?$",
    re.MULTILINE,
)
_NEVER = re.compile(rb"(?!)")
_KIND = re.compile(r"(?:.*_)?(lat|clat|slat|bw|iops)(?:\.(\d{1,6}))?\.log")
_REFUSED = {
    "slat": "the time of submissions only",
    "bw": "bandwidths",
    "iops": "operations per second",
}


def looks_like(head: bytes) -> bool:
    """Nearly all of the first lines have the log's columns, and sizes."""
    lines = [line for line in head.split(b"\n")[:-1][:200] if line.strip()] or [head.strip()]
    found = [match for line in lines if (match := _LINE.fullmatch(line[:200]))]
    return len(found) * 10 >= len(lines) * 9 and any(match[4] != b"0" for match in found)


def read(job: Job) -> None:
    """Import logs; each is a job's."""
    job.relative("ms", "the trace counts from the job's start")
    rows = BlockRows(job)
    actors = []
    for number, source in enumerate(job.sources):
        match = _KIND.fullmatch(source.name)
        kind = match[1] if match else "lat"
        if kind in _REFUSED:
            raise TraceError(
                f"{source.path}: a log of {_REFUSED[kind]}, not of I/O",
                f"import NAME_lat.{(match and match[2]) or 1}.log or NAME_clat.{(match and match[2]) or 1}.log",
            )
        job.facts["dur"] = (
            "issue to completion, without submission (clat)" if kind == "clat" else "submission to completion"
        )
        stem = source.name.removesuffix(".log")
        actor = Actor.of(job, number, stem)
        actors.append(actor)
        file = rows.file(job.options.device or f"/dev/{stem}")
        offsets = False
        for first, block in job.lines(source):
            lines = match_lines(job, source, first, block, _LINE, _NEVER)
            if not lines:
                continue
            time_ms, value, direction, size, offset = np.array(lines, np.int64).T
            averages = size == 0
            if averages.any():
                at = int(np.argmax(averages))
                job.skipped.add(
                    f"{source.path}: an average, not an I/O (log_avg_msec): time {time_ms[at]} ms, size 0",
                    int(averages.sum()),
                )
            keep = ~averages
            offsets |= bool(offset.any())
            took = value[keep]
            begun = _completions(time_ms[keep]) - took
            rows.add(
                ts=RELATIVE_START + begun,
                dur=took,
                op=np.array([READ, WRITE, DISCARD])[direction[keep]],
                pos=offset[keep],
                length=size[keep],
                file=np.full(int(keep.sum()), file),
                who=np.full(int(keep.sum()), number),
                thread={number: actor.thread},
                order=np.arange(rows.rows, rows.rows + int(keep.sum())),
                no_pos=not offsets,
            )
        if not offsets:
            job.facts["pos"] = "unknown: no log_offset=1"
            job.note(f"{source.path}: no offset but 0: without log_offset=1 fio doesn't write them")
    rows.finish(actors)


def _completions(time_ms: Any) -> Any:
    """Completions in ns of whole ms in the log's order (arrays of int64): those of one ms are spread over it."""
    first = np.flatnonzero(np.diff(time_ms, prepend=-1))
    count = np.diff(first, append=len(time_ms))
    place = np.arange(len(time_ms)) - np.repeat(first, count)
    return time_ms * 1_000_000 + (place * 2 + 1) * 500_000 // np.repeat(count, count)
