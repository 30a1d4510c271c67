"""oracleGeneral, the binary requests of libCacheSim (libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h).

24 bytes a request, little-endian, packed: u32 time in seconds since the first, u64 object, u32 size, i64 number of the
request (from 1) that uses the object next, -1 if none does. An object is a page of a file: a read or write of many
pages is as many requests, in order of position. Only reads and writes at a known offset that moved bytes are in it.
"""

from pathlib import Path

import numpy as np

from iotrail.errors import QueryError, UsageError
from iotrail.trail import Trail

# Pages of one call, which are held in memory: 128 GiB of 4096 bytes. Linux moves at most 2 GiB a call (read(2)).
MOST_PAGES = 1 << 25
REQUEST = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])


def write(trail: Trail, output: Path, *, page: int, **_: object) -> None:
    """Write the file."""
    if not 0 < page < 2**32:
        raise UsageError(f"--page {page}: expected 1 to {2**32 - 1} bytes", "--page 4096")
    [largest] = trail.rows_of(
        "SELECT MAX(moved) AS bytes FROM bare_op WHERE pos IS NOT NULL AND file IS NOT NULL"
    )
    if (largest["bytes"] or 0) // page > MOST_PAGES:
        raise QueryError(
            f"{trail.path}: a call moved {largest['bytes']} bytes: expected at most {MOST_PAGES * page}, "
            f"{MOST_PAGES} pages of {page}",
            "a larger --page",
        )
    query = f"""
        WITH request AS (
            SELECT
                ts, hash(node, file, number) AS object,
                ROW_NUMBER() OVER (ORDER BY ts, trace_row, thread, number) AS place
            FROM (
                SELECT ts, trace_row, thread, node, file, UNNEST(range(pos // {page}, (pos + moved - 1) // {page} + 1)) AS number
                FROM bare_op WHERE moved > 0 AND pos IS NOT NULL AND file IS NOT NULL
            )
        )
        SELECT
            CAST((ts - MIN(ts) OVER ()) // 1000000000 AS UINTEGER) AS time, object,
            COALESCE(LEAD(place) OVER (PARTITION BY object ORDER BY place), -1) AS next
        FROM request ORDER BY place"""
    relation = trail.query(query)
    with trail.errors(query), output.open("wb") as file:
        for batch in relation.to_arrow_reader(1 << 17):
            rows = np.empty(batch.num_rows, REQUEST)
            for number, name in enumerate(("time", "object", "next")):
                rows[name] = batch.column(number).to_numpy(zero_copy_only=False)
            rows["size"] = page
            rows.tofile(file)
