"""What a pruned trail can still answer: rollups stand for requests whose raw records are gone (docs/prune.md).

Modules read both together. Here a question that rollups can't answer is refused, with what was pruned and how to ask
instead.
"""

import datetime
import re
import sys
from functools import cache

from iotrail import modules as sql_modules
from iotrail.errors import PrunedError, UsageError
from iotrail.trail import Trail

# Tables whose rows pruning replaces.
RAW = ("service_op", "stitch", "buffer_op", "network_transmit", "disk_op", "cpu_slice")
# What may be kept -> the rollups it is.
ROLLUPS = {
    "demand": ("demand_rollup", "served_rollup"),
    "graphs": ("request_rollup", "step_rollup", "workload"),
}


def is_pruned(trail: Trail) -> bool:
    """Whether anything was pruned."""
    return bool(trail.rows.get("pruned"))


def said(trail: Trail) -> str:
    """What was pruned, in words."""
    [row] = trail.rows_of(
        "SELECT MIN(ts) AS since, MAX(ts + dur) AS until, MAX(pruned_ts) AS pruned_ts, MAX(every_ns) AS every_ns "
        "FROM pruned"
    )
    return (
        f"raw records of {moment(row['since'])} to {moment(row['until'])} were pruned on {moment(row['pruned_ts'])}: "
        f"what is left of them are sums of {width(row['every_ns'])}"
    )


def expect_kept(trail: Trail, what: str, question: str) -> None:
    """Refuse where pruning did not keep what answers a question: `demand` or `graphs`."""
    if not is_pruned(trail):
        return
    lost = trail.rows_of(f"SELECT COUNT(*) AS n FROM pruned WHERE NOT contains(kept, '{what}')")
    if lost[0]["n"]:
        raise PrunedError(f"{trail.path}: {question} were not kept when it was pruned", said(trail))


def expect_raw(trail: Trail, question: str, where: str) -> None:
    """Refuse a question that needs the raw records of the requests that `where` leaves, if some were pruned."""
    if not is_pruned(trail):
        return
    if not trail.rows.get("request_rollup"):
        raise PrunedError(f"{trail.path}: {question} need raw records", said(trail))
    [row] = trail.rows_of(
        f"SELECT COALESCE(SUM(n), 0) AS n, MAX(ts + dur) AS until FROM request_rollup WHERE {where}"
    )
    if row["n"]:
        raise PrunedError(
            f"{trail.path}: {question} need raw records, and those of {row['n']:,} of these requests were pruned",
            f"{said(trail)}; ask --from {moment(row['until'])}",
        )


def expect_request(trail: Trail, node: str, crumb: int) -> None:
    """Refuse a breadcrumb of which only records are left that pruning doesn't take: kept ones, calls of programs."""
    if not is_pruned(trail):
        return
    [row] = trail.rows_of(
        "SELECT (SELECT COUNT(*) FROM service_op WHERE node = $node AND crumb = $crumb) + "
        "(SELECT COUNT(*) FROM stitch WHERE (node = $node AND crumb = $crumb) "
        "OR (parent_node = $node AND parent_crumb = $crumb)) AS n",
        {"node": node, "crumb": crumb},
    )
    if not row["n"]:
        raise PrunedError(f"{trail.path}: what breadcrumb {crumb} on {node} did was pruned", said(trail))


def left_out(trail: Trail, where: str) -> str | None:
    """How many of the requests that `where` leaves were pruned, in words; None if none was."""
    if not is_pruned(trail):
        return None
    n = trail.rows_of(f"SELECT SUM(n) AS n FROM request_rollup WHERE {where}")[0]["n"]
    return f"{n:,} more of these requests were pruned: {said(trail)}" if n else None


def expect_edges(trail: Trail, rollup: str, start_ts: int | None, end_ts: int | None) -> None:
    """Refuse a --from or --to within a stretch of time that is one row."""
    if not is_pruned(trail):
        return
    for option, at in (("--from", start_ts), ("--to", end_ts)):
        if at is None:
            continue
        cut = trail.rows_of(
            f"SELECT MIN(ts) AS ts, MAX(dur) AS dur FROM {rollup} WHERE ts < {at} AND ts + dur > {at}"
        )
        ts, dur = cut[0]["ts"], cut[0]["dur"]
        if ts is not None:
            raise UsageError(
                f"{option} {moment(at)} falls inside a pruned {width(dur)} bucket",
                f"{option} {moment(ts)} or {option} {moment(ts + dur)}; {said(trail)}",
            )


def expect_width(trail: Trail, module: str, every_ns: int) -> None:
    """Refuse an --every that cuts through stretches of time that are one row."""
    if not is_pruned(trail):
        return
    read = {name for m in sql_modules.closure([module], trail.modules) for name in m.requires}
    for rollup in sorted(read & {name for names in ROLLUPS.values() for name in names}):
        wide = trail.rows_of(f"SELECT MAX(dur) AS dur FROM {rollup} WHERE {every_ns} % dur <> 0")[0]["dur"]
        if wide is not None:
            raise UsageError(
                f"--every {width(every_ns)}: of what was pruned only sums of {width(wide)} are left",
                f"--every {width(wide)}, or a multiple of it; {said(trail)}",
            )


def warn(trail: Trail, query: str) -> None:
    """Say on stderr which names in a query stand only for what was not pruned."""
    if not is_pruned(trail):
        return
    words = dict.fromkeys(re.findall(r"\w+", query.lower()))
    partial = [name for name in words if _is_partial(name)]
    if partial:
        print(f"iotrail: note: {', '.join(partial)}: only what is left; {said(trail)}", file=sys.stderr)


@cache
def _is_partial(name: str) -> bool:
    """Whether a table or module misses what was pruned: it reads raw records, and no rollup beside them."""
    module = sql_modules.load().get(name)
    if module is None:
        return name in RAW
    if any(
        name in module.requires for name in (*ROLLUPS["demand"], *ROLLUPS["graphs"], "pruned", "pruned_step")
    ):
        return False
    return any(_is_partial(required) for required in module.requires)


def moment(ts: int) -> str:
    """A moment as --from takes it, exactly."""
    whole, ns = divmod(ts, 10**9)
    at = datetime.datetime.fromtimestamp(whole, datetime.UTC).astimezone()
    fraction = f".{ns:09}".rstrip("0") if ns else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}{at:%z}"


def width(ns: int) -> str:
    """A length of time as --every takes it, exactly."""
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns % size == 0 and not (unit == "min" and ns < 120 * 10**9):
            return f"{ns // size}{unit}"
    return f"{ns}ns"
