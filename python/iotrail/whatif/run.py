"""`iotrail whatif run`: how long a recorded program would take if its calls on files, its computing or its machine were others.

`iotrail-native simulate run` runs the threads' scripts (docs/causal.md) in virtual time. What the model is off by is said beside the
answer: the run as it was, simulated, next to the recorded one.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import rich.box
from rich.table import Table

from iotrail import units
from iotrail.errors import QueryError, TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.simulator import simulate

# Of the time that threads waited, the share that nothing explains from which on an answer would be a guess.
_GUESS = 0.5
_SHOWN = 5
# Quantiles of the samples that the range ends at.
_LOW, _HIGH = 0.05, 0.95


def run(
    trail: Trail,
    *,
    io: Sequence[float],
    where: str | None,
    compute: float,
    cores: int | None,
    samples: int,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Print how long the run would take.

    Raises:
        TrailError: the trail doesn't say who waited for whom, or half of what threads waited for is unexplained.
        UsageError: `where` is no condition.
        SimulationError: threads wait for each other.
    """
    classes = _classes(trail, where)
    if not classes:
        raise TrailError(
            f"{trail.path} has no calls on files", "iotrail record --causal PROGRAM records them"
        )
    known = cores or _cores(trail)
    factors = sorted({1.0, *io})
    words = ["run", str(trail.path), "--io", ",".join(map(repr, factors)), "--compute", repr(compute)]
    words += ["--cores", str(known), "--samples", str(samples), "--seed", str(seed)]
    found = simulate(trail, _calls(where), words)
    [[blocked]] = trail.query(
        "SELECT CAST(COALESCE(SUM(blocked_ns), 0) AS BIGINT) FROM wait_state WHERE state NOT IN ('timer', 'start of MPI')"
    ).fetchall()
    share = found["unexplained_ns"] / blocked if blocked else 0.0
    if share > _GUESS and not force:
        raise TrailError(
            f"{trail.path}: nothing explains {units.human(share, 'share')} of what threads waited for (expected at most "
            f"{units.human(_GUESS, 'share')})",
            "docs/causal.md says what is matched; --force answers all the same",
        )
    answer = _answer(found, classes, share, known) | {"compute": compute, "seed": seed, "where": where}
    print(json.dumps(answer)) if as_json else _show(answer)


def _cores(trail: Trail) -> int:
    facts = trail.rows_of("SELECT MAX(CAST(value AS BIGINT)) AS cpus FROM recording WHERE name = 'cpus'")
    return int(facts[0]["cpus"] or os.cpu_count() or 1)


def _classes(trail: Trail, where: str | None) -> list[dict[str, Any]]:
    """What the calls of each class have in common."""
    query = f"SELECT class, MIN(call) AS call, MIN(path) AS path FROM ({_classed(where)}) GROUP BY class ORDER BY class"
    if where is None:
        return trail.rows_of(query)
    try:
        return trail.rows_of(query)
    except QueryError as error:
        raise UsageError(
            f"--where: expected a condition on columns of module op, found {where!r}: {error.message}",
            "for instance --where \"path LIKE '%.wal' AND call = 'fsync'\"",
        ) from error


def _classed(where: str | None) -> str:
    """Calls with their class: of one call and file, of alike lengths."""
    chosen = "TRUE" if where is None else f"({where})"
    return (
        "SELECT thread, ts, dur, call, path, trace_row, "
        "DENSE_RANK() OVER (ORDER BY call, path, CAST(FLOOR(LOG2(GREATEST(COALESCE(length, 0), 1))) AS BIGINT)) AS class, "
        f"CASE WHEN {chosen} THEN 1 ELSE 0 END AS chosen FROM op WHERE dur IS NOT NULL"
    )


def _calls(where: str | None) -> str:
    return (
        "SELECT thread, ts, dur, CAST(class AS BIGINT) AS class, CAST(chosen AS BIGINT) AS chosen "
        f"FROM ({_classed(where)}) ORDER BY thread, ts, trace_row"
    )


def _answer(found: dict[str, Any], classes: list[dict[str, Any]], share: float, cores: int) -> dict[str, Any]:
    """The native answer with names, ranges and speed-ups."""
    of_class = {row["class"]: row for row in classes}
    cases = {case["io"]: case for case in found["cases"]}
    base = cases[1.0]["elapsed_ns"]
    # what the model is off by is no better known of the changed run
    off = abs(base / found["recorded_ns"] - 1) if found["recorded_ns"] else 0.0
    for case in found["cases"]:
        ends = [case["elapsed_ns"], case["fixed_ns"]]
        if case["samples_ns"]:
            ends += [float(np.quantile(case["samples_ns"], quantile)) for quantile in (_LOW, _HIGH)]
        case["low_ns"], case["high_ns"] = round(min(ends) * (1 - off)), round(max(ends) * (1 + off))
        case["speed_up"] = base / case["elapsed_ns"] if case["elapsed_ns"] else None
        by_file: dict[tuple[str, str | None], int] = {}
        for number, ns in case["path"].pop("io_by_class"):
            row = of_class.get(number)
            key = (row["call"], row["path"]) if row else ("other", None)
            by_file[key] = by_file.get(key, 0) + ns
        case["path"]["io"] = [
            {"call": call, "path": path, "ns": ns}
            for (call, path), ns in sorted(by_file.items(), key=lambda each: -each[1])
        ]
    return {
        **found,
        "cores": cores,
        "unexplained_share": share,
        "model_error": base / found["recorded_ns"] - 1,
    }


def _show(answer: dict[str, Any]) -> None:
    console = Console(piped=120)
    console.print(
        f"{units.counted(answer['threads'], 'thread')}, {units.counted(answer['operations'], 'operation')}; "
        f"{units.counted(answer['cores'], 'core')}"
    )
    table = Table(box=rich.box.SIMPLE_HEAD)
    for name in ("", "run", "speed-up", "range", "computing", "no core", "storage", "resting"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("recorded", units.duration(answer["recorded_ns"]))
    for case in answer["cases"]:
        path = case["path"]
        name = "simulated" if case["io"] == 1 else f"I/O × {case['io']:g}"
        table.add_row(
            name if answer["compute"] == 1 else f"{name}, computing × {answer['compute']:g}",
            units.duration(case["elapsed_ns"]),
            "" if case["speed_up"] is None else f"{case['speed_up']:.2f}",
            f"{units.duration(case['low_ns'])} – {units.duration(case['high_ns'])}",
            *(units.duration(path[part]) for part in ("compute_ns", "ready_ns", "io_ns", "rest_ns")),
        )
    console.print(table)
    longest = next(case for case in answer["cases"] if case["io"] == 1)["path"]["io"][:_SHOWN]
    if longest:
        console.print("Longest on the critical path, of calls on files:")
    for row in longest:
        console.print(Text(f"  {units.duration(row['ns'])}  {row['call']}  {row['path'] or ''}"))
    console.print(
        "Simulated: the same model with nothing changed; how far it is from the record is how far the model is off "
        f"({100 * answer['model_error']:+.1f} %)."
    )
    console.print(
        "Range: times of calls drawn anew, what nothing explains "
        f"({units.human(answer['unexplained_share'], 'share')} of the waiting) once as no time and once as long as recorded, "
        "and what the model is off by."
    )
