"""What `iotrail model check` measures: each figure's value in one workload, and how far it is off in another.

After table 1 of Delimitrou et al., Accurate Modeling and Generation of Storage I/O for Datacenter Workloads (EXERT 2011), with
what decides how caches and devices respond besides.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from iotrail import units

# What `iotrail-native model describe` says of requests (crates/model/src/describe.rs), with `response`: what a device does.
Description = dict[str, Any]
Value = Callable[[Description], float | None]
# How a deviation is meant: relative to the original, as the difference of two shares, or as a distance, which is never negative
# (a share: of requests, of gaps, of uses of pages).
Kind = Literal["relative", "points", "distance"]

PAGE_BYTES = 4096
# Sizes with a figure each: the most frequent.
_MOST_SIZES = 3
# Of one device, and of two together: crates/model/src/describe/devices.rs.
_DEVICE_DISPERSION_NS = (10**8, 10**9, 10**10)
_CORRELATION_NS = (10**9, 10**10)
_DISPERSION_NS = (10**7, 10**8, 10**9, 10**10)
_QUANTILES = (0.1, 0.5, 0.9, 0.99)
_DIRECTIONS = {"r": "read", "w": "write"}


@dataclass(frozen=True)
class Measure:
    """A figure. `distance` compares a second workload with a first; `value` is None where only both together have one."""

    section: str
    key: str
    name: str
    unit: str
    kind: Kind
    distance: Callable[[Description, Description], float | None]
    value: Value | None = None


def magnitude(kind: Kind, deviation: float | None) -> float | None:
    """How large a deviation is, whichever way: of values the larger by the smaller, less 1. None if that is unknown or infinite."""
    if deviation is None or kind != "relative":
        return None if deviation is None else abs(deviation)
    return max(1 + deviation, 1 / (1 + deviation)) - 1 if deviation > -1 else None


def measures(original: Description, on: str | None) -> list[Measure]:
    """All figures, in the order in which they are shown."""
    found = [
        *_requests(),
        *_sizes(original),
        *_places(),
        *_times(),
        *_devices(original),
        *_caches(original),
    ]
    return found if on is None else [*found, *_responses(original, on)]


def _relative(section: str, key: str, name: str, unit: str, value: Value) -> Measure:
    def distance(one: Description, other: Description) -> float | None:
        first, second = value(one), value(other)
        if first is None or second is None:
            return None
        # of nothing no share is known, but that it stays
        return 0.0 if first == second else second / first - 1 if first else None

    return Measure(section, key, name, unit, "relative", distance, value)


def _share(section: str, key: str, name: str, value: Value) -> Measure:
    def distance(one: Description, other: Description) -> float | None:
        first, second = value(one), value(other)
        return None if first is None or second is None else second - first

    return Measure(section, key, name, "share", "points", distance, value)


def _distance(
    section: str, key: str, name: str, distance: Callable[[Description, Description], float | None]
) -> Measure:
    return Measure(section, key, name, "share", "distance", distance)


def _by(rows: Iterable[list[Any]]) -> dict[Any, Any]:
    return dict(map(tuple, rows))


def _requests() -> list[Measure]:
    def iops(one: Description) -> float | None:
        # from the first arrival to the last are one gap less than requests
        return (one["requests"] - 1) / one["length_ns"] * 1e9 if one["length_ns"] else None

    def flushes(one: Description) -> float | None:
        return one["flushes"] / one["requests"] if one["requests"] else None

    def discards(one: Description) -> float | None:
        return _count(one, "d") / one["requests"] if one["requests"] else None

    def reads(one: Description) -> float | None:
        total = _count(one, "r") + _count(one, "w")
        return _count(one, "r") / total if total else None

    def of_devices(one: Description, other: Description) -> float | None:
        return _largest([_by(each["devices"]) for each in (one, other)])

    section = "Requests"
    return [
        _relative(section, "requests", "requests", "", lambda one: one["requests"]),
        _relative(section, "iops", "IOPS", "1/s", iops),
        _share(section, "read_share", "reads", reads),
        _share(section, "flush_share", "flushes", flushes),
        _share(section, "discard_share", "discards", discards),
        _distance(section, "device_share", "device shares, largest", of_devices),
    ]


def _count(one: Description, direction: str) -> int:
    return sum(count for of, _, count in one["sizes"] if of == direction)


def _sizes(original: Description) -> list[Measure]:
    section = "Sizes"

    def by_size(one: Description, directions: str) -> dict[int, int]:
        counts: dict[int, int] = {}
        for direction, size, count in one["sizes"]:
            if direction in directions:
                counts[size] = counts.get(size, 0) + count
        return counts

    def mean(direction: str) -> Value:
        def value(one: Description) -> float | None:
            counts = by_size(one, direction)
            total = sum(counts.values())
            return sum(size * count for size, count in counts.items()) / total if total else None

        return value

    def share_of(size: int) -> Value:
        def value(one: Description) -> float | None:
            counts = by_size(one, "rw")
            return counts.get(size, 0) / sum(counts.values()) if counts else None

        return value

    def variation(direction: str) -> Callable[[Description, Description], float | None]:
        return lambda one, other: _variation([by_size(each, direction) for each in (one, other)])

    counts = by_size(original, "rw")
    frequent = sorted(counts, key=lambda size: (-counts[size], size))[:_MOST_SIZES]
    return [
        *(
            _relative(section, f"mean_{name}_bytes", f"mean {name} size", "bytes", mean(of))
            for of, name in _DIRECTIONS.items()
        ),
        *(
            _share(section, f"share_of_{size}_bytes", f"requests of {units.size(size)}", share_of(size))
            for size in frequent
        ),
        *(
            _distance(section, f"{name}_sizes", f"{name} sizes, total variation", variation(of))
            for of, name in _DIRECTIONS.items()
        ),
    ]


def _variation(counts: list[dict[Any, int]]) -> float | None:
    """Half the sum of absolute differences of shares: how many requests are of another kind."""
    totals = [sum(each.values()) for each in counts]
    if not all(totals):
        return None
    kinds = counts[0].keys() | counts[1].keys()
    off = (abs(counts[0].get(kind, 0) / totals[0] - counts[1].get(kind, 0) / totals[1]) for kind in kinds)
    return float(sum(off)) / 2


def _largest(counts: list[dict[Any, int]]) -> float | None:
    """The largest difference of a share."""
    totals = [sum(each.values()) for each in counts]
    if not all(totals):
        return None
    kinds = counts[0].keys() | counts[1].keys()
    return max(abs(counts[0].get(kind, 0) / totals[0] - counts[1].get(kind, 0) / totals[1]) for kind in kinds)


def _places() -> list[Measure]:
    section = "Places"

    def placed(one: Description) -> int:
        return sum(count for _, _, count in one["sizes"])

    def continuing(runs: int) -> Value:
        def value(one: Description) -> float | None:
            total = placed(one)
            return _by(one["going_on"]).get(runs, 0) / total if total else None

        return value

    def random(one: Description) -> float | None:
        share = continuing(32)(one)
        return None if share is None else 1 - share

    def transitions(one: Description) -> dict[tuple[int, int, int], int]:
        return {(device, before, after): count for device, before, after, count in one["transitions"]}

    def pages_of(width: int) -> Value:
        def value(one: Description) -> float | None:
            pages = _by(one.get("working_set", [])).get(width)
            return None if pages is None else pages * PAGE_BYTES

        return value

    def both(
        compare: Callable[[list[dict[Any, int]]], float | None],
    ) -> Callable[[Description, Description], float | None]:
        return lambda one, other: compare([transitions(each) for each in (one, other)])

    return [
        _share(section, "random_share", "random", random),
        *(
            _share(section, f"continue_{runs}", f"continue one of {runs} runs", continuing(runs))
            for runs in (2, 8, 32)
        ),
        _distance(section, "largest_transition", "transitions, largest", both(_largest)),
        _distance(section, "transitions", "transitions, total variation", both(_variation)),
        _relative(section, "footprint_bytes", "footprint", "bytes", lambda one: one["pages"] * PAGE_BYTES),
        *(
            _relative(
                section,
                f"working_set_{width}s_bytes",
                f"working set of {width} s",
                "bytes",
                pages_of(width * 10**9),
            )
            for width in (1, 10, 60)
        ),
    ]


def _times() -> list[Measure]:
    section = "Arrivals"

    def quantile(share: float) -> Value:
        return lambda one: _by(one["gaps_ns"]).get(share)

    def dispersion(width: int) -> Value:
        return lambda one: _by(one["dispersion"]).get(width)

    return [
        _relative(section, "mean_gap_ns", "inter-arrival time, mean", "ns", lambda one: one["gap_ns"]),
        *(
            _relative(
                section,
                f"gap_p{share * 100:g}_ns",
                f"inter-arrival time, p{share * 100:g}",
                "ns",
                quantile(share),
            )
            for share in _QUANTILES
        ),
        _distance(section, "gap_ks", "inter-arrival time, KS distance", _kolmogorov_smirnov),
        *(
            _relative(
                section,
                f"dispersion_{width / 1e9:g}s",
                f"dispersion at {width / 1e9:g} s",
                "",
                dispersion(width),
            )
            for width in _DISPERSION_NS
        ),
    ]


def _kolmogorov_smirnov(one: Description, other: Description) -> float | None:
    """Largest distance of the distribution functions, at the ends of buckets, within which times differ by less than 1 %."""
    if not one["gap_buckets"] or not other["gap_buckets"]:
        return None
    at, counts = zip(*(np.array(each["gap_buckets"], np.int64).T for each in (one, other)), strict=True)
    edges = np.union1d(*at)
    below = [
        np.concatenate(([0.0], np.cumsum(n) / n.sum()))[np.searchsorted(edge, edges, side="right")]
        for edge, n in zip(at, counts, strict=True)
    ]
    return float(np.abs(below[0] - below[1]).max())


def _devices(original: Description) -> list[Measure]:
    """How devices go together; nothing of one."""
    if len(original["devices"]) < 2:
        return []
    section = "Devices"
    busiest = sorted(original["devices"], key=lambda row: (-row[1], row[0]))[:2]
    first, second = sorted(device for device, _ in busiest)

    def pairs(one: Description, key: Callable[[list[Any]], Any]) -> dict[Any, int]:
        counts: dict[Any, int] = {}
        for row in one["between"]["pairs"]:
            counts[key(row)] = counts.get(key(row), 0) + row[3]
        return counts

    def changes(one: Description) -> float | None:
        counts = pairs(one, lambda row: row[0] != row[1])
        return counts.get(True, 0) / sum(counts.values()) if counts else None

    def variation(key: Callable[[list[Any]], Any]) -> Callable[[Description, Description], float | None]:
        return lambda one, other: _variation([pairs(each, key) for each in (one, other)])

    def dispersion(width: int) -> Callable[[Description, Description], float | None]:
        def distance(one: Description, other: Description) -> float | None:
            values, others = (
                {
                    device: value
                    for device, of, value in each["between"]["dispersion"]
                    if of == width and value
                }
                for each in (one, other)
            )
            off = [magnitude("relative", others[of] / values[of] - 1) for of in values.keys() & others.keys()]
            return max((each for each in off if each is not None), default=None)

        return distance

    def correlation(width: int) -> Value:
        def value(one: Description) -> float | None:
            rows = one["between"]["correlation"]
            return next(
                (row[3] for row in rows if {row[0], row[1]} == {first, second} and row[2] == width), None
            )

        return value

    def both(width: int) -> Measure:
        seconds = f"{width / 1e9:g}"
        name = f"correlation of devices {first} and {second} at {seconds} s"
        found = _share(section, f"device_correlation_{seconds}s", name, correlation(width))
        return replace(found, unit="")

    return [
        _share(section, "device_changes", "next is on another device", changes),
        _distance(
            section,
            "device_pairs",
            "pairs of devices, total variation",
            variation(lambda row: (row[0], row[1])),
        ),
        _distance(
            section, "device_gaps", "pairs by gap, total variation", variation(lambda row: tuple(row[:3]))
        ),
        *(
            _distance(
                section,
                f"device_dispersion_{width / 1e9:g}s",
                f"dispersion of a device at {width / 1e9:g} s, largest",
                dispersion(width),
            )
            for width in _DEVICE_DISPERSION_NS
        ),
        *map(both, _CORRELATION_NS),
    ]


def _caches(original: Description) -> list[Measure]:
    section = "Caches"

    def curve(key: str) -> Callable[[Description, Description], float | None]:
        return lambda one, other: _curves_apart(one[key], other[key], one["uses"], other["uses"])

    def of_policy(policy: str) -> Callable[[Description, Description], float | None]:
        def distance(one: Description, other: Description) -> float | None:
            rows = [
                [(size, misses) for name, size, misses in each["others"] if name == policy]
                for each in (one, other)
            ]
            return _curves_apart(rows[0], rows[1], one["uses"], other["uses"])

        return distance

    return [
        _distance(section, "lru", "LRU miss ratio, by ratio", curve("lru")),
        _distance(section, "lru_even", "LRU miss ratio, even sizes", curve("lru_even")),
        *(
            _distance(section, policy, f"{policy.upper()} miss ratio, by ratio", of_policy(policy))
            for policy in dict.fromkeys(row[0] for row in original["others"])
        ),
    ]


def _curves_apart(one: Any, other: Any, uses: int, other_uses: int) -> float | None:
    """Mean absolute difference of miss ratios over the sizes that both have."""
    if not uses or not other_uses:
        return None
    misses = [_by(one), _by(other)]
    sizes = misses[0].keys() & misses[1].keys()
    off = [abs(misses[0][size] / uses - misses[1][size] / other_uses) for size in sizes]
    return float(np.mean(off)) if off else None


def _responses(original: Description, on: str) -> list[Measure]:
    section = f"Simulated on {on}"

    def time(op: str, key: str) -> Value:
        return lambda one: one["response"]["times"].get(op, {}).get(key)

    also = [op for op in ("flush", "discard") if op in original["response"]["times"]]
    return [
        *(
            _relative(
                section,
                f"{op}_response_{key}",
                f"{op} response time, {name}",
                "ns",
                time(op, key),
            )
            for op in ("read", "write", *also)
            for key, name in (("mean_ns", "mean"), ("p99_ns", "p99"))
        ),
        _relative(section, "utilisation", "utilisation", "share", lambda one: one["response"]["utilisation"]),
    ]
