"""HP Labs' disk traces (SRT 1.x, big-endian): a header of text up to a form feed, then records.

Layout as in HP's trace library (`hpl_short_iorec_ki`, which DiskSim 4.0 reads too): size and kind of the
record, time it was queued (s and µs since the trace began), start and stop of service in µs after that, bytes,
sector, device, driver, cylinder, flags, origin, from version 4 the queue's length. Response time is
`stop`. Sectors are of the size the header gives for the disk.
"""

import datetime
import re
from typing import Any

import numpy as np

from iotrail.errors import TraceError
from iotrail.importers.base import READ, RELATIVE_START, TOP_TIME, WRITE, Actor, BlockRows, Job
from iotrail.importers.binary import records

MAGIC = b"$$TR_IOREC"
_FIELDS = (
    *("size", "kind", "sec", "usec", "start", "stop", "length"),
    *("sector", "devno", "driver", "cylinder", "flags", "info"),
)
# Words of a record; version 4 adds the queue's length, a suspect one its flags.
_BASE = len(_FIELDS)
_SHORT, _SUSPECT = 1, 4
# HP-UX 8.0, sys/buf.h
_B_READ, _B_ERROR = 1, 4
_EIO = 5


def looks_like(head: bytes) -> bool:
    """The header begins with its name."""
    return head.startswith(MAGIC)


def read(job: Job) -> None:
    """Import SRT traces."""
    job.unit = "records"
    rows = BlockRows(job)
    actors: dict[int, Actor] = {}
    for source in job.sources:
        head = source.head()
        end = head.find(b"\f")
        if not head.startswith(MAGIC) or end < 0:
            raise TraceError(
                f"{source.path}: no SRT trace: expected {MAGIC.decode()} … up to a form feed at its start"
            )
        header = head[:end].decode("latin-1")
        base = _start(job, header)
        sectors = _sector_sizes(header)
        kind = head[end + 5 : end + 9]
        # what is too short for a first record is cut off, whatever it says
        words = int.from_bytes(head[end + 1 : end + 5], "big") // 4 if len(kind) == 4 else _BASE
        if not _BASE <= words <= _BASE + 2:
            raise TraceError(
                f"{source.path}: record 1: {words * 4} bytes long; expected {_BASE * 4} to {_BASE * 4 + 8}"
            )
        layout = np.dtype(
            [*((name, ">u4") for name in _FIELDS), *((f"x{i}", ">u4") for i in range(words - _BASE))]
        )
        count = 0
        for batch in records(job, source, layout, end + 1):
            good = (batch["size"] == words * 4) & np.isin(batch["kind"] & 0xFFFF, (_SHORT, _SUSPECT))
            if not good.all():
                first = int(np.argmin(good))
                raise TraceError(
                    f"{source.path}: record {count + first + 1}: size {batch['size'][first]}, kind {batch['kind'][first]:#x};"
                    f" expected size {words * 4} and kind 1 or 4",
                    "records of mixed sizes aren't read: split the trace",
                )
            count += len(batch)
            _add(rows, batch, base, sectors, actors)
        job.read += count
    rows.finish(actors.values())


def _add(rows: BlockRows, batch: Any, base: int, sectors: dict[int, int], actors: dict[int, Actor]) -> None:
    disks = (batch["devno"].astype(np.int64) >> 8) & 0xFF
    flags = batch["flags"]
    files, sizes = np.zeros(256, np.int64), np.full(256, 256, np.int64)
    for disk in np.unique(disks).tolist():
        files[disk] = rows.file(f"/dev/disk{disk}")
        sizes[disk] = sectors.get(disk, 256)
        if disk not in actors:
            actors[disk] = Actor.of(rows.job, disk, f"disk{disk}")
    rows.add(
        ts=base + batch["sec"].astype(np.int64) * 1_000_000_000 + batch["usec"].astype(np.int64) * 1000,
        dur=batch["stop"].astype(np.int64) * 1000,
        op=np.where(flags & _B_READ, READ, WRITE),
        pos=batch["sector"].astype(np.int64) * sizes[disks],
        length=batch["length"].astype(np.int64),
        errno=np.where(flags & _B_ERROR, _EIO, 0).astype(np.int64),
        file=files[disks],
        who=disks,
        thread={actor.code: actor.thread for actor in actors.values()},
    )


def _start(job: Job, header: str) -> int:
    """The moment the trace counts from."""
    if match := re.search(r'tracedate\s*=\s*"([^"]+)"', header):
        try:
            date = datetime.datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y").replace(tzinfo=datetime.UTC)
            start = int(date.timestamp()) * 1_000_000_000
        except ValueError:
            start = -1
        if 0 <= start < TOP_TIME:
            job.absolute("us")
            job.facts["time_start"] = f"{match[1]} by the trace's header, taken as UTC: it names no time zone"
            return start
    job.relative("us", "its header names no date")
    return RELATIVE_START


def _sector_sizes(header: str) -> dict[int, int]:
    """Disk -> bytes of a sector, as the header's disks = { 0 -> { … sectorsize = 256, … says."""
    disks = header.partition("disks")[2]
    found: dict[int, int] = {}
    # one disk after the other, each up to the next: a search for all at once would take the header's length squared
    starts = [*re.finditer(r"(?<!\d)(\d{1,3}) -> \{", disks)]
    ends = [match.start() for match in starts[1:]]
    for start, end in zip(
        starts, [*ends, None], strict=False
    ):  # one more than disks, and none if there is no disk
        disk = disks[start.end() : end]
        # a disk's number is a byte; sectors of more are garbage
        size = re.search(r"sectorsize\s*=\s*(\d{1,6})(?!\d)", disk)
        if disk.lstrip().startswith("disktype") and size:
            found[int(start[1])] = int(size[1])
    return found
