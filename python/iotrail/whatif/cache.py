"""`iotrail whatif cache`: what caches of some sizes and policies would have missed.

`iotrail-native simulate cache` has the policies (crates/sim). Misses are exact: a
cache that holds as many blocks and is empty at first is simulated use by use, in the order in which calls began.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.simulator import simulate

POLICIES = ("lru", "fifo", "clock", "lfu", "2q", "arc", "s3-fifo", "sieve")


@dataclass(frozen=True)
class Accesses:
    """A query for reads and writes in their order, and what it leaves out."""

    # columns device, pos, length, write
    query: str
    # what they are, in the plural
    name: str
    # those without a known place
    left_out: int


def accesses(trail: Trail, of: str | None, node: str | None) -> Accesses:
    """Reads and writes of files, or of disks where a trail has no others; of all machines, or of one.

    Raises:
        TrailError: there are none with a known place.
    """
    chosen = "" if node is None else f" AND o.node = {_quoted(node)}"
    kinds = {
        "files": (
            "reads and writes of files",
            "file_op AS o INNER JOIN call AS c ON c.call = o.call",
            f"c.kind IN ('read', 'write') AND COALESCE(o.result, 1) > 0{chosen}",
            "o.file IS NOT NULL AND o.pos IS NOT NULL AND o.result IS NOT NULL",
            "CAST(hash(o.node, o.file) >> 1 AS BIGINT) AS device, o.pos, o.result AS length, c.kind = 'write' AS write",
            "o.ts, o.trace_row, o.thread, o.pos",
        ),
        "disks": (
            "requests of disks",
            "disk_op AS o",
            f"o.op IN ('read', 'write') AND o.length > 0{chosen}",
            "o.dev IS NOT NULL AND o.pos IS NOT NULL",
            "CAST(hash(o.node, o.dev) >> 1 AS BIGINT) AS device, o.pos, o.length, o.op = 'write' AS write",
            "o.ts, o.thread, o.pos",
        ),
    }
    for kind in ("files", "disks") if of is None else (of,):
        name, rows, wanted, known, columns, order = kinds[kind]
        [[count, placed]] = trail.query(
            f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {known}) FROM {rows} WHERE {wanted}"
        ).fetchall()
        if placed:
            query = f"SELECT {columns} FROM {rows} WHERE {wanted} AND {known} ORDER BY {order}"
            return Accesses(query, name, count - placed)
    where = "" if node is None else f" of machine {node}"
    names = " or ".join(kinds[kind][0] for kind in (("files", "disks") if of is None else (of,)))
    raise TrailError(
        f"{trail.path}: no {names}{where} with a known place",
        "iotrail record, or iotrail import of a block trace, makes such",
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def run(
    trail: Trail,
    *,
    policies: Sequence[str],
    sizes: Sequence[int],
    block: int,
    of: str | None,
    node: str | None,
    as_json: bool,
) -> None:
    """Print what such caches miss.

    Raises:
        UsageError: a policy that isn't known, or a size smaller than a block.
    """
    for policy in policies:
        if policy not in POLICIES:
            raise UsageError(f"--policy: expected some of {', '.join(POLICIES)}, found {policy}")
    for size in sizes:
        if size < block:
            raise UsageError(
                f"--size: expected {units.size(block)} (a block) or more, found {units.size(size)}",
                "--block makes blocks smaller",
            )
    if node is not None and node not in (
        known := [row["node"] for row in trail.rows_of("FROM process SELECT DISTINCT node")]
    ):
        raise UsageError(f"--node: there is no machine {node}", f"there are {', '.join(sorted(known))}")
    chosen = accesses(trail, of, node)
    arguments = ["cache", "--block", str(block)]
    if policies:
        arguments += ["--policy", ",".join(policies)]
    if sizes:
        arguments += ["--size", ",".join(map(str, sizes))]
    found = simulate(trail, chosen.query, arguments)
    if as_json:
        print(json.dumps({"of": chosen.name, "left_out": chosen.left_out, **found}))
        return
    _show(found, chosen)


def _show(found: dict[str, Any], chosen: Accesses) -> None:
    console = Console(piped=120)
    uses = {"read": found["reads"], "write": found["writes"]}
    block = units.size(found["block_bytes"])
    parts = [f"{count:,} {'reads' if kind == 'read' else 'writes'}" for kind, count in uses.items() if count]
    everything = units.size(found["blocks"] * found["block_bytes"])
    console.print(
        f"{' and '.join(parts)} of blocks of {block}, of {chosen.name}; {found['blocks']:,} different blocks, {everything}"
    )
    for kind, count in uses.items():
        if not count:
            continue
        first = found[f"first_{kind}s"]
        table = Table(
            title=f"{kind}s missed, of which {units.human(first / count, 'share')} are the first use of their block",
            title_justify="left",
            box=rich.box.SIMPLE_HEAD,
        )
        table.add_column("cache", justify="right")
        for policy in found["policies"]:
            table.add_column(policy["policy"], justify="right")
        rows = zip(found["policies"][0]["size"], *(policy[kind] for policy in found["policies"]), strict=True)
        for size, *misses in rows:
            best = min(misses)
            cells = [Text(units.human(n / count, "share"), "bold" if n == best else "") for n in misses]
            table.add_row(units.size(size * found["block_bytes"]), *cells)
        console.print(table)
    if chosen.left_out:
        console.print(f"left out: {chosen.left_out:,} without a known place")
