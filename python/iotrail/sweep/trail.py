"""A sweep as a trail: its settings, measurements and expectations as rows, its specification as a fact."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from iotrail import native
from iotrail.anomaly.space import Value
from iotrail.expected.user import APPLICATION
from iotrail.importers.base import Output
from iotrail.importers.ids import hash63
from iotrail.sweep.repeats import summarize
from iotrail.sweep.run import Code, Sweep

# Facts of table `recording`.
SPECIFICATION, SPECIFICATION_PATH, SETTINGS = "specification", "specification_path", "settings"


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
    ids = {code: setting_id(sweep.space.setting(code)) for code in codes}
    spec = sweep.spec
    with Output(path, force) as out:
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
            (one for code in codes for one in sweep.measurements[code]),
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
        for file in sorted(records.glob("*.parquet")):
            seen = parquet.read_table(file)
            out.add("disk_op", {name: _whole(seen[name]) for name in seen.column_names}, seen.num_rows)
        facts: dict[str, object] = {
            "command": json.dumps(list(command)),
            "format": "sweep",
            "version": native.package_version() or "not installed",
            SPECIFICATION: spec.text,
            SPECIFICATION_PATH: spec.path,
            "seed": spec.seed,
            "better": "higher" if spec.target.is_higher_better else "lower",
            SETTINGS: len(sweep.space.feasible),
            "time_base": "absolute",
        }
        _add(out, "recording", node, ("name", "value"), [(name, str(value)) for name, value in facts.items()])
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
    measurements = [one for one in sweep.measurements[code] if one.value is not None]
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


def _whole(column: Any) -> Any:
    """An Arrow column in one piece."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _add(out: Output, table: str, node: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    out.add(table, {"node": node, **columns}, len(rows))
