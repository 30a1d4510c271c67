"""`iotrail waits`: what threads waited for, who let them, and what decided how long the run took; or one thread's annotated trace.

All numbers are those of sql/causal/. The states are those of wait-state analysis (late sender, late receiver, wait at a collective:
Wolf and Mohr, "Automatic performance analysis of hybrid MPI/OpenMP applications", 2003).
"""

import json
from collections.abc import Iterator
from typing import Any

import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail

# Rows of each table of the text.
_SHOWN = 8
_NAME = "CASE WHEN t.rank IS NOT NULL THEN CONCAT('rank ', CAST(t.rank AS VARCHAR)) ELSE t.process_name END"
# Threads of one process are told apart by their thread ids.
_THREAD = (
    f"CASE WHEN t.threads > 1 THEN CONCAT({_NAME}, ', thread ', CAST(t.tid AS VARCHAR)) ELSE {_NAME} END"
)
_THREADS = (
    "SELECT *, COUNT(*) OVER (PARTITION BY process) AS threads FROM thread_life "
    "WHERE thread IN (SELECT thread FROM compute UNION SELECT thread FROM wait)"
)
_STATES = (
    "SELECT state, COUNT(*) AS n, CAST(SUM(blocked_ns) AS BIGINT) AS blocked_ns, CAST(SUM(after_ns) AS BIGINT) AS after_ns, "
    "MAX(blocked_ns) AS longest_ns, COUNT(DISTINCT thread) AS threads FROM wait_state GROUP BY state ORDER BY blocked_ns DESC, state"
)
_CAUSES = (
    f"WITH t AS ({_THREADS}) SELECT w.cause_thread AS thread, {_THREAD} AS name, w.state, COUNT(*) AS n, "
    "CAST(SUM(w.blocked_ns) AS BIGINT) AS blocked_ns FROM wait_state AS w INNER JOIN t ON t.thread = w.cause_thread "
    "WHERE w.blocked_ns > 0 GROUP BY ALL ORDER BY blocked_ns DESC, name, state"
)
_CRITICAL = (
    f"WITH t AS ({_THREADS}) SELECT p.thread, {_THREAD} AS name, p.work, p.call, p.path, CAST(SUM(p.ns) AS BIGINT) AS ns "
    "FROM critical_part AS p INNER JOIN t ON t.thread = p.thread GROUP BY ALL ORDER BY ns DESC, name, work, call, path"
)
_WORDS = {
    "compute": "computing",
    "queued": "waiting for a CPU",
    "unexplained": "not known (between calls)",
    "wait": "in calls that wait",
}


def waits(trail: Trail, *, as_json: bool) -> None:
    """Print wait states, their causes and the critical path.

    Raises:
        TrailError: the trail doesn't say who waited for whom.
    """
    _expect_causality(trail)
    [[length]] = trail.query("SELECT CAST(SUM(dur) AS BIGINT) FROM critical_path").fetchall()
    [[threads]] = trail.query("SELECT COUNT(DISTINCT thread) FROM compute").fetchall()
    found: dict[str, Any] = {
        "run_ns": length,
        "threads": threads,
        "states": trail.rows_of(_STATES),
        "causes": trail.rows_of(_CAUSES),
        "critical_path": trail.rows_of(_CRITICAL),
    }
    found["unexplained_ns"] = sum(
        row["blocked_ns"] or 0 for row in found["states"] if row["state"] == "unexplained"
    )
    print(json.dumps(found)) if as_json else _show(found)


def _expect_causality(trail: Trail) -> None:
    [[known]] = trail.query("SELECT COUNT(*) FROM critical_path").fetchall()
    if not known:
        raise TrailError(
            f"{trail.path} doesn't say who waited for whom", "iotrail record --causal PROGRAM records it"
        )


def _show(found: dict[str, Any]) -> None:
    console = Console(piped=120)
    blocked = sum(row["blocked_ns"] or 0 for row in found["states"])
    console.print(
        f"{units.counted(found['threads'], 'thread')}, {units.duration(found['run_ns'])}; they waited {units.duration(blocked)} in all, "
        f"of which {units.duration(found['unexplained_ns'])} for what is not recorded"
    )
    console.print()
    states = _table("Waits", "state", "waits", "threads", "waited", "longest", "going on")
    for row in found["states"]:
        states.add_row(
            Text(row["state"]),
            f"{row['n']:,}",
            f"{row['threads']:,}",
            *(_time(row[name]) for name in ("blocked_ns", "longest_ns", "after_ns")),
        )
    console.print(states)
    causes = _table("Who was waited for", "who", "state", "waits", "waited")
    _fill(
        causes,
        found["causes"],
        lambda row: (row["name"], row["state"], f"{row['n']:,}", _time(row["blocked_ns"])),
    )
    console.print(causes)
    path = _table(
        f"The critical path, {units.duration(found['run_ns'])}", "who", "what", "file", "time", "share"
    )
    _fill(
        path,
        found["critical_path"],
        lambda row: (
            row["name"],
            row["call"] or _WORDS[row["work"]],
            row["path"] or "",
            _time(row["ns"]),
            units.human(row["ns"] / found["run_ns"], "share"),
        ),
    )
    console.print(path)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=rich.box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    words = {"state", "who", "what", "file"}
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right", overflow="fold")
    return table


def _fill(table: Table, rows: list[dict[str, Any]], cells: Any) -> None:
    for row in rows[:_SHOWN]:
        table.add_row(*map(Text, cells(row)))
    if len(rows) > _SHOWN:
        table.add_row(Text(f"… {len(rows) - _SHOWN:,} more (--json has all)"))


def _time(ns: int | None) -> str:
    return "" if ns is None else units.duration(ns)


def trace(trail: Trail, rank: int) -> None:
    """Print what the threads of a rank did with what they waited for.

    Raises:
        UsageError: there is no such rank.
        TrailError: the trail doesn't say who waited for whom.
    """
    _expect_causality(trail)
    threads = trail.rows_of(
        f"SELECT thread, tid FROM ({_THREADS}) WHERE rank = $rank ORDER BY tid", {"rank": rank}
    )
    if not threads:
        known = [
            row["rank"]
            for row in trail.rows_of("SELECT DISTINCT rank FROM process WHERE rank IS NOT NULL ORDER BY rank")
        ]
        hint = (
            f"it has ranks {known[0]} to {known[-1]}"
            if known
            else "no process of it has a rank: it is no MPI program"
        )
        raise UsageError(f"{trail.path} has no rank {rank}", hint)
    partners = _partners(trail)
    for thread in threads:
        if len(threads) > 1:
            print(f"# thread {thread['tid']}")
        for line in _lines(trail, thread["thread"], partners):
            print(line)


def _partners(trail: Trail) -> dict[int, tuple[list[str], list[str]]]:
    """Of each edge who gives its signals, and who waits for them."""
    name = f"SELECT DISTINCT e.edge, {_THREAD} AS name FROM TABLE AS e INNER JOIN ({_THREADS}) AS t ON t.thread = e.thread ORDER BY e.edge, name"
    found: dict[int, tuple[list[str], list[str]]] = {}
    for side, table in enumerate(("signal", "wait")):
        for row in trail.rows_of(name.replace("TABLE", f"(SELECT * FROM {table} WHERE edge IS NOT NULL)")):
            found.setdefault(row["edge"], ([], []))[side].append(row["name"])
    return found


def _lines(trail: Trail, thread: int, partners: dict[int, tuple[list[str], list[str]]]) -> Iterator[str]:
    query = "SELECT * FROM annotated WHERE thread = $thread ORDER BY at_ts, place"
    for row in trail.rows_of(query, {"thread": thread}):
        givers, waiters = partners.get(row["edge"], ([], []))
        meets = row["kind"] in ("collective", "barrier") and givers == waiters
        match row["step"]:
            case "compute":
                yield f"COMPUTE({(row['dur'] or 0) / 1e9:.9f})"
            case "signal" if meets:
                yield f"/* {row['kind']} of {units.counted(len(givers), 'thread')} */"
                yield f"SIGNAL({', '.join(waiters)})"
            case "signal":
                yield f"SIGNAL({', '.join(waiters)}) /* {row['kind']} */"
            case "wait" if row["edge"] is None:
                yield f"WAIT(?) /* {row['kind']}, {units.duration(row['dur'] or 0)} */"
            case "wait":
                yield f"WAIT({', '.join(givers)})" + ("" if meets else f" /* {row['kind']} */")
            case _:
                yield _call(row)


def _call(row: dict[str, Any]) -> str:
    arguments = [json.dumps(row["path"], ensure_ascii=False)] if row["path"] is not None else []
    arguments += [f"{row[name]:,}".replace(",", "") for name in ("length", "pos") if row[name] is not None]
    return f"{row['call']}({', '.join(arguments)}) = {'?' if row['result'] is None else row['result']}"
