"""Fit a disk to the requests that a real one served: parameters whose simulated service times are distributed alike.

First the parameters that classes of requests determine by themselves: what memory serves, rotation, seeks, rates. Then
those of the caches and what remains, by simulation of the same requests with many candidates. What the requests can't tell
has a default, and says so. No device is asked and no knowledge of models is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iotrail.device import mechanics, memory, rotation
from iotrail.device.compare import Comparison, compare
from iotrail.device.demerit import demerit
from iotrail.device.mechanics import Mechanics
from iotrail.device.memory import Line
from iotrail.device.observed import Ints, Mask, Observed
from iotrail.device.rotation import Rotation
from iotrail.device.simulate import Simulator
from iotrail.errors import FitError

SECTOR = 512

# Defaults for what requests don't tell, each with the reason for it.
_DEFAULT_RPM = 7200
_DEFAULT_HEADS = 4
_DEFAULT_OVERHEAD_NS = 200_000
# Disks of the 1990s to 2020s switch heads in 0.5 to 1.5 ms.
_DEFAULT_SWITCH_NS = 1_000_000
_DEFAULT_SEEK = {"a_ns": 1e6, "b_ns": 8e6, "c_ns": 3e6, "d_ns": 8e6, "e": 0.25}
# SATA's rate, which hides the bus.
_DEFAULT_BUS_BYTES_PER_S = 300_000_000
_DEFAULT_TRACK_BYTES = 512 << 10
_ZONES = 8

# A write cache is there if this share of the writes that seek is as fast as memory.
_CACHED_WRITES = 0.5
# Requests are simulated with their arrivals at so many phases of the rotation, so that their waits are spread evenly.
_PHASES = 4
# A candidate is better from this relative improvement: less is chance.
_IMPROVEMENT = 0.005
_ROUNDS = 4
_TRACK_KIB = (32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
_SEGMENT_KIB = (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
# Requests nearer than this may be on the track of the one before.
_NEAR_BYTES = 256 << 10


@dataclass(frozen=True)
class Estimate:
    """Where a parameter's value is from."""

    value: Any
    # standard error, in the unit of the value; None if it isn't known or the value is a default
    error: float | None
    # "fitted: 3,021 reads elsewhere", "given", "default: …"
    source: str

    @property
    def known(self) -> bool:
        """Whether the requests or the user determine it."""
        return not self.source.startswith("default")


@dataclass
class Fitted:
    """A disk fitted to requests."""

    # what `Disk::new` of crates/sim takes, in its JSON
    parameters: dict[str, Any]
    # by parameter
    estimates: dict[str, Estimate]
    # how the fitted disk compares on the requests it was fitted to
    comparison: Comparison


@dataclass
class _Draft:
    """Parameters as far as they are known."""

    capacity: int
    estimates: dict[str, Estimate] = field(default_factory=dict)

    def set(self, name: str, value: Any, source: str, error: float | None = None) -> None:
        if error is not None and not np.isfinite(error):
            error = None
        self.estimates[name] = Estimate(value, error, source)

    def __getitem__(self, name: str) -> Any:
        return self.estimates[name].value


def fit(
    requests: Observed, program: list[str], rpm: float | None = None, capacity_bytes: int | None = None
) -> Fitted:
    """Fit a disk to requests.

    Args:
        requests: what was served, in the order of arrival
        program: the simulator's command line
        rpm: rotational speed, if known
        capacity_bytes: capacity, if known; else the disk ends where the requests do

    Raises:
        FitError: nothing can be learned from these requests, or the simulator failed.
    """
    requests.check()
    end = int((requests.pos + requests.length).max())
    if capacity_bytes is not None and capacity_bytes < end:
        raise FitError(
            f"capacity: expected at least {end} bytes, where the requests end, found {capacity_bytes}"
        )
    draft = _Draft(-(-(capacity_bytes or end) // SECTOR) * SECTOR)
    draft.set(
        "capacity_bytes", draft.capacity, "given" if capacity_bytes else "default: the end of the requests"
    )

    reads, medium = _fit_memory(draft, requests)
    moves = mechanics.regress(requests, medium, draft.capacity)
    turns = _fit_rotation(draft, requests, medium, moves, rpm)
    _fit_mechanics(draft, requests, medium, moves, turns, reads)
    _fit_media_rate(draft, requests, moves, reads)
    shifts = [int(turns.revolution_ns * part / _PHASES) for part in range(_PHASES)]
    simulators = [Simulator(program, requests, shift) for shift in shifts]
    _refine(draft, requests, simulators)
    parameters = build(draft.estimates)
    simulated = [simulate(parameters) for simulate in simulators]
    return Fitted(parameters, draft.estimates, compare(requests, simulated))


def _fit_memory(draft: _Draft, requests: Observed) -> tuple[Line | None, Mask]:
    """Overheads and rate of what memory serves; the line of reads; which requests the medium served."""
    write = requests.write
    reads = memory.find_line(requests.length[~write], requests.service[~write])
    writes = memory.find_line(requests.length[write], requests.service[write])
    medium = np.ones(len(requests), dtype=bool)
    if reads:
        hits = ~write & reads.has(requests.length, requests.service)
        medium &= ~hits
        source = f"fitted: {int(hits.sum()):,} reads that memory served"
        draft.set("bus.read_hit_ns", reads.overhead_ns, source, reads.overhead_error_ns)
    else:
        draft.set("bus.read_hit_ns", _DEFAULT_OVERHEAD_NS, "default: memory served no read")
    draft.set("read_cache", bool(reads), draft.estimates["bus.read_hit_ns"].source)

    seeking = write & (np.abs(requests.pos - requests.previous_end) > mechanics.NEAR * draft.capacity)
    fast = writes.has(requests.length, requests.service) if writes else np.zeros(len(requests), dtype=bool)
    if writes and seeking.any() and fast[seeking].mean() >= _CACHED_WRITES:
        medium &= ~write
        in_memory = write & fast
        over = requests.service[in_memory] - writes.ns_per_byte * requests.length[in_memory]
        source = f"fitted: {int(in_memory.sum()):,} writes that memory took"
        draft.set("bus.write_hit_ns", float(np.median(over)), source, writes.overhead_error_ns)
        draft.set("write_cache", True, source)
    else:
        why = "writes went to the medium" if write.any() else "no writes"
        draft.set("bus.write_hit_ns", _DEFAULT_OVERHEAD_NS, f"default: {why}")
        draft.set(
            "write_cache",
            False,
            f"fitted: {int(write.sum()):,} writes" if write.any() else "default: no writes",
        )
        writes = None

    line = reads or writes
    if line and line.ns_per_byte > 0:
        source = f"fitted: {line.count:,} requests that memory served"
        rate, error = 1e9 / line.ns_per_byte, 1e9 / line.ns_per_byte**2 * line.ns_per_byte_error
        draft.set("bus.bytes_per_s", rate, source, error)
    else:
        draft.set("bus.bytes_per_s", _DEFAULT_BUS_BYTES_PER_S, "default: nothing served by memory shows it")
    return reads, medium


def _fit_rotation(
    draft: _Draft, requests: Observed, medium: Mask, moves: Mechanics | None, rpm: float | None
) -> Rotation:
    """The time of a revolution: as given, by phases, by the spread of service times."""
    if rpm is not None:
        if not 60 <= rpm <= 60e6:
            raise FitError(f"rpm: expected 60 to 60000000, found {rpm:g}")
        turns = Rotation(60e9 / rpm, None, "given")
    else:
        found = None
        # Where writes end on the medium; else where reads end on it, whose bus transfer may or may not come after.
        for write, rate in ((True, 0.0), (False, 0.0), (False, 1e9 / draft["bus.bytes_per_s"])):
            chosen = medium & (requests.write == write)
            part = Observed(
                requests.write[chosen],
                requests.pos[chosen],
                requests.length[chosen],
                requests.arrival[chosen],
                requests.service[chosen],
            )
            found = found or rotation.by_phase(part, part.arrival + part.service - rate * part.length)
        if found is None and moves is not None:
            found = rotation.by_spread(moves.residuals)
        turns = found or Rotation(60e9 / _DEFAULT_RPM, None, "default: the requests don't show it")
    draft.set("revolution_ns", turns.revolution_ns, turns.source, turns.error_ns)
    return turns


def _fit_mechanics(
    draft: _Draft,
    requests: Observed,
    medium: Mask,
    moves: Mechanics | None,
    turns: Rotation,
    reads: Line | None,
) -> None:
    """Seek curve, and the overheads of commands that move the heads."""
    half_turn = turns.revolution_ns / 2
    overhead = reads.overhead_ns if reads else _DEFAULT_OVERHEAD_NS
    if moves is None:
        draft.set("seek", _DEFAULT_SEEK, "default: fewer than 30 requests that seek")
        draft.set("bus.read_ns", overhead, "default: as of reads that memory serves")
        draft.set("bus.write_ns", overhead, "default: as of reads that memory serves")
        return
    seekers = f"{int(moves.used.sum()):,} requests that seek"
    # Writes at the place of the one before need no seek, and nothing reads them ahead.
    near = np.abs(requests.pos - requests.previous_end) <= mechanics.NEAR * draft.capacity
    near &= medium & requests.write
    read_base, write_base = moves.read_base_ns, moves.write_base_ns
    split = "reads that memory serves" if reads else "default"
    if write_base is not None and near.sum() >= 30:
        # Their waits are spread over a revolution from the overhead on; what a twentieth undercuts is far enough in.
        waits = requests.service[near] - moves.write_ns_per_byte * requests.length[near]
        least = float(np.quantile(waits, 0.05)) - 0.05 * turns.revolution_ns
        write_ns = float(np.clip(least, 0, max(write_base - half_turn, 0)))
        shortest = max(write_base - half_turn - write_ns, 0)
        error = turns.revolution_ns * float(np.sqrt(0.05 * 0.95 / near.sum()))
        draft.set("bus.write_ns", write_ns, f"fitted: {int(near.sum()):,} writes near the request before", error)
        if read_base is not None:
            read_ns = max(read_base - half_turn - shortest, 0.0)
            source = f"fitted: {seekers}, with the shortest seek of writes"
            draft.set("bus.read_ns", read_ns, source, moves.errors["read_base"])
            shortest = read_base - half_turn - read_ns
        else:
            draft.set("bus.read_ns", overhead, "default: no reads of the medium")
    else:
        base = read_base if read_base is not None else write_base
        assert base is not None
        read_ns = min(overhead, max(base - half_turn, 0.0))
        shortest = max(base - half_turn - read_ns, 0.0)
        draft.set("bus.read_ns", read_ns, f"default: as of {split}; the shortest seek has the rest")
        write_ns = read_ns if write_base is None else max(write_base - half_turn - shortest, 0.0)
        source = f"fitted: {seekers}" if write_base is not None else "default: as of reads"
        draft.set("bus.write_ns", write_ns, source)
    bend = shortest + moves.b_ns * moves.e**0.5
    curve = {
        "a_ns": shortest,
        "b_ns": moves.b_ns,
        "c_ns": bend - moves.d_ns * moves.e,
        "d_ns": moves.d_ns,
        "e": moves.e,
    }
    error = moves.errors["read_base" if read_base is not None else "write_base"]
    draft.set("seek", curve, f"fitted: {seekers}", error)


def _fit_media_rate(draft: _Draft, requests: Observed, moves: Mechanics | None, reads: Line | None) -> None:
    """Tracks by the time of a byte on the medium, and whether the bus waits for the medium."""
    bus = reads.ns_per_byte if reads else 0.0
    draft.set("bus.read_overlap", True, "default: the bus doesn't show")
    medium, error, gradient = None, 0.0, 0.0
    if moves is not None:
        source = f"fitted: time by length of {int(moves.used.sum()):,} requests that seek"
        read, read_error = moves.read_ns_per_byte, moves.errors["read_rate"]
        if moves.write_base_ns is not None:
            medium, error = moves.write_ns_per_byte, moves.errors["write_rate"]
            if moves.read_base_ns is not None and bus > 0:
                overlap = abs(read - max(medium, bus)) < abs(read - medium - bus)
                draft.set("bus.read_overlap", overlap, source)
        elif bus > 0 and read - bus < 2 * read_error:
            draft.set("bus.read_overlap", True, source)
        else:
            medium, error = read, read_error
        if medium is not None and abs(moves.gradient_ns_per_byte) > 2 * moves.errors["gradient"]:
            gradient = moves.gradient_ns_per_byte
    # A byte's time holds its share of switches.
    switch = _DEFAULT_SWITCH_NS / draft["revolution_ns"]
    if medium is None or medium < 3 * error or medium <= 0:
        track = _DEFAULT_TRACK_BYTES
        draft.set("track_bytes", track, "default: the bus hides the medium's rate")
        draft.set("track_gradient", 0.0, "default: the bus hides the medium's rate")
        return
    track = draft["revolution_ns"] / (medium / (1 + switch))
    draft.set("track_bytes", track, source, track * error / medium)
    draft.set(
        "track_gradient", gradient / medium, source, moves.errors["gradient"] / medium if moves else None
    )


def build(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Parameters in the JSON of `Disk::new`."""

    def value(name: str, default: Any = None) -> Any:
        return estimates[name].value if name in estimates else default

    capacity, revolution = value("capacity_bytes"), round(value("revolution_ns"))
    switch = min(_DEFAULT_SWITCH_NS, revolution - 1)
    heads = value("heads", _DEFAULT_HEADS)
    # The time of a byte grows linearly from the first zone to the last.
    middles = (np.arange(_ZONES) + 0.5) / _ZONES - 0.5 if value("track_gradient") else np.zeros(1)
    relative = np.clip(1 + value("track_gradient") * middles, 0.2, 5)
    sectors = np.clip(np.rint(value("track_bytes") / SECTOR / relative), 1, 100_000).astype(int)
    cylinders = np.ceil(capacity / SECTOR / len(sectors) / (sectors * heads)).astype(int)
    zones = [
        {"cylinders": count, "sectors_per_track": per_track}
        for count, per_track in zip(cylinders.tolist(), sectors.tolist(), strict=True)
    ]
    bus = {
        name: round(value(f"bus.{name}")) for name in ("read_ns", "write_ns", "read_hit_ns", "write_hit_ns")
    }
    read_cache = {
        "segments": value("read_cache.segments", 4),
        "segment_bytes": value("read_cache.segment_bytes", 128 << 10),
        "read_ahead_bytes": round(
            value("read_cache.segment_bytes", 128 << 10) * value("read_cache.read_ahead_share", 1.0)
        ),
        "read_ahead_on_hit": value("read_cache.read_ahead_on_hit", False),
        "track_buffer": value("read_cache.track_buffer", False),
    }
    write_cache = {
        "bytes": value("write_cache.bytes", 256 << 10),
        "destage_above": 0.5,
        "idle_ns": value("write_cache.idle_ns", 0),
    }
    return {
        "capacity_bytes": capacity,
        "sector_bytes": SECTOR,
        "heads": heads,
        "zones": zones,
        "revolution_ns": revolution,
        "track_skew_ns": switch,
        "cylinder_skew_ns": switch,
        "head_switch_ns": switch,
        "cylinder_switch_ns": switch,
        "seek": {"curve": value("seek")},
        "write_settle_ns": 0,
        "zero_latency": value("zero_latency", False),
        "read_cache": read_cache if value("read_cache") else None,
        "write_cache": write_cache if value("write_cache") else None,
        "bus": {
            "bytes_per_s": max(round(value("bus.bytes_per_s")), 1),
            "read_overlap": bool(value("bus.read_overlap")),
            **bus,
        },
        "queue_depth": 1,
        "scheduler": "fcfs",
        "age_limit_ns": None,
        "power": None,
    }


def _choices(draft: _Draft) -> Iterable[list[dict[str, Any]]]:
    """What only simulation can tell: alternatives, each some parameters with values."""

    def values(name: str, candidates: list[Any]) -> list[dict[str, Any]]:
        return [{name: candidate} for candidate in candidates]

    if not draft.estimates["track_bytes"].known:
        yield values("track_bytes", [kib << 10 for kib in _TRACK_KIB])
    if draft["read_cache"]:
        yield values("read_cache.read_ahead_on_hit", [False, True])
        yield values("read_cache.segment_bytes", [kib << 10 for kib in _SEGMENT_KIB])
        yield values("read_cache.read_ahead_share", [0.0, 0.25, 0.5, 0.75, 1.0])
        yield values("read_cache.segments", [1, 2, 4, 8, 16, 32])
        yield values("zero_latency", [False, True])
    if draft["write_cache"]:
        yield values("write_cache.bytes", [kib << 10 for kib in (64, 128, 256, 512, 1024, 4096)])
        yield values("write_cache.idle_ns", [0, 1_000_000, 10_000_000, 100_000_000])
    for step_ns in (1_000_000, 250_000, 60_000):
        yield [_move_overhead(draft, sign * step_ns) for sign in (-1, 1)]


def _move_overhead(draft: _Draft, by_ns: float) -> dict[str, Any]:
    """More of the shortest seek in the overheads: the sums are known better than their parts."""
    curve, overheads = draft["seek"], {name: draft[name] for name in ("bus.read_ns", "bus.write_ns")}
    by_ns = float(np.clip(by_ns, -min(overheads.values()), curve["a_ns"]))
    shorter = {**curve, "a_ns": curve["a_ns"] - by_ns, "c_ns": curve["c_ns"] - by_ns}
    return {"seek": shorter, **{name: value + by_ns for name, value in overheads.items()}}


def _refine(draft: _Draft, requests: Observed, simulators: list[Simulator]) -> None:
    """Choose what only simulation can tell: for each kind of read cache, one parameter after another."""
    kinds = [False, True] if draft["read_cache"] else [False]
    best, chosen = np.inf, draft.estimates
    for track_buffer in kinds:
        tried = _Draft(draft.capacity, dict(draft.estimates))
        if draft["read_cache"]:
            tried.set("read_cache.track_buffer", track_buffer, _simulation(requests))
        loss = _descend(tried, requests, simulators)
        if loss < best * (1 - _IMPROVEMENT):
            best, chosen = loss, tried.estimates
    draft.estimates = chosen


def _simulation(requests: Observed) -> str:
    return f"fitted: simulation of {len(requests):,} requests"


def _descend(draft: _Draft, requests: Observed, simulators: list[Simulator]) -> float:
    """Change one parameter after another until none makes the fit better."""

    def loss() -> float:
        parameters = build(draft.estimates)
        return _loss(requests, [simulate(parameters) for simulate in simulators])

    best = loss()
    for _ in range(_ROUNDS):
        before = best
        for alternatives in _choices(draft):
            for alternative in alternatives:
                kept = draft.estimates
                if all(name in kept and kept[name].value == value for name, value in alternative.items()):
                    continue
                draft.estimates = dict(kept)
                for name, value in alternative.items():
                    error = kept[name].error if name in kept else None
                    draft.set(name, value, _simulation(requests), error)
                tried = loss()
                if tried < best * (1 - _IMPROVEMENT):
                    best = tried
                else:
                    draft.estimates = kept
        if best >= before:
            break
    return best


def _loss(requests: Observed, simulated: list[Ints]) -> float:
    """What a fit makes small, in mean service times: the distance of the distributions, and that of means by locality."""
    all_ = np.concatenate(simulated)
    gap = requests.pos - requests.previous_end
    # What the caches serve depends on the distance from the request before.
    edges = [-_NEAR_BYTES, -_NEAR_BYTES // 8, 0, 1, _NEAR_BYTES // 8, _NEAR_BYTES]
    part = 2 * np.digitize(gap, edges) + requests.write
    measured = np.bincount(part, requests.service)
    means = np.sum([np.bincount(part, run) for run in simulated], axis=0) / len(simulated)
    return float(
        (demerit(requests.service, all_) + np.abs(measured - means).sum() / len(requests)) / requests.service.mean()
    )
