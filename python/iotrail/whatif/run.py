"""`iotrail whatif run`: how long a recorded program would take if its calls on files, their device, its computing or its machine were
others.

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
from iotrail.causal import check
from iotrail.errors import QueryError, TrailError, UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.whatif.simulator import simulate

# Of the time that threads waited, the share that nothing explains from which on an answer would be a guess.
_GUESS = 0.5
_SHOWN = 5
# Quantiles of the samples that the range ends at.
_LOW, _HIGH = 0.05, 0.95
# How far predictions were off at most in 9 of 10 changes that were really made, as a share (bench/causal_whatif.py, 34 changes).
_EXPERIENCE = 0.16
# Where the part of a file ends that has no end.
_WHOLE = (1 << 63) - 1


def run(
    trail: Trail,
    *,
    io: Sequence[float],
    devices: Sequence[str],
    journal: bool,
    volume: int | None,
    warm: bool,
    where: str | None,
    compute: float,
    lock: float,
    by: Sequence[str],
    cores: int | None,
    samples: int,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Print how long the run would take.

    Args:
        io: factors on the time of calls on files.
        devices: device files, or names of devices that come with iotrail, whose times calls on files take.
        journal: whether the file system there has one.
        volume: its size in bytes; none: the device's.
        warm: whether the page cache there has the files at first.
        lock: factor on the time that threads compute while they have a lock.
        by: of what curves are asked for: file, call, rank, lock.

    Raises:
        TrailError: the trail doesn't say who waited for whom, or half of what threads waited for is unexplained.
        UsageError: `where` is no condition.
        SimulationError: threads wait for each other.
    """
    classes = _classes(trail, where)
    if not classes and (devices or any(factor != 1 for factor in io)):
        raise TrailError(
            f"{trail.path} has no calls on files", "iotrail record --causal PROGRAM records them"
        )
    recorded_cores = _cores(trail)
    known = cores or recorded_cores
    factors = sorted({1.0, *io})
    words = ["run", str(trail.path), "--io", ",".join(map(repr, factors)), "--compute", repr(compute)]
    words += ["--cores", str(known), "--recorded-cores", str(recorded_cores)]
    words += ["--samples", str(samples), "--seed", str(seed)]
    words += ["--lock", repr(lock), *(["--by", ",".join(by)] if by else [])]
    words += [word for device in devices for word in ("--on", device)]
    words += [] if journal else ["--no-journal"]
    words += [] if volume is None else ["--volume", str(volume)]
    words += ["--warm"] if warm else []
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
    answer = _answer(found, classes, share, known) | {
        "compute": compute,
        "lock": lock,
        "recorded_cores": recorded_cores,
        "seed": seed,
        "where": where,
        "curves": _curves(trail, found["curves"], classes),
        "check": check.found(trail),
    }
    if devices:
        answer |= {"journal": journal, "volume": volume, "warm": warm}
    print(json.dumps(answer)) if as_json else _show(answer)


def _cores(trail: Trail) -> int:
    facts = trail.rows_of("SELECT MAX(CAST(value AS BIGINT)) AS cpus FROM recording WHERE name = 'cpus'")
    return int(facts[0]["cpus"] or os.cpu_count() or 1)


def _classes(trail: Trail, where: str | None) -> list[dict[str, Any]]:
    """What the calls of each class have in common."""
    query = (
        "SELECT class, MIN(call) AS call, MIN(path) AS path, MIN(file_number) AS file_number, MIN(call_number) AS call_number "
        f"FROM ({_classed(where)}) GROUP BY class ORDER BY class"
    )
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
        "CASE WHEN path IS NULL THEN -1 ELSE DENSE_RANK() OVER (ORDER BY path NULLS LAST) END AS file_number, "
        "DENSE_RANK() OVER (ORDER BY call) AS call_number, "
        f"CASE WHEN {chosen} THEN 1 ELSE 0 END AS chosen FROM op WHERE dur IS NOT NULL"
    )


def _calls(where: str | None) -> str:
    return (
        "SELECT thread, ts, dur, CAST(class AS BIGINT) AS class, CAST(chosen AS BIGINT) AS chosen, "
        "CAST(file_number AS BIGINT) AS file, CAST(call_number AS BIGINT) AS call "
        f"FROM ({_classed(where)}) ORDER BY thread, ts, trace_row"
    )


def _curves(trail: Trail, found: list[dict[str, Any]], classes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Curves with the names of their files, calls, ranks or locks."""
    names = {
        "file": {row["file_number"]: row["path"] for row in classes},
        "call": {row["call_number"]: row["call"] for row in classes},
    }
    curves = []
    for curve in found:
        kind, number, lock = curve.pop("by"), curve.pop("number"), curve.pop("lock")
        if lock is not None:
            name = _name_of_lock(trail, lock)
        else:
            name = names[kind][number] if kind in names else f"rank {number}"
        points = [{"factor": factor, "elapsed_ns": elapsed} for factor, elapsed in curve["points"]]
        curves.append({"kind": kind, "name": name, "path_ns": curve["path_ns"], "points": points})
    return sorted(curves, key=lambda one: one["points"][-1]["elapsed_ns"])


def _name_of_lock(trail: Trail, lock: dict[str, Any]) -> str:
    """A lock by its process and address, by the part of a file that is locked, or by the window and rank."""
    if "file" in lock:
        query = "SELECT COALESCE(MIN(path), 'an unknown file') AS path FROM file WHERE file = $file"
        name = f"lock of {trail.rows_of(query, {'file': lock['file']})[0]['path']}"
        first, end = lock["part"]["start"], lock["part"]["end"]
        if end == _WHOLE:
            return f"{name} from byte {first:,} on" if first else name
        return f"{name}, byte {first:,}" if end == first + 1 else f"{name}, bytes {first:,} to {end - 1:,}"
    if "window" in lock:
        return f"lock of rank {lock['rank']} of MPI window {lock['window']:#x}"
    process = lock["process"]
    ranks = trail.rows_of(
        "SELECT rank FROM process WHERE process = $process AND rank IS NOT NULL", {"process": process}
    )
    owner = f"rank {ranks[0]['rank']}" if ranks else f"process {process}"
    return f"lock {lock['address'] & (1 << 64) - 1:#x} of {owner}"


def _answer(found: dict[str, Any], classes: list[dict[str, Any]], share: float, cores: int) -> dict[str, Any]:
    """The native answer with names, ranges and speed-ups."""
    of_class = {row["class"]: row for row in classes}
    base = found.pop("unchanged")["elapsed_ns"]
    for case in found["cases"]:
        took = [case.pop("took"), case.pop("fixed"), *case.pop("samples")]
        for name in ("elapsed_ns", "chosen_ns"):
            case[name] = took[0][name]
            low, high = _range([each[name] for each in took], base, found["recorded_ns"])
            case |= {name.replace("_", "_low_"): low, name.replace("_", "_high_"): high}
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
        "simulated_ns": base,
        "unexplained_share": share,
        "model_error": base / found["recorded_ns"] - 1,
    }


def _range(times: list[int | None], base: int, recorded: int) -> tuple[int | None, int | None]:
    """From the shortest to the longest: of the first two, and of all but the outermost of the samples behind them.

    What the model is off by is no better known of the changed run than of the recorded one, and may be a share of the time or a
    time: what wake-ups cost doesn't change with the storage.
    """
    known = [time for time in times if time is not None]
    if not known:
        return None, None
    ends: list[float] = [*known[:2]]
    if known[2:]:
        ends += [float(np.quantile(known[2:], quantile)) for quantile in (_LOW, _HIGH)]
    low, high, missing = min(ends), max(ends), recorded - base
    off = max(abs(missing) / recorded if recorded else 0.0, _EXPERIENCE)
    return round(max(min(low * (1 - off), low + missing), 0)), round(max(high * (1 + off), high + missing))


def _changes(answer: dict[str, Any]) -> list[str]:
    """What is changed besides the calls on files."""
    return [
        *([f"computing × {answer['compute']:g}"] if answer["compute"] != 1 else []),
        *([f"locks × {answer['lock']:g}"] if answer["lock"] != 1 else []),
        *([units.counted(answer["cores"], "core")] if answer["cores"] != answer["recorded_cores"] else []),
    ]


def _name(case: dict[str, Any], answer: dict[str, Any]) -> str:
    if case["device"] is not None:
        of_calls = [f"on {case['device']}"]
    else:
        of_calls = [] if case["io"] == 1 else [f"I/O × {case['io']:g}"]
    return ", ".join([*of_calls, *_changes(answer)]) or "simulated"


def _ends(case: dict[str, Any], of: str) -> str:
    """The range of a time."""
    return " – ".join(units.duration(case[f"{of}_{end}_ns"]) for end in ("low", "high"))


def _curves_table(answer: dict[str, Any]) -> Table:
    base = next(case for case in answer["cases"] if case["io"] == 1)["elapsed_ns"]
    table = Table(box=rich.box.SIMPLE_HEAD, title="Speed-up if it took less time", title_justify="left")
    table.add_column("")
    for name in ("critical path", *(f"× {point['factor']:g}" for point in answer["curves"][0]["points"])):
        table.add_column(name, justify="right")
    for curve in answer["curves"]:
        speed_ups = (base / point["elapsed_ns"] if point["elapsed_ns"] else None for point in curve["points"])
        table.add_row(
            Text(curve["name"]),
            units.human(curve["path_ns"] / base if base else 0.0, "share"),
            *("" if speed_up is None else f"{speed_up:.2f}" for speed_up in speed_ups),
        )
    return table


def _show(answer: dict[str, Any]) -> None:
    console = Console(piped=120)
    console.print(
        f"{units.counted(answer['threads'], 'thread')}, {units.counted(answer['operations'], 'operation')}; "
        f"{units.counted(answer['cores'], 'core')}"
    )
    table = Table(box=rich.box.SIMPLE_HEAD)
    for name in ("", "run", "range", "speed-up", "computing", "no core", "storage", "resting"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("recorded", units.duration(answer["recorded_ns"]))
    if _changes(answer):
        table.add_row("simulated", units.duration(answer["simulated_ns"]))
    for case in answer["cases"]:
        path = case["path"]
        table.add_row(
            _name(case, answer),
            units.duration(case["elapsed_ns"]),
            _ends(case, "elapsed"),
            "" if case["speed_up"] is None else f"{case['speed_up']:.2f}",
            *(units.duration(path[part]) for part in ("compute_ns", "ready_ns", "io_ns", "rest_ns")),
        )
    console.print(table)
    for case in answer["cases"]:
        longest = case["path"]["io"][:_SHOWN] if case["io"] == 1 or case["device"] is not None else []
        if longest:
            console.print(f"Longest on the critical path, of calls on files ({_name(case, answer)}):")
        for row in longest:
            console.print(Text(f"  {units.duration(row['ns'])}  {row['call']}  {row['path'] or ''}"))
    if answer["curves"]:
        console.print(_curves_table(answer))
    if answer["where"] is not None:
        console.print("From the first of the chosen calls to the end of the last:")
        for case in answer["cases"]:
            if case["chosen_ns"] is not None:
                console.print(
                    f"  {_name(case, answer)}: {units.duration(case['chosen_ns'])} ({_ends(case, 'chosen')})"
                )
    console.print(
        "Simulated: the same model with nothing changed; how far it is from the record is how far the model is off "
        f"({100 * answer['model_error']:+.1f} %)."
    )
    if answer["check"]:
        console.print(check.sentence(answer["check"]))
    console.print(
        "Range: times of calls drawn anew, "
        + ("other places on the device, " if answer["kept"] is not None else "")
        + f"what nothing explains ({units.human(answer['unexplained_share'], 'share')} of the waiting) once as no time and once as "
        f"long as recorded, and what the model is off by (at least {units.human(_EXPERIENCE, 'share')}: so far in 9 of 10 changes that "
        "were really made)."
    )
    if answer["kept"] is not None:
        console.print(
            "On a device: its requests are those that an empty page cache and ext4 make of the calls (docs/causal.md). Names, attributes and "
            "mappings cost what they did."
        )
        if answer["kept"]["calls"]:
            console.print(
                f"{units.counted(answer['kept']['calls'], 'call')} that no model has (sync, sendfile, splice …) took "
                f"{units.duration(answer['kept']['ns'])} as recorded."
            )
