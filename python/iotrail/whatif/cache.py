"""`iotrail whatif cache`: what caches of some sizes and policies would have missed.

`iotrail-native simulate cache` has the policies (crates/sim). Misses are exact: a cache that holds as many blocks and is
empty at first is simulated use by use, in the order in which calls began. With a rate they are estimated from a sample of
the blocks (SHARDS), each with its confidence interval.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.box
from rich.table import Table

from iotrail import page, units
from iotrail.errors import TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.simulator import simulate
from iotrail.whatif.source import Source

VERB = "whatif cache"
# Blocks of a sample below which its intervals say little.
_SMALL = 1000
# Sizes for each half on a page.
_PER_HALF = 3
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

    An imported block trace has requests of disks.

    Raises:
        TrailError: there are none with a known place.
    """
    chosen = "" if node is None else f" AND o.node = {_quoted(node)}"
    kinds = {
        "files": (
            "reads and writes of files",
            "file_op AS o INNER JOIN call AS c ON c.call = o.call "
            "ANTI JOIN block_device AS d ON d.node = o.node AND d.file = o.file",
            f"c.kind IN ('read', 'write') AND COALESCE(o.result, 1) > 0{chosen}",
            "o.file IS NOT NULL AND o.pos IS NOT NULL AND o.result IS NOT NULL",
            "CAST(hash(o.node, o.file) >> 1 AS BIGINT) AS device, o.pos, o.result AS length, c.kind = 'write' AS write",
            "o.ts, o.trace_row, o.thread, o.pos",
        ),
        "disks": (
            "requests of disks",
            "device_request AS o",
            f"o.op IN (0, 1) AND COALESCE(o.length, 1) > 0{chosen}",
            "o.pos IS NOT NULL AND o.length IS NOT NULL",
            "o.device, o.pos, o.length, o.op = 1 AS write",
            "o.ts, o.trace_row, o.device, o.pos",
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
    source: Source,
    *,
    policies: Sequence[str],
    sizes: Sequence[int],
    block: int,
    of: str | None,
    node: str | None,
    rate: float | None,
    as_json: bool,
    html: Path | None,
    force: bool,
) -> None:
    """Print what such caches miss, and write a page of it.

    Raises:
        UsageError: a policy that isn't known, a size smaller than a block, a machine that doesn't exist.
        TrailError: there are no reads and writes with a known place.
    """
    check_policies(policies)
    for size in sizes:
        if size < block:
            raise UsageError(
                f"--size: expected {units.size(block)} (a block) or more, found {units.size(size)}",
                "--block makes blocks smaller",
            )
    if rate is not None and not 0 < rate < 1:
        raise UsageError(f"--shards: expected a share above 0 and below 1, found {rate:g}")
    trail = source.trail
    check_node(trail, node)
    if html is not None:
        page.check(html, VERB, force=force)
    chosen = accesses(trail, of, node)
    arguments = ["cache", "--block", str(block)]
    if policies:
        arguments += ["--policy", ",".join(policies)]
    if sizes:
        arguments += ["--size", ",".join(map(str, sizes))]
    if rate is not None:
        arguments += ["--shards", repr(rate)]
    if html is not None:
        arguments += ["--per-half", str(_PER_HALF)]
    found = simulate(trail, chosen.query, arguments)
    if html is not None:
        from iotrail.whatif.cache_page import draw

        page.write(html, draw(source.name, chosen, found, source.note))
    if as_json:
        print(json.dumps({**source.facts, "of": chosen.name, "left_out": chosen.left_out, **found}))
        return
    _show(found, chosen, 1 if sizes or html is None else _PER_HALF)
    source.show_note()


def check_policies(policies: Sequence[str]) -> None:
    """Refuse policies that aren't known.

    Raises:
        UsageError: one isn't.
    """
    for policy in policies:
        if policy not in POLICIES:
            raise UsageError(f"--policy: expected some of {', '.join(POLICIES)}, found {policy}")


def check_node(trail: Trail, node: str | None) -> None:
    """Refuse a machine that a trail doesn't have.

    Raises:
        UsageError: it doesn't.
    """
    if node is None:
        return
    known = [row["node"] for row in trail.rows_of("FROM process SELECT DISTINCT node")]
    if node not in known:
        raise UsageError(f"--node: there is no machine {node}", f"there are {', '.join(sorted(known))}")


def describe(found: dict[str, Any], chosen: Accesses) -> str:
    """What was simulated, in a sentence."""
    uses = {"read": found["reads"], "write": found["writes"]}
    parts = [f"{count:,} {kind}s" for kind, count in uses.items() if count]
    everything = units.size(found["blocks"] * found["block_bytes"])
    about = "about " if found["sample"] else ""
    return (
        f"{' and '.join(parts)} of blocks of {units.size(found['block_bytes'])}, of {chosen.name}; "
        f"{about}{found['blocks']:,} different blocks, {about}{everything}"
    )


def describe_sample(found: dict[str, Any]) -> str:
    """What estimates are from; empty where counts are exact."""
    sample = found["sample"]
    if sample is None:
        return ""
    return (
        f"Estimated from {sample['uses']:,} uses of {sample['blocks']:,} blocks, a sample of "
        f"{units.human(sample['rate'], 'share')} of all blocks. ± is a confidence interval of 95 % for the choice of the sample."
        + (" The sample is small: a larger rate narrows them." if sample["blocks"] < _SMALL else "")
    )


def _show(found: dict[str, Any], chosen: Accesses, every: int) -> None:
    console = Console(piped=120)
    console.print(describe(found, chosen))
    for kind, count in (("read", found["reads"]), ("write", found["writes"])):
        if not count:
            continue
        first = found[f"first_{kind}s"]
        # not as the table's title, which would be no wider than the table
        console.print(
            f"{kind}s missed, of which {units.human(first / count, 'share')} are the first use of their block"
        )
        table = Table(box=rich.box.SIMPLE_HEAD)
        table.add_column("cache", justify="right")
        for policy in found["policies"]:
            table.add_column(policy["policy"], justify="right")
        sizes = found["policies"][0]["size"]
        for at, size in enumerate(sizes):
            if (len(sizes) - 1 - at) % every:
                continue
            misses = [policy[kind][at] for policy in found["policies"]]
            best = min(misses)
            bounds = [policy["bounds"][kind][at] if found["sample"] else None for policy in found["policies"]]
            cells = [
                Text(
                    units.human(n / count, "share")
                    + ("" if bound is None else f" ±{min(100.0, 100 * bound / count):.1f}"),
                    "bold" if n == best else "",
                )
                for n, bound in zip(misses, bounds, strict=True)
            ]
            table.add_row(units.size(size * found["block_bytes"]), *cells)
        console.print(table)
    if found["sample"]:
        console.print(describe_sample(found), style="dim")
    if chosen.left_out:
        console.print(f"left out: {chosen.left_out:,} without a known place")
