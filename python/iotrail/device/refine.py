"""Choose by simulation what classes of requests don't determine: caches, and the parts of known sums."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from iotrail.device.demerit import demerit
from iotrail.device.estimates import Draft
from iotrail.device.observed import Ints, Observed
from iotrail.device.parameters import CACHE_DEFAULTS, build
from iotrail.device.simulate import Simulator

# A candidate is better from this relative improvement: less is chance.
_IMPROVEMENT = 0.005
_ROUNDS = 4
_TRACK_KIB = (32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
_SEGMENT_KIB = (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
# Requests nearer than this may be on the track of the one before.
_NEAR_BYTES = 256 << 10


def _choices(draft: Draft) -> Iterable[list[dict[str, Any]]]:
    """What only simulation can tell: alternatives, each some parameters with values."""

    def values(name: str, candidates: list[Any]) -> list[dict[str, Any]]:
        return [{name: candidate} for candidate in candidates]

    # First, as too much of it looks like other parameters: a revolution is lost.
    for step_ns in (1_000_000, 250_000, 60_000):
        yield [_move_overhead(draft, sign * step_ns) for sign in (-1, 1)]
    # Once, in the first round: what the others have adapted to stays best.
    if not draft.estimates["track_bytes"].known:
        yield values("track_bytes", [kib << 10 for kib in _TRACK_KIB])
    if draft["read_cache"]:
        yield values("read_cache.read_ahead_on_hit", [False, True])
        yield values("read_cache.segment_bytes", [kib << 10 for kib in _SEGMENT_KIB])
        yield values("read_cache.read_ahead_share", [0.0, 0.25, 0.5, 0.75, 1.0])
        yield values("read_cache.segments", [1, 2, 4, 8, 16, 32])
    yield values("zero_latency", [False, True])
    if draft["write_cache"]:
        yield values("write_cache.size_bytes", [kib << 10 for kib in (64, 128, 256, 512, 1024, 4096)])
        yield values("write_cache.idle_ns", [0, 1_000_000, 10_000_000, 100_000_000])


def _move_overhead(draft: Draft, by_ns: float) -> dict[str, Any]:
    """More of the shortest seek in the overheads: the sums are known better than their parts."""
    curve, overheads = draft["seek"], {name: draft[name] for name in ("bus.read_ns", "bus.write_ns")}
    by_ns = float(np.clip(by_ns, -min(overheads.values()), curve["a_ns"]))
    shorter = {**curve, "a_ns": curve["a_ns"] - by_ns, "c_ns": curve["c_ns"] - by_ns}
    return {"seek": shorter, **{name: value + by_ns for name, value in overheads.items()}}


def refine(draft: Draft, requests: Observed, simulators: list[Simulator]) -> None:
    """Choose what only simulation can tell: for each kind of read cache, one parameter after another."""
    kinds: list[dict[str, Any]] = [{}]
    if draft["read_cache"]:
        # Where reads as fast as memory are few, there may be none.
        kinds = [{"read_cache.track_buffer": False}, {"read_cache.track_buffer": True}, {"read_cache": False}]
    best, chosen = np.inf, draft.estimates
    for kind in kinds:
        tried = Draft(draft.capacity, dict(draft.estimates))
        for name, value in kind.items():
            tried.set(name, value, _simulation(requests))
        loss = _descend(tried, requests, simulators)
        if loss < best * (1 - _IMPROVEMENT):
            best, chosen = loss, tried.estimates
    draft.estimates = chosen
    for name, value in CACHE_DEFAULTS.items():
        cache = name.partition(".")[0]
        if name not in chosen and (cache == name or draft[cache]):
            draft.set(name, value, "default: no other value predicts the requests better")


def _simulation(requests: Observed) -> str:
    return f"fitted: simulation of {len(requests):,} requests"


def _descend(draft: Draft, requests: Observed, simulators: list[Simulator]) -> float:
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
        (demerit(requests.service, all_) + np.abs(measured - means).sum() / len(requests))
        / requests.service.mean()
    )
