"""Whether a part of a model's time stands for the whole: how windows of that length differ from all of it.

A shorter run is "a compressed version of the original workload" if the original is self-similar (Delimitrou et al., Accurate
Modeling and Generation of Storage I/O for Datacenter Workloads, EXERT 2011, section 3.3.2). Requests are drawn from the model and
cut into windows, one after the other. Of each figure the deviation that nine of ten windows don't exceed stands beside what
chance gives: for counts of requests a Poisson process of the same rate, for the others the same requests in random order. Windows
are alike if no figure is further off than ALLOWED once chance is taken out.

How slowly counts even out says their Hurst exponent, by the aggregated variance (Leland et al., On the Self-Similar Nature of
Ethernet Traffic, IEEE/ACM ToN 1994, section 3.2): 0.5 of independent arrivals, towards 1 the longer dependence reaches.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from iotrail.model.fit import Model, draw

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Key = Literal["rate", "read_share", "mean_bytes", "places"]
Verdict = Literal["alike", "differ", "few", "empty", "unknown", "whole"]

# How far windows that are alike are off at most: rate and size relative to the whole, shares in points of a share.
ALLOWED = 0.1
# Fewer windows say nothing of how they differ.
LEAST_WINDOWS = 10
# Requests drawn at most, a batch more or less.
MOST_REQUESTS = 1 << 20
# Which share of the windows a deviation holds for.
_QUANTILE = 0.9
# How often chance is tried, as long as it isn't of more requests than that in all; and for counts alone, which cost less.
_TRIES, _LEAST_TRIES, _TRIED_REQUESTS, _TRIES_OF_COUNTS = 10, 3, 1 << 21, 100
# Cells of a table of windows by ranges.
_MOST_CELLS = 1 << 22
# Counts for the Hurst exponent: at least as many requests in each on average; blocks at the coarsest scale; series of known
# exponent that its range is taken from.
_MOST_COUNTS, _LEAST_COUNTS, _LEAST_IN_COUNT, _LEAST_BLOCKS, _SERIES = 2048, 256, 8, 16, 200

_READ, _WRITE, _FLUSH = 0, 1, 2


@dataclass(frozen=True)
class Requests:
    """Requests in the order of their arrival. Arrays have one entry a request."""

    # ns since the beginning
    ts: Ints
    # 0 read, 1 write, 2 flush, 3 discard
    op: Ints
    # bytes
    length: Ints
    # range of addresses: any numbers from 0 on; of flushes without meaning
    place: Ints
    # time that they are of, ns
    span_ns: int

    @classmethod
    def drawn(cls, model: Model, path: Path, *, seed: int, most: int = MOST_REQUESTS) -> "Requests":
        """Requests of a model, whose file is `path`: all, or `most` and those of the batch in which they end.

        Raises:
            ModelError: nothing could be drawn.
        """
        batches: list[dict[str, Ints]] = []
        count, is_cut = 0, False
        with draw(path, seed=seed) as drawn:
            for batch in drawn:
                if count >= most:
                    is_cut = True
                    break
                batches.append({name: batch.column(name).to_numpy() for name in batch.schema.names})
                count += len(batch)
        empty = np.zeros(0, np.int64)
        columns = {
            name: np.concatenate([empty, *(batch[name] for batch in batches)])
            for name in ("ts", "device", "op", "pos", "length")
        }
        place = np.zeros(count, np.int64)
        states = 4 ** model["levels"]
        for number, device in enumerate(model["devices"]):
            here = columns["device"] == number
            # the first address of each range but the first: the inverse of crates/model/src/states.rs
            ends = [-(-state * device["reach_bytes"] // states) for state in range(1, states)]
            places = np.searchsorted(np.array(ends, np.int64), columns["pos"][here], side="right")
            place[here] = number * states + places
        span_ns = int(columns["ts"][-1]) if is_cut else model["rate"]["length_ns"]
        return cls(columns["ts"], columns["op"], columns["length"], place, span_ns)


@dataclass(frozen=True)
class Hurst:
    """The Hurst exponent of counts, and where it lies with 95 % confidence: as far from it as estimates from fractional Gaussian
    noise of that exponent, as many counts, are from theirs; their bias is taken out."""

    exponent: float
    low: float
    high: float
    # lengths of the shortest and the longest scale, ns, and how many there are
    shortest_ns: int
    longest_ns: int
    scales: int


@dataclass(frozen=True)
class Spread:
    """How one figure differs between windows. `rate` is requests a second, `read_share` reads of reads and writes, `mean_bytes` the
    mean size; `places` has no value: its deviation is the total variation of the shares of ranges. None is unknown."""

    key: Key
    whole: float | None
    p10: float | None
    p50: float | None
    p90: float | None
    # from the whole, of nine in ten windows: `rate` and `mean_bytes` relative to it, the others points of a share
    deviation: float | None
    # what it would be by chance
    chance: float | None
    # what is left without chance; 0 where chance may well give the deviation
    excess: float | None
    differs: bool


@dataclass(frozen=True)
class Windows:
    """Windows of one length, one after the other from the beginning on."""

    width_ns: int
    count: int
    # median over the windows
    requests: float
    figures: list[Spread]
    # whether they hold so few requests that by chance alone their rates are further off than ALLOWED
    is_few: bool
    # start of the one that is nearest to the whole, ns
    nearest_ns: int

    @property
    def is_alike(self) -> bool:
        return not self.is_few and not any(each.differs for each in self.figures)

    def figure(self, key: Key) -> Spread:
        return next(each for each in self.figures if each.key == key)


@dataclass(frozen=True)
class Part:
    """What is asked for: `figures` as in Spread, of it and off the whole. `differs` names those that are off beyond chance."""

    from_ns: int
    until_ns: int
    requests: int
    values: dict[Key, float | None]
    deviations: dict[Key, float | None]
    differs: list[Key]


@dataclass(frozen=True)
class Similarity:
    """Whether windows stand for the whole: `verdict` is "alike", "differ", "few" (requests: chance alone puts them too far off),
    "empty" (windows hold less than one request in the mean), "unknown" (fewer than LEAST_WINDOWS fit) or "whole" (they are as long as
    all). None is unknown."""

    verdict: Verdict
    width_ns: int
    # what the model holds, and what was drawn of it
    model_ns: int
    drawn_ns: int
    drawn_requests: int
    hurst: Hurst | None
    windows: Windows | None
    part: Part | None
    # windows that are longer: each twice as long as the one before, as long as there are LEAST_WINDOWS; empty if not asked for
    longer: list[Windows]

    @property
    def shortest_ns(self) -> int | None:
        """Length from which on windows are alike; None if there is none."""
        found = None
        for each in reversed([*([self.windows] if self.windows else []), *self.longer]):
            if not each.is_alike:
                break
            found = each.width_ns
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        for one, windows in (
            (found["windows"], self.windows),
            *zip(found["longer"], self.longer, strict=True),
        ):
            if windows is not None:
                one["is_alike"] = windows.is_alike
        return {**found, "allowed": ALLOWED, "shortest_alike_ns": self.shortest_ns}


def judge(
    requests: Requests, width_ns: int, *, from_ns: int = 0, model_ns: int | None = None, full: bool = False
) -> Similarity:
    """Whether windows of `width_ns`, and the one that begins at `from_ns`, stand for all requests. `model_ns` is the time of the
    model that they were drawn of, if they aren't all. Longer windows are looked at if these aren't alike, or with `full`."""
    model_ns = requests.span_ns if model_ns is None else model_ns
    windows, part = None, None
    longer: list[Windows] = []
    verdict: Verdict = "unknown"
    if width_ns >= model_ns:
        verdict = "whole"
    elif requests.span_ns > width_ns * len(requests.ts):
        verdict = "empty"
    elif width_ns * LEAST_WINDOWS <= requests.span_ns and len(requests.ts):
        whole = _Whole(requests)
        windows = whole.windows(width_ns)
        part = whole.part(from_ns, windows)
        longer_ns = 2 * width_ns
        while (full or not windows.is_alike) and longer_ns * LEAST_WINDOWS <= requests.span_ns:
            longer.append(whole.windows(longer_ns))
            longer_ns *= 2
        differs = any(each.differs for each in windows.figures)
        verdict = "differ" if differs else "few" if windows.is_few else "alike"
    return Similarity(
        verdict,
        width_ns,
        model_ns,
        requests.span_ns,
        len(requests.ts),
        hurst(requests),
        windows,
        part,
        longer,
    )


class _Whole:
    """All requests, to be cut into windows."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.count = len(requests.ts)
        self.placed = requests.op != _FLUSH
        self.moved = requests.op <= _WRITE
        self.read = requests.op == _READ
        used, self.place = np.unique(requests.place, return_inverse=True)
        self.places = len(used)
        self.shares = _shares(np.bincount(self.place[self.placed], minlength=self.places))
        self.reads = _ratio(self.read.sum(), self.moved.sum())
        self.bytes = _ratio(requests.length[self.placed].sum(), self.placed.sum())

    def windows(self, width_ns: int) -> Windows:
        """How those of one length differ."""
        count = self.requests.span_ns // width_ns
        mean = self.count * width_ns / self.requests.span_ns
        inside = int(np.searchsorted(self.requests.ts, count * width_ns, side="left"))
        window = self.requests.ts[:inside] // width_ns
        counts = np.bincount(window, minlength=count)
        everyone = np.arange(self.count)
        values, off = self._of(everyone, window, count)
        values["rate"] = counts / width_ns * 1e9
        off["rate"] = np.abs(counts / mean - 1)
        random = np.random.default_rng(1)
        tries = min(max(_TRIED_REQUESTS // self.count, _LEAST_TRIES), _TRIES)
        by_chance = [self._of(random.permutation(everyone), window, count)[1] for _ in range(tries)]
        chances = {key: [_quantile(each[key], _QUANTILE) for each in by_chance] for key in by_chance[0]}
        chances["rate"] = [
            _quantile(np.abs(random.poisson(mean, count) / mean - 1), _QUANTILE)
            for _ in range(_TRIES_OF_COUNTS)
        ]
        whole: dict[Key, float | None] = {
            "rate": self.count / self.requests.span_ns * 1e9,
            "read_share": self.reads,
            "mean_bytes": self.bytes,
            "places": None,
        }
        figures = [_spread(key, whole[key], values.get(key), off[key], chances[key]) for key in whole]
        is_few = not figures[0].differs and (figures[0].deviation or 0) > ALLOWED
        # what is unknown of a window without requests is as far off as can be
        total = sum(np.where(np.isnan(each), 1, np.minimum(each, 1)) for each in off.values())
        nearest = int(np.argmin(total)) * width_ns
        return Windows(width_ns, count, float(np.median(counts)), figures, is_few, nearest)

    def _of(self, order: Ints, window: Ints, count: int) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
        """Values of the windows, and how far each is off the whole, if requests come in this order; NaN is unknown. `window` is
        that of the first, the second …, of `count`."""
        order = order[: len(window)]
        placed, moved = self.placed[order], self.moved[order]
        reads = _over(
            np.bincount(window[self.read[order]], minlength=count),
            np.bincount(window[moved], minlength=count),
        )
        here, places = window[placed], self.place[order][placed]
        in_window = np.bincount(here, minlength=count)
        size = _over(np.bincount(here, self.requests.length[order][placed], minlength=count), in_window)
        unknown = np.full(count, np.nan)
        off: dict[Key, Floats] = {
            "read_share": unknown if self.reads is None else np.abs(reads - self.reads),
            "mean_bytes": np.abs(size / self.bytes - 1) if self.bytes else unknown,
            "places": self._variation(here, places, in_window),
        }
        return {"read_share": reads, "mean_bytes": size}, off

    def _variation(self, window: Ints, places: Ints, in_window: Ints) -> Floats:
        """Total variation of the shares of ranges in each window from those in all."""
        count, key = len(in_window), window * self.places + places
        if count * self.places <= _MOST_CELLS:
            counts = np.bincount(key, minlength=count * self.places).reshape(count, self.places)
            off: Floats = np.abs(_over(counts, in_window[:, None]) - self.shares).sum(axis=1) / 2
            return off
        # ranges without requests in a window are off by their share: 1 for all, less what the others have
        cells, counts = np.unique(key, return_counts=True)
        at, share = cells // self.places, self.shares[cells % self.places]
        more = np.bincount(at, np.abs(counts / in_window[at] - share) - share, minlength=count)
        return np.where(in_window > 0, (more.astype(np.float64) + 1) / 2, np.nan)

    def part(self, from_ns: int, windows: Windows) -> Part | None:
        """The part from `from_ns` on, as long as the windows; None if it reaches beyond the end."""
        until_ns = from_ns + windows.width_ns
        if until_ns > self.requests.span_ns:
            return None
        order = np.arange(*np.searchsorted(self.requests.ts, [from_ns, until_ns], side="left"))
        count, mean = len(order), self.count * windows.width_ns / self.requests.span_ns
        values, off = self._of(order, np.zeros(count, np.int64), 1)
        values["rate"], off["rate"] = (
            np.array([count / windows.width_ns * 1e9]),
            np.array([abs(count / mean - 1)]),
        )
        deviations = {each.key: _quantile(off[each.key], 0.5) for each in windows.figures}
        differs: list[Key] = []
        for each in windows.figures:
            deviation = deviations[each.key]
            if (
                deviation is not None
                and each.chance is not None
                and _excess(deviation, each.chance) > ALLOWED
            ):
                differs.append(each.key)
        known = {key: _quantile(found, 0.5) for key, found in values.items()}
        return Part(from_ns, until_ns, count, known, deviations, differs)


def _spread(
    key: Key, whole: float | None, values: Floats | None, off: Floats, chances: list[float | None]
) -> Spread:
    deviation = _quantile(off, _QUANTILE)
    p10, p50, p90 = (None if values is None else _quantile(values, share) for share in (0.1, 0.5, 0.9))
    known = [each for each in chances if each is not None]
    if deviation is None or not known:
        return Spread(key, whole, p10, p50, p90, deviation, None, None, False)
    chance = float(np.mean(known))
    most = max(*known, chance + 3 * float(np.std(known)))
    excess = _excess(deviation, chance) if deviation > most else 0.0
    return Spread(key, whole, p10, p50, p90, deviation, chance, excess, excess > ALLOWED)


def _excess(deviation: float, chance: float) -> float:
    """What is left of a deviation without chance: independent deviations add up by their squares."""
    return float(np.sqrt(max(deviation**2 - chance**2, 0)))


def _quantile(values: Floats, share: float) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else None


def _over(part: npt.NDArray[Any], whole: Ints) -> Floats:
    """The ratio; NaN where there is nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)


def _ratio(part: np.int64, whole: np.int64) -> float | None:
    return float(part / whole) if whole else None


def _shares(counts: Ints) -> Floats:
    return counts / max(int(counts.sum()), 1)


def hurst(requests: Requests) -> Hurst | None:
    """The Hurst exponent of counts of requests; None of fewer than 2,048 requests, or if all counts are equal."""
    most = min(len(requests.ts) // _LEAST_IN_COUNT, _MOST_COUNTS)
    if most < _LEAST_COUNTS or requests.span_ns < most:
        return None
    count = 1 << (most.bit_length() - 1)
    # a request at the very end is in the last one
    at = np.minimum(requests.ts * (count / requests.span_ns), count - 1).astype(np.int64)
    counts = np.bincount(at, minlength=count).astype(np.float64)
    scales = (count // _LEAST_BLOCKS).bit_length()
    estimate = _slopes(counts[None], scales)[0]
    if not np.isfinite(estimate):
        return None
    known = float(np.clip(estimate, 0.01, 0.99))
    others = _slopes(_fractional_noise(known, count, _SERIES), scales) - known
    low, high = np.quantile(others, (0.025, 0.975))
    exponent, below, above = (float(np.clip(estimate - error, 0, 1)) for error in (others.mean(), high, low))
    width = requests.span_ns / count
    return Hurst(exponent, below, above, round(width), round(width * (1 << (scales - 1))), scales)


def _slopes(series: Floats, scales: int) -> Floats:
    """Of each row the exponent: the variance of means over m counts falls with m to the power of 2H - 2."""
    variances = []
    for _ in range(scales):
        variances.append(series.var(axis=1, ddof=1))
        series = series.reshape(len(series), -1, 2).mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log2(np.array(variances))
        steps = np.arange(scales) - (scales - 1) / 2
        slope: Floats = steps @ logs / (steps @ steps)
    return 1 + slope / 2


def _fractional_noise(exponent: float, count: int, series: int) -> Floats:
    """Rows of fractional Gaussian noise: Davies and Harte, Tests for Hurst effect, Biometrika 1987."""
    steps = np.arange(count + 1, dtype=np.float64)
    power = 2 * exponent
    covariance = ((steps + 1) ** power - 2 * steps**power + np.abs(steps - 1) ** power) / 2
    eigenvalues = np.fft.rfft(np.concatenate([covariance, covariance[-2:0:-1]])).real
    random = np.random.default_rng(1)
    white = np.fft.rfft(random.standard_normal((series, 2 * count)))
    noise: Floats = np.fft.irfft(white * np.sqrt(np.maximum(eigenvalues, 0)), 2 * count)[:, :count]
    return noise
