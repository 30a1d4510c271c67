"""Estimate what classes of requests determine by themselves: what memory serves, rotation, seeks, rates.

Each function adds estimates to a draft, defaults where the requests say nothing.
"""

import numpy as np

from iotrail.device import memory, rotation
from iotrail.device.estimates import Draft
from iotrail.device.mechanics import Mechanics
from iotrail.device.memory import Line
from iotrail.device.observed import Mask, Observed
from iotrail.device.rotation import Rotation
from iotrail.errors import FitError

# Defaults for what the requests don't tell: a desktop disk of the 2010s.
_RPM = 7200
_OVERHEAD_NS = 200_000
_SWITCH_NS = 1_000_000
_SEEK = {"a_ns": 1e6, "b_ns": 8e6, "c_ns": 3e6, "d_ns": 8e6, "e": 0.25}
_BUS_BYTES_PER_S = 300_000_000
_TRACK_BYTES = 512 << 10

# A write cache is there if the middle half of the writes elsewhere differ less than this: at 15,000 rpm, waits for the
# platter alone make it 2 ms.
_CACHED_SPREAD_NS = 1_000_000
_LEAST_WRITES = 20
# A disk with more of the reads that seek as fast as memory is none, or can't be seen behind a cache.
_FAST_READS = 0.5


def fit_memory(draft: Draft, requests: Observed) -> tuple[Line | None, Mask]:
    """Overheads and rate of what memory serves; the line of reads; which requests the medium served."""
    write = requests.write
    reads = memory.find_line(requests.length[~write], requests.service[~write])
    writes = memory.find_line(requests.length[write], requests.service[write])
    medium = np.ones(len(requests), dtype=bool)
    near = requests.near(draft.capacity)
    if reads:
        hits = ~write & reads.has(requests.length, requests.service)
        far = ~write & ~near
        if hits[far].sum() > _FAST_READS * far.sum():
            raise FitError(
                f"{int(hits[far].sum()):,} of {int(far.sum()):,} reads far from the request before "
                "took the time of memory: no disk seeks so fast",
                "fit a solid-state drive, or record a disk with reads that no cache serves",
            )
        medium &= ~hits
        source = f"fitted: {int(hits.sum()):,} reads that memory served"
        draft.set("bus.read_hit_ns", reads.overhead_ns, source, reads.overhead_error_ns)
    else:
        draft.set("bus.read_hit_ns", _OVERHEAD_NS, "default: memory served no read")
    draft.set("read_cache", bool(reads), draft.estimates["bus.read_hit_ns"].source)

    far = write & ~near
    line = reads or writes
    over = requests.service - (line.ns_per_byte if line else 0.0) * requests.length
    if far.sum() >= _LEAST_WRITES and np.subtract(*np.quantile(over[far], (0.75, 0.25))) < _CACHED_SPREAD_NS:
        medium &= ~write
        source = f"fitted: {int(write.sum()):,} writes that memory took"
        error = float(np.std(over[far]) / np.sqrt(far.sum()))
        draft.set("bus.write_hit_ns", max(float(np.median(over[write])), 0.0), source, error)
        draft.set("write_cache", True, source)
    else:
        why = "writes went to the medium" if write.any() else "no writes"
        draft.set("bus.write_hit_ns", _OVERHEAD_NS, f"default: {why}")
        few = far.sum() < _LEAST_WRITES
        draft.set(
            "write_cache", False, f"default: {why}" if few else f"fitted: {int(far.sum()):,} writes that seek"
        )
        line = reads

    if line and line.ns_per_byte > 0:
        source = f"fitted: {line.count:,} requests that memory served"
        rate, error = 1e9 / line.ns_per_byte, 1e9 / line.ns_per_byte**2 * line.ns_per_byte_error
        draft.set("bus.rate_bytes_per_s", rate, source, error)
    else:
        draft.set("bus.rate_bytes_per_s", _BUS_BYTES_PER_S, "default: nothing served by memory shows it")
    return reads, medium


def fit_rotation(
    draft: Draft, requests: Observed, medium: Mask, moves: Mechanics | None, rpm: float | None
) -> Rotation:
    """The time of a revolution: as given, by phases, by the spread of service times."""
    if rpm is not None:
        if not 60 <= rpm <= 60e6:
            raise FitError(f"rpm: expected 60 to 60000000, found {rpm:g}")
        turns = Rotation(60e9 / rpm, None, "given")
    else:
        found = None
        # Where writes end on the medium; else where reads end on it, whose bus transfer may or may not come after.
        for write, rate in ((True, 0.0), (False, 0.0), (False, 1e9 / draft["bus.rate_bytes_per_s"])):
            chosen = medium & (requests.write == write)
            part = requests[chosen]
            found = found or rotation.by_phase(part, part.arrival + part.service - rate * part.length)
        if found is None and moves is not None:
            found = rotation.by_spread(moves.residuals)
        turns = found or Rotation(60e9 / _RPM, None, "default: the requests don't show it")
    draft.set("revolution_ns", turns.revolution_ns, turns.source, turns.error_ns)
    return turns


def fit_mechanics(
    draft: Draft,
    requests: Observed,
    medium: Mask,
    moves: Mechanics | None,
    turns: Rotation,
    reads: Line | None,
) -> None:
    """Seek curve, and the overheads of commands that move the heads."""
    half_turn = turns.revolution_ns / 2
    overhead = reads.overhead_ns if reads else _OVERHEAD_NS
    if moves is None:
        draft.set("seek", _SEEK, "default: fewer than 30 requests that seek")
        draft.set("bus.read_ns", overhead, "default: as of reads that memory serves")
        draft.set("bus.write_ns", overhead, "default: as of reads that memory serves")
        return
    seekers = f"{int(moves.used.sum()):,} requests that seek"
    # Writes at the place of the one before need no seek, and nothing reads them ahead.
    near = medium & requests.write & requests.near(draft.capacity)
    read_base, write_base = moves.read_base_ns, moves.write_base_ns
    split = "reads that memory serves" if reads else "default"
    if write_base is not None and near.sum() >= 30:
        # Their waits are spread over a revolution from the overhead on; what a twentieth undercuts is far enough in.
        # Their data comes over the bus before, which a seek would hide.
        per_byte = moves.write_ns_per_byte + 1e9 / draft["bus.rate_bytes_per_s"]
        waits = requests.service[near] - per_byte * requests.length[near]
        least = float(np.quantile(waits, 0.05)) - 0.05 * turns.revolution_ns
        write_ns = float(np.clip(least, 0, max(write_base - half_turn, 0)))
        shortest = max(write_base - half_turn - write_ns, 0)
        error = turns.revolution_ns * float(np.sqrt(0.05 * 0.95 / near.sum()))
        draft.set(
            "bus.write_ns", write_ns, f"fitted: {int(near.sum()):,} writes near the request before", error
        )
        if read_base is not None:
            read_ns = max(read_base - half_turn - shortest, 0.0)
            source = f"fitted: {seekers}, with the shortest seek of writes"
            draft.set("bus.read_ns", read_ns, source, moves.errors["read_base"])
            shortest = max(read_base - half_turn - read_ns, 0.0)
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


def fit_media_rate(draft: Draft, requests: Observed, moves: Mechanics | None, reads: Line | None) -> None:
    """Tracks by the time of a byte on the medium, and whether the bus waits for the medium."""
    draft.set("head_switch_ns", _SWITCH_NS, "default: 0.5 to 1.5 ms are usual")
    draft.set("write_settle_ns", 0, "default: the overhead of writes has it")
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
    # A byte's time has its share of switches in it.
    switch = draft["head_switch_ns"] / draft["revolution_ns"]
    if medium is None or medium < 3 * error or medium <= 0:
        track = _TRACK_BYTES
        draft.set("track_bytes", track, "default: the bus hides the medium's rate")
        draft.set("track_gradient", 0.0, "default: the bus hides the medium's rate")
        return
    track = draft["revolution_ns"] / (medium / (1 + switch))
    draft.set("track_bytes", track, source, track * error / medium)
    draft.set(
        "track_gradient", gradient / medium, source, moves.errors["gradient"] / medium if moves else None
    )
