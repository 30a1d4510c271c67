"""biosnoop's text, of BCC (tools/biosnoop.py) and of libbpf-tools: a line a request, when it completed.

    TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)
    0.000004    supervise      1950   xvda1   W 13092560   4096      0.01    0.74

The header says which columns there are: QUE(ms), the time in the queue, with -Q. TIME counts from the first; LAT is
from the issue to the completion, so that a request began QUE and LAT before its TIME.
"""

import re

import numpy as np

from iotrail.errors import TraceError
from iotrail.importers.base import (
    DISCARD,
    FLUSH,
    READ,
    RELATIVE_START,
    WRITE,
    Actor,
    BlockRows,
    Job,
    match_lines,
)

_HEADER = re.compile(rb"TIME\(s\)[^\n]{0,200}LAT\(ms\)[^\n]{0,100}")
# Between columns. Possessive: what it took it doesn't give back, or spaces would be shared out in all possible ways.
_GAP = rb"[ \t]++"
# Columns of the header -> what a line has there.
_COLUMNS = {
    b"TIME(s)": rb"(?P<time>\d{1,10}\.\d{1,9})",
    b"COMM": rb"(?P<comm>\S[^\n]{0,31}?)",
    b"PID": rb"(?P<pid>-?\d{1,10})",
    b"DISK": rb"(?P<disk>[^ \n]{1,64})",
    b"T": rb"(?P<op>[A-Z]{1,8})",
    b"SECTOR": rb"(?P<sector>-?\d{1,20})",
    b"BYTES": rb"(?P<bytes>\d{1,12})",
    b"QUE(ms)": rb"(?P<queued>-?\d{1,10}(?:\.\d{1,6})?)",
    b"LAT(ms)": rb"(?P<latency>\d{1,10}(?:\.\d{1,6})?)",
    b"PATTERN": rb"\w{1,12}",
}
_NEEDED = (b"TIME(s)", b"PID", b"DISK", b"T", b"SECTOR", b"BYTES", b"LAT(ms)")
_OTHER = re.compile(rb"TIME\(s\)|Tracing block device I/O|\s*$")
_TOP_SECTOR = 1 << 53


def looks_like(head: bytes) -> bool:
    """The header is there, perhaps behind a line that says that it traces."""
    return any(_HEADER.fullmatch(line.strip()[:400]) is not None for line in head[:1000].split(b"\n")[:3])


def read(job: Job) -> None:
    """Import biosnoop's output."""
    job.relative("s")
    rows = BlockRows(job)
    actors: dict[int | str, Actor] = {}
    for source in job.sources:
        pattern = None
        for number, block in job.lines(source):
            pattern = pattern or _pattern(job, block)
            lines = match_lines(job, source, number, block, pattern, _OTHER)
            if lines:
                _add(job, rows, dict(zip(pattern.groupindex, zip(*lines, strict=True), strict=True)), actors)
    rows.finish(actors.values())


def _pattern(job: Job, block: bytes) -> re.Pattern[bytes]:
    header = _HEADER.search(block[:1000])
    names = header[0].split() if header else []
    if missing := [name.decode() for name in _NEEDED if name not in names]:
        raise TraceError(
            f"{job.sources[0].path}: no header of biosnoop with {', '.join(missing)}",
            "import what biosnoop printed as it is, with its header",
        )
    unknown = [name.decode("utf-8", "replace") for name in names if name not in _COLUMNS]
    if unknown:
        raise TraceError(f"{job.sources[0].path}: column {unknown[0]!r} of its header is none that is known")
    if twice := next((name.decode() for name in names if names.count(name) > 1), None):
        raise TraceError(f"{job.sources[0].path}: column {twice} is in its header twice")
    # A process may have no name.
    others = [
        rb"(?:%s)?" % column if name == b"COMM" else column
        for name in names[1:]
        for column in [_GAP + _COLUMNS[name]]
    ]
    return re.compile(rb"^[ \t]*+" + _COLUMNS[names[0]] + b"".join(others) + rb"[ \t]*+\r?$", re.MULTILINE)


def _add(
    job: Job, rows: BlockRows, columns: dict[str, tuple[bytes, ...]], actors: dict[int | str, Actor]
) -> None:
    count = len(columns["time"])
    done = _decimal(columns["time"], 9)
    took = _decimal(columns["latency"], 6)
    if "queued" in columns:
        took += np.maximum(_decimal(columns["queued"], 6), 0)
    ops = {
        word: READ if b"R" in word else DISCARD if b"D" in word else WRITE if b"W" in word else FLUSH
        for word in set(columns["op"])
    }
    length = np.array(columns["bytes"], np.int64)
    op = np.array([ops[word] for word in columns["op"]], np.int64)
    op[(length == 0) & (op == WRITE)] = FLUSH
    sector = np.array(
        [place if 0 <= (place := int(s)) < _TOP_SECTOR else 0 for s in columns["sector"]], np.int64
    )
    files = {name: rows.file(f"/dev/{name.decode('utf-8', 'replace')}") for name in set(columns["disk"])}
    comm = columns.get("comm", (b"",) * count)
    who = {}
    for pid, name in dict.fromkeys(zip(columns["pid"], comm, strict=True)):
        # a thread that took another name (execve) is the same; what nobody is known of has names only
        number = max(int(pid), 0)
        label = name.decode("utf-8", "replace").strip() or "unknown"
        key = number or label
        if key not in actors:
            actors[key] = Actor.of(job, len(actors), label, number, number or None)
        who[pid, name] = actors[key].code
    rows.add(
        ts=RELATIVE_START + done - took,
        dur=took,
        op=op,
        pos=sector * 512,
        length=length,
        file=np.array([files[name] for name in columns["disk"]], np.int64),
        who=np.array([who[pair] for pair in zip(columns["pid"], comm, strict=True)], np.int64),
        thread={actor.code: actor.thread for actor in actors.values()},
        order=np.arange(rows.rows, rows.rows + count),
    )


def _decimal(texts: tuple[bytes, ...], digits: int) -> np.typing.NDArray[np.int64]:
    """Decimals in units of 10^-digits of theirs, exact."""
    values = [text.partition(b".") for text in texts]
    return np.array([int(whole + part[:digits].ljust(digits, b"0")) for whole, _, part in values], np.int64)
