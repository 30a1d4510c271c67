"""What the report shows of a block trace: requests to devices, of imported traces and of `record --kernel`.

Sizes, sequential requests, gaps, working set and offsets over time are rows of SQL modules (`block_size` and the others). Two
answers need a walk through all requests in their order, which SQL hasn't got: how long sequential streams are (chains of
module `block_link`), and the miss ratio of an LRU cache by its size (`reuse`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from iotrail.reuse import MOST_USES, Curve, Floats, Ints, followed_share, miss_ratios, use_blocks
from iotrail.trail import Trail

# Devices that have numbers of their own on the page; the others share a row.
MOST_DEVICES = 16
# Rows of gaps and of the working set that the page holds, each some three bytes of it: fewer devices are kept if they have more.
MOST_ROWS = 600_000
# Cells of maps of offsets over time.
MOST_HEAT_CELLS = 200_000
# Requests whose chains are followed: the columns of more take too much memory.
MOST_CHAINED = 50_000_000


class BlockView:
    """Collects the block view of a trail, in the shape of `Block` in `web/src/io/data.ts`."""

    def __init__(self, trail: Trail, origin: int, width: int) -> None:
        """`origin` is the start of the report's first time bucket, `width` that of each."""
        self.trail = trail
        self.origin = origin
        self.width = width
        self.kept = 0
        self.page: int = self._one("SELECT page_bytes FROM params")["page_bytes"]

    def collect(self) -> dict[str, Any] | None:
        """The view; None where the trail holds no block trace."""
        devices = self._one("SELECT COUNT(*) AS n FROM block_device")["n"]
        if devices == 0:
            return None
        self.kept = self._kept(devices)
        return {
            "page": self.page,
            "devices": self._devices(),
            "folded": devices - self.kept,
            "sizes": self._sums("block_size", "size", "n, bytes"),
            "sequential": self._sums("block_sequential", "", "n, bytes, sequential, sequential_bytes"),
            "streams": self._streams(),
            "look": self._one("SELECT stream_requests FROM params")["stream_requests"],
            "gaps": self._sums("block_gap", "bucket AS bin", "n"),
            "working": {
                "followed": self._one("SELECT COALESCE(MAX(followed), 1) AS m FROM working_set")["m"],
                **self._sums("working_set", f"COALESCE({self._bucket('before_ts')}, -1) AS before", "bytes"),
            },
            "heat": self._heat(),
            "curves": self._curves(),
        }

    def _kept(self, devices: int) -> int:
        """Of how many devices, those of most requests, the page has room for numbers of their own."""
        rows = self._columns("""
            SELECT CAST(SUM(g.n) AS BIGINT) AS n
            FROM (
                SELECT device, COUNT(*) AS n FROM block_gap GROUP BY device
                UNION ALL SELECT device, COUNT(*) FROM working_set GROUP BY device
                UNION ALL SELECT device, 0 FROM block_device
            ) AS g
            GROUP BY g.device ORDER BY g.device""")["n"]
        fitting = int(np.count_nonzero(np.cumsum(rows) <= MOST_ROWS))
        return max(1, min(devices, MOST_DEVICES, fitting))

    def _devices(self) -> dict[str, list[Any]]:
        """The devices that are kept, and as the last of them the sums of all others."""
        return self._columns(f"""
            SELECT
                CASE WHEN COUNT(*) = 1 THEN MAX(dev) ELSE printf('%,d other devices', COUNT(*)) END AS name,
                CASE WHEN COUNT(*) = 1 THEN MAX(d.node) END AS node,
                CASE WHEN COUNT(*) = 1 THEN MAX(f.i) END AS file,
                CAST(SUM(reads) AS BIGINT) AS reads, CAST(SUM(writes) AS BIGINT) AS writes,
                CAST(SUM(others) AS BIGINT) AS others, CAST(SUM(unplaced) AS BIGINT) AS unplaced,
                MAX(tick_ns) AS tick
            FROM block_device AS d
            LEFT JOIN _report_file AS f ON f.node = d.node AND f.file = d.file
            GROUP BY {self._device} ORDER BY {self._device}""")

    @property
    def _device(self) -> str:
        """SQL: the place of a device in the page's list, where all that are folded share the last."""
        return f"CAST(LEAST(device - 1, {self.kept}) AS INTEGER)"

    def _bucket(self, ts: str) -> str:
        """SQL: the number of the time bucket that begins at `ts`."""
        return f"CAST(({ts} - {self.origin}) / {self.width} AS INTEGER)"

    def _sums(self, module: str, keys: str, sums: str) -> dict[str, list[Any]]:
        """Rows of a module by time bucket, device and kind (0 all, 1 read, 2 write), and what it has beyond."""
        keys = f"{keys}, " if keys else ""
        summed = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in sums.split(", "))
        return self._columns(f"""
            SELECT
                {self._bucket("ts")} AS at, {self._device} AS device,
                CASE kind WHEN 'read' THEN 1 WHEN 'write' THEN 2 ELSE 0 END AS kind, {keys}{summed}
            FROM {module}
            GROUP BY ALL ORDER BY ALL""")

    def _heat(self) -> list[dict[str, Any]]:
        """Offsets over time of the devices that are kept, as far as the page has room."""
        sql = f"""
            CREATE OR REPLACE TEMP TABLE _report_block_heat AS
            SELECT device, {self._bucket("ts")} AS bucket, pos, width, reads, writes, bytes_read, bytes_written
            FROM block_heat WHERE device <= {self.kept}"""
        self.trail.prepare(sql)
        with self.trail.errors(sql):
            self.trail.connection.execute(sql)
        maps: list[dict[str, Any]] = []
        room = MOST_HEAT_CELLS
        heads = self._columns("""
            SELECT device, MAX(width) AS width, MIN(pos) AS base, COUNT(*) AS n
            FROM _report_block_heat GROUP BY device ORDER BY device""")
        for device, width, base, n in zip(*heads.values(), strict=True):
            if n > room:
                continue
            room -= n
            cells = self._columns(f"""
                SELECT
                    bucket, CAST((pos - {base}) / width AS INTEGER) AS pos, reads, writes,
                    bytes_read AS readBytes, bytes_written AS writeBytes
                FROM _report_block_heat WHERE device = {device} ORDER BY 1, 2""")
            maps.append({"device": device - 1, "base": base, "width": width, **cells})
        return maps

    def _streams(self) -> dict[str, list[int]] | None:
        """Sequential streams by time bucket, device, kind and length, a power of two: requests and bytes of the bucket that are in
        such streams, and of the streams that begin in it how many, their whole requests and bytes, and the longest."""
        lines = self._columns("""
            SELECT device, is_write, COUNT(*) AS n FROM block_link GROUP BY ALL ORDER BY device, is_write""")
        total = sum(lines["n"])
        if total > MOST_CHAINED:
            return None
        # devices and kinds as one number, ascending, and where the requests of each begin
        known = np.array(lines["device"], np.int64) * 2 + np.array(lines["is_write"], np.int64)
        begins = np.cumsum([0, *lines["n"]])[:-1]
        at, length, line = (np.zeros(total, np.int64) for _ in range(3))
        last = np.full(total, -1, np.int64)
        for rows in self._batches(f"""
            SELECT
                device, is_write, turn, COALESCE(after_turn, 0) AS after_turn, length, {self._device} AS d,
                {self._bucket(f"ts - ts % {self.width}")} AS at
            FROM block_link"""):
            begin = begins[np.searchsorted(known, rows["device"] * 2 + rows["is_write"])]
            place = begin + rows["turn"] - 1
            at[place], length[place] = rows["at"], rows["length"]
            line[place] = rows["d"] * 2 + rows["is_write"]
            last[place] = np.where(rows["after_turn"] > 0, begin + rows["after_turn"] - 1, -1)
        head = chain_heads(last)
        requests = np.bincount(head, minlength=total)
        whole = np.bincount(head, weights=length, minlength=total).astype(np.int64)
        within = np.flatnonzero(requests[head] > 1)
        octave = np.frexp(requests[head[within]].astype(np.float64))[1] - 1
        key = (at[within] * (2 * (self.kept + 1)) + line[within]) * 64 + octave
        rows_of, which = np.unique(key, return_inverse=True)
        is_head = within[head[within] == within]
        which_head = which[head[within] == within]
        longest = np.zeros(len(rows_of), np.int64)
        np.maximum.at(longest, which_head, requests[is_head])

        def summed(values: Any, of: Any = which) -> list[int]:
            sums: list[int] = (
                np.bincount(of, weights=values, minlength=len(rows_of)).astype(np.int64).tolist()
            )
            return sums

        lines_of = rows_of // 64 % (2 * (self.kept + 1))
        return {
            "at": (rows_of // 64 // (2 * (self.kept + 1))).tolist(),
            "device": (lines_of // 2).tolist(),
            "kind": (lines_of % 2 + 1).tolist(),
            "octave": (rows_of % 64).tolist(),
            "n": summed(np.ones(len(within))),
            "bytes": summed(length[within]),
            "streams": summed(np.ones(len(is_head)), which_head),
            "requests": summed(requests[is_head], which_head),
            "whole": summed(whole[is_head], which_head),
            "longest": longest.tolist(),
        }

    def _curves(self) -> list[dict[str, Any]]:
        """Miss ratios of LRU caches: one for all devices together (`device` null), one for each device that is kept."""
        parts = list(
            self._batches(f"""
            SELECT
                ts, COALESCE(trace_row, 0) AS trace_row, device, CAST((pos - pos % {self.page}) / {self.page} AS BIGINT) AS first,
                CAST((pos + length - 1 - (pos + length - 1) % {self.page} - pos + pos % {self.page}) / {self.page} AS BIGINT) + 1
                    AS count,
                is_write
            FROM block_request
            WHERE pos IS NOT NULL""")
        )
        if not parts:
            return []
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        del parts
        keys = [columns.pop(name) for name in ("ts", "trace_row")]
        step, row_step = np.diff(keys[0]), np.diff(keys[1])
        # rows of a trace of one thread come in its order
        if ((step < 0) | ((step == 0) & (row_step <= 0))).any():
            order = np.lexsort((columns["first"], columns["device"], keys[1], keys[0]))
            columns = {name: values[order] for name, values in columns.items()}
        if columns["count"].sum() > MOST_USES:
            return []
        device, first, count = columns["device"], columns["first"], columns["count"]
        is_write = columns["is_write"].astype(np.bool_)
        del columns, keys, step, row_step
        # all devices are walked once together, and once each if there are several
        found = np.unique(device)
        walks = 2 if len(found) > 1 else 1
        rate = followed_share(walks * int(count.sum()))
        curves = [_curve(None, device, first, count, is_write, rate, self.page)]
        for one in found[found <= self.kept].tolist() if walks == 2 else []:
            of = device == one
            curves.append(_curve(one - 1, device[of], first[of], count[of], is_write[of], rate, self.page))
        return curves

    def _one(self, sql: str) -> dict[str, Any]:
        return self.trail.rows_of(sql)[0]

    def _columns(self, sql: str) -> dict[str, list[Any]]:
        relation = self.trail.query(sql)
        with self.trail.errors(sql):
            table = relation.to_arrow_table()
        return {name: table.column(name).to_pylist() for name in table.column_names}

    def _batches(self, sql: str) -> Iterator[dict[str, Ints]]:
        """Columns of a long result, some hundred thousand rows at a time."""
        relation = self.trail.query(sql)
        with self.trail.errors(sql):
            for batch in relation.to_arrow_reader(1 << 19):
                yield {
                    name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
                    for name in batch.schema.names
                }


def chain_heads(last: Ints) -> Ints:
    """Of each element of chains the first of its chain, by the one before it (-1: none). Doubles its steps."""
    head = np.where(last >= 0, last, np.arange(len(last)))
    moving = np.flatnonzero(last >= 0)
    while len(moving):
        further = head[head[moving]]
        changed = further != head[moving]
        head[moving] = further
        moving = moving[changed]
    return head


def _curve(
    place: int | None, device: Ints, first: Ints, count: Ints, is_write: Any, rate: float, page: int
) -> dict[str, Any]:
    uses = use_blocks(device, first, count, is_write, rate)
    curve: Curve = miss_ratios(uses)

    def rounded(values: Floats | None) -> list[float] | None:
        return None if values is None else np.round(values, 5).tolist()

    return {
        "device": place,
        "uses": uses.reads + uses.writes,
        "size": (curve.size * page).tolist(),
        "all": rounded(curve.all),
        "read": rounded(curve.read),
        "write": rounded(curve.write),
        "rate": curve.rate,
        "error": curve.error,
    }
