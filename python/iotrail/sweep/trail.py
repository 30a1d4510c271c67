"""A sweep as a trail: its settings, measurements and expectations as rows, its specification as a fact."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet

from iotrail import native
from iotrail.anomaly.space import Value
from iotrail.expected.user import APPLICATION
from iotrail.importers.base import Output
from iotrail.importers.ids import hash63
from iotrail.sweep.repeats import summarize
from iotrail.sweep.run import Code, Sweep
from iotrail.trail import Trail

# Facts of table `recording`.
SPECIFICATION, SPECIFICATION_PATH, SETTINGS = "specification", "specification_path", "settings"
# Settings inside and outside a cluster that were measured to confirm it, by their ids: a JSON list of lists of two.
PAIRS = "pairs"


def setting_id(setting: Mapping[str, Value]) -> int:
    """The id of a setting: the same for the same values, whichever sweep has it."""
    words = [
        f"{name}={value if isinstance(value, str) else repr(float(value))}" for name, value in setting.items()
    ]
    return hash63("\0".join(["setting", *sorted(words)]).encode())


def write(path: Path, sweep: Sweep, node: str, command: Sequence[str], records: Path, *, force: bool) -> None:
    """Writes what a sweep has measured as a trail, and what the kernel saw of it: files of rows of table `disk_op` in a folder,
    if there is one.

    Raises `TraceError` if it can't be written.
    """
    codes = list(sweep.measurements)
    spec = sweep.spec
    with Output(path, force) as out:
        _add_measured(out, sweep, node, codes)
        _add_all_requests(out, records)
        facts: dict[str, object] = {
            "command": json.dumps(list(command)),
            "format": "sweep",
            "version": native.package_version() or "not installed",
            SPECIFICATION: spec.text,
            SPECIFICATION_PATH: spec.path,
            "seed": spec.seed,
            "better": _better(sweep),
            SETTINGS: len(sweep.space.feasible),
            "time_base": "absolute",
            **({PAIRS: json.dumps(_pairs(sweep))} if sweep.pairs else {}),
        }
        _add(out, "recording", node, ("name", "value"), [(name, str(value)) for name, value in facts.items()])


def extend(path: Path, trail: Trail, sweep: Sweep, node: str, command: Sequence[str], records: Path) -> None:
    """Writes what a sweep's trail has, and the pairs that were measured since, as a trail: a new one, or in its place.

    Settings that the trail has keep what is said of them: pairs of them are rows of table `measurement` alone. Raises
    `TraceError` if it can't be written.
    """
    tables = {
        table: trail.rows_of(f"SELECT * FROM {table}")
        for table in ("setting", "measurement", "measured", "expected", "recording", "clock")
    }
    known = {row["setting"] for row in tables["setting"]}
    new = [code for code in sweep.measurements if setting_id(sweep.space.setting(code)) not in known]
    facts = {(row["node"], row["name"]): row["value"] for row in tables.pop("recording")}
    pairs = [pair for (_, name), value in facts.items() if name == PAIRS for pair in json.loads(value)]
    facts = {key: value for key, value in facts.items() if key[1] != PAIRS}
    facts[node, PAIRS] = json.dumps(pairs + _pairs(sweep))
    facts[node, "confirm_command"] = json.dumps(list(command))
    # After a restart it is another node, whose values say in their own right which of them are better.
    facts[node, "better"] = _better(sweep)
    with Output(path, force=True) as out:
        for table, rows in tables.items():
            if rows:
                out.add(table, {name: [row[name] for row in rows] for name in rows[0]}, len(rows))
        _add_requests(out, trail.query("SELECT * FROM disk_op").to_arrow_table())
        _add_all_requests(out, records)
        _add_measured(out, sweep, node, new)
        columns = {
            "node": [of for of, _ in facts],
            "name": [name for _, name in facts],
            "value": list(facts.values()),
        }
        out.add("recording", columns, len(facts))


def _better(sweep: Sweep) -> str:
    return "higher" if sweep.spec.target.is_higher_better else "lower"


def _pairs(sweep: Sweep) -> list[list[int]]:
    """Pairs by the ids of their settings, the one inside first."""
    return [
        [setting_id(sweep.space.setting(code)) for code in (pair.inside, pair.outside)]
        for pair in sweep.pairs
    ]


def _add_measured(out: Output, sweep: Sweep, node: str, codes: Sequence[Code]) -> None:
    """Adds all measurements, what they say of `codes`, and when they began and ended."""
    ids = {code: setting_id(sweep.space.setting(code)) for code in sweep.measurements}
    spec = sweep.spec
    _add(
        out,
        "setting",
        node,
        ("setting", "dimension", "word", "number"),
        [
            (
                ids[code],
                name,
                value if isinstance(value, str) else None,
                None if isinstance(value, str) else float(value),
            )
            for code in codes
            for name, value in sweep.space.setting(code).items()
        ],
    )
    done = sorted(
        (one for measurements in sweep.measurements.values() for one in measurements),
        key=lambda measurement: measurement.ts,
    )
    _add(
        out,
        "measurement",
        node,
        ("ts", "dur", "setting", "purpose", "value", "detail"),
        [(one.ts, one.dur, ids[one.setting], one.purpose, one.value, one.detail or None) for one in done],
    )
    _add(
        out,
        "measured",
        node,
        ("setting", "layer", "metric", "value", "low", "high", "n", "state"),
        [(ids[code], *row) for code in codes for row in _measured(sweep, code)],
    )
    _add(
        out,
        "expected",
        node,
        ("setting", "expectation", "layer", "metric", "value"),
        [
            (ids[code], spec.expect, one.layer, one.metric, one.value)
            for code in codes
            for one in sweep.expected.get(code, [])
        ],
    )
    ends = (done[0].ts, max(one.ts + one.dur for one in done)) if done else (0, 0)
    _add(
        out,
        "clock",
        node,
        ("ts", "wall", "event"),
        [(ts, ts, event) for ts, event in zip(ends, ("start", "end"), strict=True)],
    )


def _measured(
    sweep: Sweep, code: Code
) -> list[tuple[str, str, float | None, float | None, float | None, int, str]]:
    """Rows of table `measured`: the target's number, then what layers showed."""
    measurements = [one for one in sweep.counted(code) if one.value is not None]
    metrics = {APPLICATION: {sweep.spec.target.metric: [one.value for one in measurements]}}
    for one in measurements:
        for place, value in one.layers.items():
            layer, metric = place.split("/")
            if (layer, metric) != (APPLICATION, sweep.spec.target.metric):
                metrics.setdefault(layer, {}).setdefault(metric, []).append(value)
    rows = []
    for layer, named in metrics.items():
        for metric, values in named.items():
            known = [value for value in values if value is not None]
            said = summarize(known, sweep.spec.repeats)
            rows.append((layer, metric, said.value, said.low, said.high, len(known), said.state))
    return rows


def _add_requests(out: Output, seen: Any) -> None:
    """Adds what the kernel saw: an Arrow table of rows of table `disk_op`."""
    whole = seen.combine_chunks()
    columns = {name: whole[name].chunk(0) for name in whole.column_names if whole.num_rows}
    out.add("disk_op", columns, whole.num_rows)


def _add_all_requests(out: Output, records: Path) -> None:
    """Adds what the kernel saw of each measurement: files in a folder, if there is one."""
    for file in sorted(records.glob("*.parquet")):
        _add_requests(out, parquet.read_table(file))


def _add(out: Output, table: str, node: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    out.add(table, {"node": node, **columns}, len(rows))
