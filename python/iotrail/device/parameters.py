"""Make the parameters of a simulated disk from estimates."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from iotrail.device.estimates import Estimate

_SECTOR = 512
# How many zones stand for a rate that changes with the place.
_ZONES = 8
# Requests don't tell heads from cylinders. Disks of the 2020s have up to 20 heads and 500,000 cylinders.
_LEAST_HEADS, _MOST_HEADS, _MOST_CYLINDERS = 4, 64, 500_000
# Far from the simulator's limit of 4,000,000 cylinders, however zones share them.
_MOST_TRACKS = _MOST_HEADS * 500_000


# Where simulation prefers no other value.
CACHE_DEFAULTS: Mapping[str, Any] = {
    "read_cache.segments": 4,
    "read_cache.segment_bytes": 128 << 10,
    "read_cache.read_ahead_share": 1.0,
    "read_cache.read_ahead_on_hit": False,
    "read_cache.track_buffer": False,
    "write_cache.size_bytes": 256 << 10,
    "write_cache.idle_ns": 0,
    "zero_latency": False,
}


def build(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Parameters in the JSON of `Disk::new`."""

    def value(name: str) -> Any:
        return estimates[name].value if name in estimates else CACHE_DEFAULTS[name]

    capacity, revolution = value("capacity_bytes"), round(value("revolution_ns"))
    # Tracks are skewed by the time that a switch takes.
    switch = min(value("head_switch_ns"), revolution - 1)
    track_bytes = max(value("track_bytes"), capacity / _MOST_TRACKS)
    heads = int(np.clip(np.ceil(capacity / track_bytes / _MOST_CYLINDERS), _LEAST_HEADS, _MOST_HEADS))
    # The time of a byte grows linearly from the first zone to the last.
    middles = (np.arange(_ZONES) + 0.5) / _ZONES - 0.5 if value("track_gradient") else np.zeros(1)
    relative = np.clip(1 + value("track_gradient") * middles, 0.2, 5)
    sectors = np.clip(np.rint(track_bytes / _SECTOR / relative), 1, 100_000).astype(int)
    cylinders = np.ceil(capacity / _SECTOR / len(sectors) / (sectors * heads)).astype(int)
    zones = [
        {"cylinders": count, "sectors_per_track": per_track}
        for count, per_track in zip(cylinders.tolist(), sectors.tolist(), strict=True)
    ]
    bus = {
        name: round(value(f"bus.{name}")) for name in ("read_ns", "write_ns", "read_hit_ns", "write_hit_ns")
    }
    segment_bytes = value("read_cache.segment_bytes")
    read_cache = {
        "segments": value("read_cache.segments"),
        "segment_bytes": segment_bytes,
        "read_ahead_bytes": round(segment_bytes * value("read_cache.read_ahead_share")),
        "read_ahead_on_hit": value("read_cache.read_ahead_on_hit"),
        "track_buffer": value("read_cache.track_buffer"),
    }
    write_cache = {
        "size_bytes": value("write_cache.size_bytes"),
        "destage_above": 0.5,
        "idle_ns": value("write_cache.idle_ns"),
    }
    return {
        "capacity_bytes": capacity,
        "sector_bytes": _SECTOR,
        "heads": heads,
        "zones": zones,
        "revolution_ns": revolution,
        "track_skew_ns": switch,
        "cylinder_skew_ns": switch,
        "head_switch_ns": switch,
        "cylinder_switch_ns": switch,
        "seek": {"curve": value("seek")},
        "write_settle_ns": value("write_settle_ns"),
        "zero_latency": value("zero_latency"),
        "read_cache": read_cache if value("read_cache") else None,
        "write_cache": write_cache if value("write_cache") else None,
        "bus": {
            "rate_bytes_per_s": max(round(value("bus.rate_bytes_per_s")), 1),
            "read_overlap": bool(value("bus.read_overlap")),
            **bus,
        },
        "queue_depth": 1,
        "scheduler": "fcfs",
        "age_limit_ns": None,
        "power": None,
    }
