"""VMware's vscsi traces (the CloudPhysics traces): little-endian records of 32 bytes (version 1) or 40 (2).

Layout as published with the traces (vscsi.h of libCacheSim, by CloudPhysics): the version is the upper byte
of field `ver`, times are µs, `lbn` counts sectors of 512 bytes, `len` is bytes, `cmd` is the SCSI command.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from iotrail.errors import TraceError
from iotrail.importers.base import DISCARD, FLUSH, READ, RELATIVE_START, WRITE, Actor, BlockRows, Job
from iotrail.importers.binary import records

_V1 = np.dtype(
    [
        ("sn", "<u4"),
        ("len", "<u4"),
        ("nsg", "<u4"),
        ("cmd", "<u2"),
        ("ver", "<u2"),
        ("lbn", "<u8"),
        ("ts", "<u8"),
    ]
)
_V2 = np.dtype(
    [
        ("cmd", "<u2"),
        ("ver", "<u2"),
        ("sn", "<u4"),
        ("len", "<u4"),
        ("nsg", "<u4"),
        ("lbn", "<u8"),
        ("ts", "<u8"),
        ("rt", "<u8"),
    ]
)
# SCSI commands (SBC-4): READ and WRITE of 6, 10, 12, 16 bytes, SYNCHRONIZE CACHE, UNMAP, WRITE SAME.
_COMMANDS = {
    READ: (0x08, 0x28, 0xA8, 0x88),
    WRITE: (0x0A, 0x2A, 0xAA, 0x8A),
    FLUSH: (0x35, 0x91),
    DISCARD: (0x42, 0x41, 0x93),
}
# Records whose version must be right before a file is taken for a trace.
_LOOK = 16
# Between 2001 and 2096 in µs.
_WALL = (10**15, 4 * 10**15)
# 8 EiB; later than 2100 in µs is no time.
_TOP_SECTOR = 1 << 54
_TOP = 4_102_444_800_000_000


def _version(head: bytes) -> tuple[int, np.dtype[Any]] | None:
    for version, layout in ((1, _V1), (2, _V2)):
        count = min(len(head) // layout.itemsize, _LOOK)
        batch = np.frombuffer(head, layout, count)
        if count and np.all(batch["ver"] >> 8 == version):
            return version, layout
    return None


def looks_like(head: bytes) -> bool:
    """The first records agree on a version."""
    return len(head) >= 2 * _V2.itemsize and _version(head) is not None


def read(job: Job) -> None:
    """Import vscsi traces."""
    job.unit = "records"
    rows = BlockRows(job)
    name = job.options.device or job.node
    actor = Actor.of(job, 0, name)
    file = rows.file(name if name.startswith("/") else f"/dev/{name}")
    codes = np.full(256, -1, np.int64)
    for op, commands in _COMMANDS.items():
        codes[list(commands)] = op
    for source in job.sources:
        found = _version(source.head())
        if found is None:
            raise TraceError(
                f"{source.path}: no vscsi trace: its first records have no version 1 or 2 where they should",
                "iotrail import FILE guesses the format",
            )
        version, layout = found
        first = int(np.frombuffer(source.head(), layout, 1)["ts"][0])
        # Traces were published with times of the wall clock and, made anonymous, with times from 0.
        if _WALL[0] < first < _WALL[1]:
            job.absolute("us since 1970")
            base = 0
        else:
            job.relative("us")
            base = RELATIVE_START
        job.facts["vscsi_version"] = version
        if version == 1:
            job.facts["dur"] = "unknown: version 1 has no response times"
        for batch in records(job, source, layout):
            _add(job, rows, batch, base, codes, file, actor)
            job.read += len(batch)
    rows.finish([actor])


def _add(
    job: Job, rows: BlockRows, batch: Any, base: int, codes: npt.NDArray[np.int64], file: int, actor: Actor
) -> None:
    op = codes[batch["cmd"] & 0xFF]
    good = (op >= 0) & (batch["ts"] < _TOP) & (batch["lbn"] < _TOP_SECTOR)
    if "rt" in (batch.dtype.names or ()):
        good &= batch["rt"] < _TOP
    for at in np.flatnonzero(~good).tolist():
        why = f"command {batch['cmd'][at]:#x}" if op[at] < 0 else "a time or sector"
        job.skipped.add(
            f"{job.sources[0].path}: record {job.read + at + 1}: {why} is none that can be imported"
        )
    batch, op = batch[good], op[good]
    count = len(batch)
    rows.add(
        ts=base + batch["ts"].astype(np.int64) * 1000,
        dur=batch["rt"].astype(np.int64) * 1000 if "rt" in (batch.dtype.names or ()) else None,
        op=op,
        pos=batch["lbn"].astype(np.int64) * 512,
        length=batch["len"].astype(np.int64),
        file=np.full(count, file, np.int64),
        who=np.zeros(count, np.int64),
        thread={0: actor.thread},
    )
