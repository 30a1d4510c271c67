"""oracleGeneral, the binary requests of libCacheSim (libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h).

24 bytes a request, little-endian, packed: u32 time in seconds, u64 object, u32 size, i64 number of the request that
uses the object next (from 1), -1 if none does. There is nothing else in it: not whether a request reads or writes, nor
how long it took. An object of a trace in which all have one size (pages, blocks) lies at its number times that size on
one device, so that neighbours are neighbours; any other is a file of its own, read from its beginning.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from iotrail.errors import TraceError
from iotrail.importers.base import READ, RELATIVE_START, Actor, BlockRows, Job
from iotrail.importers.binary import records

REQUEST = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
# Requests that must look right before a file is taken for a trace.
_LOOK = 1000
# Files an import makes at most: each takes some hundred bytes until the end.
_MOST_FILES = 5_000_000


def looks_like(head: bytes) -> bool:
    """Times don't go backwards, sizes are no zeros, and each next use is later, or none."""
    count = min(len(head) // REQUEST.itemsize, _LOOK)
    if count < 2:
        return False
    batch = np.frombuffer(head, REQUEST, count)
    later = (batch["next"] == -1) | ((batch["next"] > np.arange(1, count + 1)) & (batch["next"] < 1 << 48))
    return bool((np.diff(batch["time"].astype(np.int64)) >= 0).all() and batch["size"].all() and later.all())


def read(job: Job) -> None:
    """Import requests."""
    job.unit = "records"
    job.relative("s")
    job.facts["dur"] = "unknown: the trace has no response times"
    job.facts["op"] = "unknown: the trace doesn't say what reads and what writes; all are reads"
    job.note("the trace doesn't say which requests write: all are imported as reads")
    rows = BlockRows(job)
    name = job.options.device or job.node
    device = rows.file(name if name.startswith("/") else f"/dev/{name}")
    actor = Actor.of(job, 0, name)
    size = 0
    for source in job.sources:
        for batch in records(job, source, REQUEST):
            size = size or _page(batch)
            _add(job, rows, batch, size, device, actor)
            job.read += len(batch)
    if size:
        job.facts["object_bytes"] = size
    rows.finish([actor])


def _page(batch: npt.NDArray[np.void]) -> int:
    """The size of all objects; -1 if they have several, or numbers that are no places."""
    size = int(batch["size"][0])
    same = (batch["size"] == size).all() and (batch["object"] < (1 << 62) // max(size, 1)).all()
    return size if same else -1


def _add(
    job: Job, rows: BlockRows, batch: npt.NDArray[np.void], page: int, device: int, actor: Actor
) -> None:
    count = len(batch)
    objects = batch["object"]
    placed: Any = (batch["size"] == page) & (objects < (1 << 62) // max(page, 1))
    pos = np.zeros(count, np.int64)
    pos[placed] = objects[placed].astype(np.int64) * page
    file = np.full(count, device, np.int64)
    if not placed.all():
        numbers, which = np.unique(objects[~placed], return_inverse=True)
        if len(rows.files) + len(numbers) > _MOST_FILES:
            raise TraceError(
                f"{job.sources[0].path}: more than {_MOST_FILES:,} objects of different sizes",
                "import a part of the trace",
            )
        file[~placed] = np.array([rows.file(f"object/{number}") for number in numbers.tolist()], np.int64)[
            which
        ]
    rows.add(
        ts=RELATIVE_START + batch["time"].astype(np.int64) * 1_000_000_000,
        op=np.full(count, READ, np.int64),
        pos=pos,
        length=batch["size"].astype(np.int64),
        file=file,
        who=np.zeros(count, np.int64),
        thread={0: actor.thread},
    )
