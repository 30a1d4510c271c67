"""`iotrail model export fio`: a fio job with the aggregates of a model's requests, and with --zoned where they go.

For storage on which fio is what runs, and as the baseline that a model is held to: what a job file can't hold is what
`iotrail generate` does besides, and the file says so. Options are those of fio 3.33 (fio(1)).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrail import units
from iotrail.errors import ModelError
from iotrail.model.fit import Model, draw, load

Ints = npt.NDArray[np.int64]

# What `draw` calls them.
_READ, _WRITE, _FLUSH, _DISCARD = range(4)
# Sizes of a bssplit (BSSPLIT_MAX in fio's thread_options.h).
_MOST_SIZES = 64
# Zones of fewer requests join the next one: a zone's share is a whole number of per cent, and there are 256 at most
# (ZONESPLIT_MAX).
_LEAST_SHARE = 0.01
# What O_DIRECT takes of any device.
_SECTOR = 512
_PAGE = 4096
_DEPTH = 32
_LEFT_OUT = """\
; What a fio job can't hold, and iotrail generate does:
; - bursts: {gaps}
; - reuse: a place is used again by chance only, so that caches miss what they hit
; - order: which place, size and direction follows which; runs that interleave"""
_EXPONENTIAL = "gaps between requests are exponential here, one independent of the other"
_EQUAL = "gaps between requests are equal here (fio 3.33 crashes with rate_process=poisson and flushes)"
_ZONED = "; Reads and writes go to the same zones; within one places are random."
_UNZONED = "; Places are random in all of size; with --zoned they are in zones."


@dataclass(frozen=True)
class _Zone:
    """A range of addresses and the share of requests in it, in whole per cent."""

    length_bytes: int
    percent: int


def export(path: Path, *, seed: int, zoned: bool) -> str:
    """The job file of a model file: rates, mix, sizes and sequential shares are those of its requests with a seed.

    Raises:
        ModelError: it can't be read, or has no reads and writes at different times.
    """
    model = load(path)
    with draw(path, seed=seed) as batches:
        found = list(batches)
    drawn = {
        name: np.concatenate([batch.column(name).to_numpy() for batch in found]).astype(np.int64)
        if found
        else np.zeros(0, np.int64)
        for name in ("device", "op", "pos", "length")
    }
    seconds = model["rate"]["length_ns"] / 1e9
    is_placed = drawn["op"] <= _WRITE
    if not seconds or not is_placed.any():
        raise ModelError(
            f"{path}: expected reads or writes at different times, found "
            + (f"{len(is_placed):,} requests at one time" if is_placed.any() else "none"),
            "iotrail model show prints what it holds",
        )
    has_flushes = bool((drawn["op"] == _FLUSH).any())
    targets = _targets(len(model["devices"]))
    lines = [
        f"; {path.name}, by iotrail model export fio: {len(drawn['op']):,} requests in {units.duration(round(seconds * 1e9))}.",
        f"; Run it with: {' '.join(f'{name}=PATH' for name in targets)} fio FILE. It writes over what is there.",
        _LEFT_OUT.format(gaps=_EQUAL if has_flushes else _EXPONENTIAL),
        "; Shares are whole per cent, as fio takes them.",
        _ZONED if zoned else _UNZONED,
        *_untold(drawn),
        "",
        "[global]",
        "ioengine=libaio",
        f"iodepth={_DEPTH}",
        f"direct={int(not (drawn['length'][is_placed] % _SECTOR).any())}",
        "rw=randrw",
        "norandommap=1",
        *([] if has_flushes else ["rate_process=poisson"]),
        "time_based=1",
        f"runtime={math.ceil(seconds)}",
    ]
    for number, target in enumerate(targets):
        of_device = drawn["device"] == number
        of = {name: column[of_device] for name, column in drawn.items()}
        if (of["op"] <= _WRITE).any():
            lines += ["", f"[device-{number}]", f"filename=${{{target}}}", *_job(of, seconds, has_flushes)]
            lines += [f"size={model['devices'][number]['reach_bytes']}"]
            lines += [f"random_distribution=zoned_abs:{_zones(model, number)}"] if zoned else []
    return "\n".join(lines) + "\n"


def _targets(devices: int) -> list[str]:
    """Variables of the environment that fio takes the places of devices from."""
    return ["TARGET"] if devices == 1 else [f"TARGET{number}" for number in range(devices)]


def _untold(drawn: dict[str, Ints]) -> Iterator[str]:
    discards = int((drawn["op"] == _DISCARD).sum())
    if discards:
        yield f"; Left out: {discards:,} discards, which fio doesn't mix with reads and writes."


def _job(of: dict[str, Ints], seconds: float, has_flushes: bool) -> Iterator[str]:
    """Options of a device's requests."""
    directions = {"reads": of["op"] == _READ, "writes": of["op"] == _WRITE}
    counts = {name: int(which.sum()) for name, which in directions.items()}
    splits = {name: _split(of["length"][which]) for name, which in directions.items()}
    rates = {name: count / seconds for name, count in counts.items()}
    yield f"rwmixread={round(100 * counts['reads'] / sum(counts.values()))}"
    if has_flushes:
        # without rate_process=poisson fio takes rate_iops for requests of the smallest size (__setup_rate in backend.c)
        bytes_per_second = (
            rates[name] * sum(size * percent for size, percent in split) / 100
            for name, split in splits.items()
        )
        yield "rate=" + ",".join(str(math.ceil(rate)) for rate in bytes_per_second)
    else:
        for name, rate in rates.items():
            if 0 < rate < 0.5:
                yield f"; {rate:.3g} {name} per second: fio's least is 1"
        yield "rate_iops=" + ",".join(str(max(round(rate), int(rate > 0))) for rate in rates.values())
    yield "bssplit=" + ",".join(
        ":".join(f"{size}/{percent}" for size, percent in split) for split in splits.values()
    )
    random = (_random_percent(of["pos"][which], of["length"][which]) for which in directions.values())
    yield "percentage_random=" + ",".join(map(str, random))
    flushes = int((of["op"] == _FLUSH).sum())
    if flushes and counts["writes"]:
        yield f"fdatasync={max(round(counts['writes'] / flushes), 1)}"


def _split(lengths: Ints) -> list[tuple[int, int]]:
    """Sizes and their per cent; rare sizes count as the nearest frequent one. Of no requests any size."""
    if not len(lengths):
        return [(_PAGE, 100)]
    sizes, counts = np.unique(lengths, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_SIZES]
    kept = np.sort(order[(counts[order] >= 0.005 * len(lengths)) | (order == order[0])])
    apart = np.abs(np.log(np.maximum(sizes, 1))[:, None] - np.log(np.maximum(sizes[kept], 1))[None, :])
    weights = np.bincount(apart.argmin(axis=1), weights=counts, minlength=len(kept))
    percents = _whole(weights / weights.sum())
    return [(int(size), percent) for size, percent in zip(sizes[kept], percents, strict=True) if percent]


def _whole(shares: npt.NDArray[np.float64]) -> list[int]:
    """Shares in whole per cent that sum to 100: those that lose most by it are rounded up."""
    percents = np.floor(shares * 100).astype(int)
    missing = 100 - int(percents.sum())
    percents[np.argsort(percents - shares * 100, kind="stable")[:missing]] += 1
    return [int(each) for each in percents]


def _random_percent(pos: Ints, length: Ints) -> int:
    """Requests that don't begin where the one before of their direction ended, as fio counts them."""
    if len(pos) < 2:
        return 100
    return round(100 * float((pos[1:] != pos[:-1] + length[:-1]).mean()))


def _zones(model: Model, device: int) -> str:
    """Zones of a device by the shares of its states, in the order of addresses."""
    return ":".join(f"{zone.percent}/{zone.length_bytes}" for zone in _zones_of(model, device))


def _zones_of(model: Model, device: int) -> list[_Zone]:
    counts: dict[int, int] = {}
    for _, rows in model["states"]:
        for of, state, count in rows:
            if of == device:
                counts[state] = counts.get(state, 0) + count
    total = sum(counts.values())
    ranges = 4 ** model["levels"]
    reach: int = model["devices"][device]["reach_bytes"]

    def begin(state: int) -> int:
        return -(-state * reach // int(ranges))

    zones: list[_Zone] = []
    at, below, inside = 0, 0, 0

    def close(end: int) -> None:
        nonlocal at, below, inside
        if end > at:
            # rounded sums, so that all sum to 100
            percent = round(100 * (below + inside) / total) - round(100 * below / total)
            zones.append(_Zone(end - at, percent))
            at, below, inside = end, below + inside, 0

    for state, count in sorted(counts.items()):
        # what nobody uses is a zone of its own, if what lies before is enough for one
        if begin(state) > at and (inside >= _LEAST_SHARE * total or not inside):
            close(begin(state))
        inside += count
        if inside >= _LEAST_SHARE * total:
            close(begin(state + 1))
    close(reach)
    return zones
