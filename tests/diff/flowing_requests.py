"""Trails of a simulated store: a head, a metadata server and a storage node with a disk, two clocks, drifting.

Reads hit the head's cache or ask storage, which asks its disk; writes always do. All times carry a slow common factor
(a random walk that returns) and noise of their own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from iotrail import native, schema
from tests.sql.tiny import ARROW, ingest

START = 1_700_000_000_000_000_000
# the storage node's clock is an hour ahead
AHEAD = 3_600_000_000_000
US = 1000
MS = 1_000_000


class _Rows:
    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}

    def post(self, table: str, node: str, crumb: int, ts: float, dur: float, **more: Any) -> None:
        shift = AHEAD if node == "s1" else 0
        row = {
            "node": node,
            "thread": 1,
            "crumb": crumb,
            "ts": START + shift + int(ts),
            "dur": int(dur),
            **more,
        }
        self.tables.setdefault(table, []).append(row)

    def stitch(self, node: str, crumb: int, ts: float, parent_node: str, parent: int, kind: str) -> None:
        more = {"parent_node": parent_node, "parent_crumb": parent, "kind": kind, "weight": 1}
        self.post("stitch", node, crumb, ts, 0, **more)

    def serve(
        self, node: str, crumb: int, ts: float, dur: float, component: str, kind: str, op: str, **more: Any
    ) -> None:
        self.post("service_op", node, crumb, ts, dur, component=component, kind=kind, op=op, status=0, **more)


def store(
    seed: int,
    requests: int = 600,
    slower: Mapping[str, float] | None = None,
    lookup: bool = False,
    hits: float = 0.4,
    memory: float = 0.98,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of a run. `slower` adds ns to a step: arrived, sent, disk, back; `lookup` adds a call of the MDS."""
    random, slower = np.random.default_rng(seed), slower or {}
    drift = np.zeros(requests)
    for i, step in enumerate(random.normal(0, 0.06, requests)):
        drift[i] = memory * drift[i - 1] + step
    mood = np.exp(drift)
    now, crumb, rows = 0.0, 0, _Rows()

    def took(name: str, typical: float, i: int) -> float:
        return typical * mood[i] * np.exp(random.normal(0, 0.2)) + slower.get(name, 0.0)

    for i in range(requests):
        now += random.exponential(3 * MS)
        root, crumb = crumb + 1, crumb + 6
        op = "write" if random.random() < 0.3 else "read"
        hit = op == "read" and random.random() < hits
        at = now + took("arrived", 20 * US, i)
        access = op if op == "write" else "read_hit" if hit else "read_miss"
        rows.post("buffer_op", "head", root, at, 0, component="head", cache="pages", kind=access, length=4096)
        if lookup and not hit:
            at += took("asks", 15 * US, i)
            there, back, served = (took("sent", 100 * US, i) for _ in range(3))
            rows.stitch("head", root + 3, at, "head", root, "split")
            rows.serve("head", root + 3, at, there + served + back, "head", "client", "lookup")
            rows.stitch("s1", root + 4, at + there, "head", root + 3, "rpc")
            rows.serve("s1", root + 4, at + there, served, "mds", "server", "lookup")
            at += there + served + back
        if not hit:
            at += took("calls", 10 * US, i)
            there, back = took("sent", 150 * US, i), took("back", 150 * US, i)
            queued, issued, disk = (
                took("queued", 40 * US, i),
                took("disk", 30 * US, i),
                took("service", 700 * US, i),
            )
            served = queued + issued + disk + took("done", 25 * US, i)
            arrived = at + there
            rows.stitch("head", root + 1, at, "head", root, "split")
            rows.serve("head", root + 1, at, there + served + back, "head", "client", op)
            rows.post(
                "network_transmit", "head", root + 1, at, 0, sender="head", receiver="storage", length=200
            )
            rows.stitch("s1", root + 2, arrived, "head", root + 1, "rpc")
            rows.serve("s1", root + 2, arrived, served, "storage", "server", op)
            place = arrived + queued
            more = {"kind": "program", "dev": "sda", "op": op, "pos": 0, "length": 4096, "merged": 0}
            more["issued"] = START + AHEAD + int(place + issued)
            rows.post("disk_op", "s1", root + 2, place, issued + disk, **more)
            at += there + served + back
        at += took("answers", 20 * US, i)
        rows.serve("head", root, now, at - now, "head", "server", op, client="alice", length=4096)
    return rows.tables


def write(rows: Mapping[str, list[dict[str, Any]]], trail: Path) -> Path:
    """Write a trail of these rows."""
    trail.parent.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name, given in rows.items():
        columns = schema.load().tables[name].columns
        tables[name] = pa.table(
            {c.name: pa.array([row.get(c.name) for row in given], ARROW[c.type]) for c in columns}
        )
    return ingest(native.binary(), tables, trail)
