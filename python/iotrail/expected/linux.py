"""What the Linux of today is designed to reach on a block device: `iotrail-native simulate linux`, and the paper's equations.

The simulation has the kernel's read-ahead and I/O schedulers, and the device of a device file. Its driver gets no more requests
than the device works on at a time: whatever else waits can be sorted.
"""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from iotrail import native
from iotrail.anomaly.space import Value
from iotrail.errors import UsageError
from iotrail.expected import paper
from iotrail.expected.device import Disk, SeekCurve
from iotrail.expected.workload import MIB, Expected, Length, Workload
from iotrail.units import BYTES, NANOSECONDS

EXPECTATIONS = ("linux", "paper")
# Simulated measurements of each setting: they differ in where streams lie.
_SEEDS = 4
# Reading before it is measured, as a share of what is measured.
WARM_UP = 0.25
# Metrics of the simulation, by layer and metric, from the application down.
_LAYERS = {
    "throughput_bytes_per_s": ("application", "throughput_bytes_per_s"),
    "asked_bytes": ("readahead", "request_bytes"),
    "useful_share": ("readahead", "useful_share"),
    "request_bytes": ("scheduler", "request_bytes"),
    "seek_distance": ("scheduler", "seek_distance"),
    "service_ns": ("device", "service_ns"),
    "idle_ns": ("device", "idle_ns"),
}
# Whatever the other layers do: as much is asked for at a time as in the simulation, when that has read as much; nothing that is asked
# for is cut; and the device takes as long for the requests it gets as the device file's.
_GIVEN = (
    Expected("readahead", "asked_ratio", 1.0),
    Expected("scheduler", "cut_into", 1.0),
    Expected("device", "service_ratio", 1.0),
)
# How long bfq serves a process before the next (bfq_timeout, block/bfq-iosched.c), and the least share of a round of all processes that
# says what all rounds are like: of less it depends on who came first.
_BFQ_TURN_S = 0.125
_LEAST_ROUND = 0.5
# Of a layer's own work: so many times as long as was measured, windows have grown for long.
_MOST_AS_FAR = 4.0
# Settings of the kernel that what is expected depends on: what isn't set is not known.
NEEDED = ("scheduler", "readahead")
# Requests that a driver takes; fewer hold up nobody but readers without a scheduler.
_TAGS = 128


def expect_all(
    settings: Sequence[Mapping[str, Value]], model: str, device: str, seconds: float
) -> list[list[Expected]]:
    """What is expected of each setting that is measured for so long: by `linux`, or by the equations of the `paper`; `device` is
    a device file. Of a setting that isn't measured for long enough only what layers do with what they are given is expected.

    Raises `UsageError` for a device file or a setting that can't be.
    """
    for name in NEEDED:
        if any(name not in one for one in settings):
            raise UsageError(
                f"{model} expects nothing without a dimension {name}: the kernel's own setting would count",
                f"add [system.{name}], with one value to keep it the same",
            )
    values = device_values(device)
    if model == "paper":
        disk = _disk(values, device)
        return [[*paper.expect(_workload(one), _system(one), disk), *_GIVEN] for one in settings]
    depth = queue_depth(values)
    questions = [
        {**_line(one, depth, seconds), "seed": seed} for one in settings for seed in range(1, _SEEDS + 1)
    ]
    outcomes = native.answers(["simulate", "linux", device], questions)
    return [
        _means(outcomes[at : at + _SEEDS]) if _is_enough(one, seconds) else list(_GIVEN)
        for one, at in zip(settings, range(0, len(outcomes), _SEEDS), strict=True)
    ]


def _is_enough(setting: Mapping[str, Value], seconds: float) -> bool:
    """Whether a measurement of so many seconds, after a warm-up, sees what a scheduler does in the long run."""
    if setting["scheduler"] != "bfq":
        return True
    round_s = _BFQ_TURN_S * int(setting.get("concurrency", 1))
    return seconds * (1 + WARM_UP) >= _LEAST_ROUND * round_s


def expect_asked(
    setting: Mapping[str, Value], device: str, seconds: float, throughput: float
) -> float | None:
    """Mean bytes that are asked for at a time on a device of a device file, if in `seconds` as much is read as with this throughput
    (bytes/s): streams get as far, however slow the layers below are. None if nothing is asked for.
    """
    reached = _simulated(setting, device, seconds).get(("application", "throughput_bytes_per_s"))
    if not reached:
        return None
    share = min(throughput / reached, _MOST_AS_FAR)
    return _simulated(setting, device, seconds * share).get(("readahead", "request_bytes"))


def _simulated(setting: Mapping[str, Value], device: str, seconds: float) -> dict[tuple[str, str], float]:
    (found,) = expect_all([setting], "linux", device, seconds)
    return {(one.layer, one.metric): one.value for one in found}


def is_quick(values: Mapping[str, Any]) -> bool:
    """Whether a device of these values is simulated in a moment: an SSD is filled first, which takes seconds in each process."""
    return not any(name.startswith("ssd.") for name in values)


def queue_depth(values: Mapping[str, Any]) -> int:
    """The most requests that a device of these values works on at a time, or sorts."""
    return int(values.get("disk.queue_depth") or values.get("fixed.servers") or _TAGS)


def _means(outcomes: Sequence[Mapping[str, float | None]]) -> list[Expected]:
    """Means over simulated measurements; a metric of which some have none is left out."""
    found = []
    for name, (layer, metric) in _LAYERS.items():
        mean = float(np.mean([nan if (value := one[name]) is None else value for one in outcomes]))
        if not np.isnan(mean):
            found.append(Expected(layer, metric, mean))
    return [*found, *_GIVEN]


def _line(setting: Mapping[str, Value], depth: int, seconds: float) -> dict[str, Any]:
    """A setting for the simulation, where the driver gets at most `depth` requests at a time."""
    tags = int(setting.get("tags", _TAGS))
    stream = int(setting.get("stream", MIB))
    return {
        "workload": {
            "concurrency": int(setting.get("concurrency", 1)),
            "stream_bytes": stream,
            "run_bytes": int(setting.get("run", stream)),
            "think_ns_per_mib": int(setting.get("think", 0)),
            "span": float(setting.get("span", 1.0)),
        },
        "read_bytes": int(setting.get("read", 4096)),
        "system": {
            "readahead_bytes": int(setting["readahead"]),
            "scheduler": setting["scheduler"],
            "depth": min(tags, depth),
            "tags": tags,
            "direct": setting.get("io") == "direct",
        },
        "warm_up_ns": int(seconds * WARM_UP * 1e9),
        "length_ns": int(seconds * 1e9),
    }


def _workload(setting: Mapping[str, Value]) -> Workload:
    stream = int(setting.get("stream", MIB))
    return Workload(
        concurrency=int(setting.get("concurrency", 1)),
        streams=(Length(stream, 1.0),),
        run_bytes=int(setting.get("run", stream)),
        think_ns_per_mib=int(setting.get("think", 0)),
        span=float(setting.get("span", 1.0)),
        read_bytes=int(setting.get("read", 4096)),
    )


def _system(setting: Mapping[str, Value]) -> paper.System:
    """The paper knows an elevator, and a scheduler that waits for the next request of a process, as bfq does."""
    prefetch = 0 if setting.get("io") == "direct" else int(setting["readahead"])
    return paper.System(prefetch or None, "anticipatory" if setting["scheduler"] == "bfq" else "elevator")


def device_values(device: str | Path) -> dict[str, Any]:
    """The values of a device file, or of a device that comes with iotrail, by their keys: times in ns, sizes in bytes, rates in
    bytes per second.

    Raises `UsageError` if it can't be read.
    """
    (shown,) = native.answers(["device", "show", device])
    return {one["key"]: _scaled(one["value"], one["unit"]) for one in shown["values"]}


def _scaled(value: Any, unit: Any) -> Any:
    """A number in its base unit; a table of columns of several units as it is, for those are counts."""
    if not isinstance(unit, str):
        return value
    if unit == "rpm":
        return 60e9 / value
    scale = NANOSECONDS.get(unit) or BYTES.get(unit.removesuffix("/s"))
    return value if scale is None else value * scale


def _disk(values: Mapping[str, Any], device: str) -> Disk:
    """The paper's disk: seek curve, turn, and the rates of ten equal parts."""
    try:
        curve = [float(values[f"disk.seek.curve.{name}"]) for name in "abcde"]
        turn, heads, sector = (float(values[f"disk.{name}"]) for name in ("revolution", "heads", "sector"))
        zones = values["disk.zones"]
    except KeyError as error:
        raise UsageError(
            f"{device}: the paper's equations need a disk with a seek curve: no {error.args[0]}"
        ) from error
    sizes = np.array([zone["cylinders"] * heads * zone["sectors_per_track"] for zone in zones]) * sector
    rates = np.array([zone["sectors_per_track"] for zone in zones]) * sector / turn * 1e9
    ends = np.cumsum(sizes) / sizes.sum()
    parts = rates[np.minimum(np.searchsorted(ends, (np.arange(10) + 0.5) / 10), len(rates) - 1)]
    a, b, c, d, e = curve
    return Disk(SeekCurve(a, b, c, d, e), turn, tuple(map(float, parts)))
