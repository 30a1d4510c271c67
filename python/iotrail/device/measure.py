"""Measure a device and describe it by a device file."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iotrail.device.estimates import Draft, Estimate
from iotrail.device.measure_disk import DiskProbes, find_rotation
from iotrail.device.measure_volume import VolumeProbes
from iotrail.device.probe import Prober, Target
from iotrail.errors import DeviceError

KINDS = ("auto", "disk", "volume")
# Probes need this, whatever is measured.
LEAST_SECONDS = 5.0
_MS = 1e6


@dataclass(frozen=True)
class Measured:
    """What was found."""

    # `disk` or `fixed`
    kind: str
    # why it is of this kind, and how sure that is
    reason: str
    target: Target
    estimates: Mapping[str, Estimate]
    # the device file
    text: str
    requests: int
    seconds: float


def measure(
    path: Path,
    *,
    write: bool = False,
    overwrite: bool = False,
    seconds: float = 60.0,
    kind: str = "auto",
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Measured:
    """Measure a file or block device.

    Args:
        path: the target
        write: writes may be done, where the target holds zeros; they are written back at the end
        overwrite: writes may be done anywhere, and what was stored is lost
        seconds: about how long it may take
        kind: `disk`, `volume`, or `auto`: by what the system says and by whether reads follow a period
        seed: of the places and delays
        progress: gets the share of the time that was used

    Raises:
        DeviceError: the target can't or must not be measured, or a request failed.
    """
    if kind not in KINDS:
        raise DeviceError(f"--kind: expected {', '.join(KINDS)}, found {kind}")
    if not LEAST_SECONDS <= seconds <= 86_400:
        raise DeviceError(f"--seconds: expected {LEAST_SECONDS:g} to 86400, found {seconds:g}")
    with Prober(path, write=write, overwrite=overwrite, seconds=seconds, progress=progress) as prober:
        target = prober.target
        rotation = find_rotation(prober, np.random.default_rng(seed)) if kind != "volume" else None
        says = {
            True: "the kernel says that it rotates",
            False: "the kernel says that it does not rotate",
            None: "",
        }[target.rotational]
        if kind == "disk" and rotation is None:
            raise DeviceError(
                f"{path}: expected the period of a disk, found none in the ends of reads",
                "--kind volume measures it without; other users of the device must be quiet",
            )
        probes: DiskProbes | VolumeProbes
        if rotation is not None:
            reason = f"reads end in a period of {rotation.period / _MS:.3f} ms (coherence {rotation.coherence:.2f} of 1)"
            if target.rotational is False:
                reason += f", though {says}"
            elif says:
                reason += f", and {says}"
            probes = DiskProbes(prober, rotation, seed)
        else:
            reason = "reads follow no period" if kind == "auto" else "as --kind says"
            if says:
                reason += f"; {says}"
            probes = VolumeProbes(prober, seed)
        probes.measure()
        is_disk = isinstance(probes, DiskProbes)
        values = _disk(probes) if isinstance(probes, DiskProbes) else _volume(probes.draft)
        name = target.model or Path(target.path).name
        notes = f"Measured by iotrail device measure{' --write' if write else ''}: {reason}."
        text = _toml("disk" if is_disk else "fixed", f"{name}, measured", notes, values, probes.points.tables)
        return Measured(
            "disk" if is_disk else "fixed",
            reason,
            target,
            probes.draft.estimates,
            text,
            prober.requests,
            prober.used,
        )


# Values of device files: value, unit, source, error; or a table of them.


def _entry(value: Any, unit: str | None, source: str, error: Any = None) -> dict[str, Any]:
    return {"value": value, "unit": unit, "source": source, "error": error}


def _of(draft: Draft, key: str, unit: str | None, scale: float = 1.0) -> dict[str, Any]:
    """An estimate, `scale` base units in a unit."""
    estimate = draft.estimates[key]
    if isinstance(estimate.value, bool) or unit is None:
        return _entry(estimate.value, None, estimate.source)
    value = estimate.value / scale
    value = round(value) if unit in ("count", "B") else _rounded(value)
    error = None if estimate.error is None else _rounded(estimate.error / scale, 2)
    return _entry(value, unit, estimate.source, error)


def _assumed(value: Any, unit: str | None, why: str) -> dict[str, Any]:
    return _entry(value, unit, f"assumed: not measured, {why}")


def _volume(draft: Draft) -> dict[str, Any]:
    units = {
        "capacity": ("B", 1.0),
        "servers": ("count", 1.0),
        **dict.fromkeys(("read", "write", "flush", "trim"), ("ms", _MS)),
        "rate": ("MB/s", 1e6),
    }
    return {key: _of(draft, key, unit, scale) for key, (unit, scale) in units.items()}


# Requests don't tell heads: what is usual, and more where cylinders would become too many.
_HEADS = 4


def _disk(probes: DiskProbes) -> dict[str, Any]:
    draft, tracks = probes.draft, probes.tracks
    sector, size, period = probes.sector, probes.size, probes.rotation.period
    switch = draft.estimates["head_switch"]
    ms = "ms", _MS
    zones, errors = [], []
    for track in tracks:
        per_track = max(1, round(track.track / sector))
        cylinders = math.ceil(size / len(tracks) / (per_track * sector * _HEADS))
        zones.append({"cylinders": cylinders, "sectors_per_track": per_track})
        errors.append(_rounded(track.error / sector, 2))
    skew = _of(draft, "track_skew", *ms)
    found: dict[str, Any] = {
        "capacity": _of(draft, "capacity", "B"),
        "sector": _of(draft, "sector", "B"),
        "heads": _assumed(_HEADS, "count", "reads don't tell heads from cylinders"),
        "revolution": _of(draft, "revolution", *ms),
        "track_skew": skew,
        "cylinder_skew": _assumed(skew["value"], "ms", "as track_skew"),
        "head_switch": _of(draft, "head_switch", *ms),
        "cylinder_switch": _assumed(_rounded(switch.value / _MS), "ms", "as head_switch"),
        "write_settle": _of(draft, "write_settle", *ms)
        if "write_settle" in draft.estimates
        else _assumed(0, "ms", "no write waited for the medium" if probes.prober.write else "needs --write"),
        "zero_latency": _assumed(False, None, "reads were short"),
        "queue_depth": _assumed(1, "count", "one request at a time was measured"),
        "scheduler": _assumed("fcfs", None, "one request at a time was measured"),
        "zones": {
            "value": zones,
            "unit": {"cylinders": "count", "sectors_per_track": "count"},
            "source": f"measured: sectors of a track at {len(tracks)} places, the same share of the capacity each",
            "error": errors,
        },
        "seek": {
            "curve": {
                **{key: _of(draft, f"seek.curve.{key}", "ms", _MS) for key in "abcd"},
                "e": _of(draft, "seek.curve.e", "ratio"),
            }
        },
    }
    bus_write = (
        _of(draft, "bus.write", *ms)
        if "bus.write" in draft.estimates
        else _assumed(_rounded(draft["bus.read"] / _MS), "ms", "as bus.read")
    )
    found["bus"] = {
        "rate": _of(draft, "bus.rate", "MB/s", 1e6),
        "read_overlap": _of(draft, "bus.read_overlap", None),
        "read": _of(draft, "bus.read", *ms),
        "write": bus_write,
        "read_hit": _of(draft, "bus.read_hit", *ms),
        "write_hit": _of(draft, "bus.write_hit", *ms)
        if "bus.write_hit" in draft.estimates
        else _assumed(_rounded(draft["bus.read_hit"] / _MS), "ms", "as bus.read_hit"),
    }
    if draft["read_cache"]:
        on_hit = (
            _of(draft, "read_cache.read_ahead_on_hit", None)
            if "read_cache.read_ahead_on_hit" in draft.estimates
            else _assumed(False, None, "there is no read-ahead")
        )
        found["read_cache"] = {
            "segments": _of(draft, "read_cache.segments", "count"),
            "segment": _of(draft, "read_cache.segment", "B"),
            "read_ahead": _of(draft, "read_cache.read_ahead", "B"),
            "read_ahead_on_hit": on_hit,
            "track_buffer": _assumed(False, None, "reads went to descending places"),
        }
    if "write_cache" in draft.estimates and draft["write_cache"]:
        found["write_cache"] = {
            "size": _of(draft, "write_cache.size", "B"),
            "destage_above": _assumed(0.5, "ratio", "it shows in no response time"),
            "idle": _assumed(5, "ms", "it shows in no response time"),
        }
    assert period > 0
    return found


def _rounded(value: float, digits: int = 6) -> float:
    """A number with so many significant digits."""
    return float(f"{value:.{digits}g}")


# TOML.


def _toml(
    kind: str,
    name: str,
    notes: str,
    values: Mapping[str, Any],
    points: Mapping[str, Mapping[str, list[float]]],
) -> str:
    head = ["format = 1", f"kind = {_plain(kind)}", f"name = {_plain(name)}", f"notes = {_plain(notes)}"]
    lines = [*head, *_table(kind, values)]
    for table, columns in points.items():
        lines += ["", f"[measured.{table}]"]
        for column, numbers in columns.items():
            lines.append(f"{column} = {_plain([_rounded(number) for number in numbers])}")
    return "\n".join(lines) + "\n"


def _table(place: str, values: Mapping[str, Any]) -> list[str]:
    lines, after = ["", f"[{place}]"], []
    for key, value in values.items():
        if "value" not in value:
            after += _table(f"{place}.{key}", value)
        elif isinstance(value["value"], list):
            after += ["", f"[{place}.{key}]"]
            after += [f"{part} = {_plain(of)}" for part, of in value.items() if of is not None]
        else:
            parts = ", ".join(f"{part} = {_plain(of)}" for part, of in value.items() if of is not None)
            lines.append(f"{key} = {{ {parts} }}")
    # a table that holds only tables needs no line
    return (lines if len(lines) > 2 else []) + after


def _plain(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, str):
        # TOML's basic strings have the escapes of JSON
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_plain(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return "[\n" + "".join(f"    {_plain(each)},\n" for each in value) + "]"
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
