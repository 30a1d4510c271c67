"""Measure a hard disk by reads, and writes where they are allowed.

The platter's angle follows from the time alone. So what a request costs is found from when it ends, modulo a revolution,
as in Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS 1995):

- the period: a sector's neighbours, read after varying delays, end whole revolutions apart (`find_rotation`);
- bytes of a track: by how much less than a revolution the ends of reads at descending places are apart (`measure_track`);
- a seek: the shortest time in which a request elsewhere is served over all rotational offsets. The offset is changed by
  a delay before the request: if the heads arrive too late, it takes a revolution more (`find_shortest`).

Reads go to descending places, so that no read-ahead has read them before. All times are ns, all places bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import curve_fit

from iotrail.device.estimates import Draft
from iotrail.device.observed import Floats
from iotrail.device.probe import READ, WRITE, Prober
from iotrail.errors import DeviceError

KIB, MIB = 1 << 10, 1 << 20
# Periods of 24,000 to 2,400 rpm, and how long delays are spread to tell them apart.
_SHORTEST_NS, _LONGEST_NS, _SPREAD_NS = 2.5e6, 25e6, 45e6
# Mean length of the phases' vector (1 is perfect) from which there is a period. By chance it is 0.15 of 48 reads.
_COHERENT = 0.8
# How wide the step of `find_shortest` is made by jitter; how often a request is late for other reasons, and how often one
# seems to be served earlier than it can be.
_JITTER_NS, _LATE, _WRONG = 8_000.0, 0.25, 0.01
_PLACES = 16
# Relative standard error of a track that is good enough.
_SURE_TRACK = 0.005
_PLACE_READS, _PLACE_STRIDE, _LONG = 16, 16 * KIB, 32 * KIB
# What a hit may take more than other hits after a rest (a processor that was idle wakes late), and how long and how often
# that is measured. Few misses wait so little for the platter.
_HIT_TOLERANCE_NS = 180_000
_REST_NS, _RESTS = 30_000_000, 9
# A number holds if so many probes of so many say so.
_ENOUGH, _PROBES = 2, 5


@dataclass(frozen=True)
class Rotation:
    """A period by phases."""

    period: float
    error: float
    # 0 to 1
    coherence: float
    reads: int
    # by read: revolutions and ns since the first one ended
    turns: Floats
    since: Floats

    def refine(self, sector_time: float) -> "Rotation":
        """With the time in which a sector passes, by which each read ends earlier in the turn.

        Answers after longer delays are later, as processors sleep deeper. Over all reads together that doesn't add up.
        """
        ends = self.since + np.arange(self.reads) * sector_time
        kept = np.ones(self.reads, dtype=bool)
        period, error = self.period, self.error
        for _ in range(3):
            found, covariance = np.polyfit(self.turns[kept], ends[kept], 1, cov=True)
            period, error = float(found[0]), float(np.sqrt(covariance[0, 0]))
            rest = ends - np.polyval(found, self.turns)
            kept = np.abs(rest) <= 3 * max(float(np.std(rest[kept])), 1000.0)
        # A turn that was miscounted would show.
        if error > self.error or abs(period / self.period - 1) > 0.005:
            return self
        return replace(self, period=period, error=error)


@dataclass(frozen=True)
class Track:
    """A place of the disk."""

    pos: int
    # bytes
    track: float
    error: float
    # jump of the angle at a track's end, None if the reads crossed none
    skew: float | None
    # how much later a long read ends than its last sector passes
    excess: float


@dataclass
class Points:
    """Points behind the values: by table, columns."""

    tables: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def find_rotation(prober: Prober, rng: np.random.Generator, reads: int = 48) -> Rotation | None:
    """A disk's period, or None if the ends of reads have none."""
    sector, size = prober.target.sector, prober.target.size
    pos = int(size * rng.uniform(0.3, 0.4)) // sector * sector - np.arange(reads) * sector
    delay = rng.uniform(0, _SPREAD_NS, reads)
    ends = prober.read(pos, sector, delay).end
    apart = np.diff(ends).astype(float)
    periods = np.geomspace(_SHORTEST_NS, _LONGEST_NS, 6000)
    coherence = np.abs(np.exp(2j * np.pi * apart / periods[:, None]).mean(axis=1))
    inner = coherence[1:-1]
    peaks = 1 + np.flatnonzero((inner >= coherence[:-2]) & (inner >= coherence[2:]) & (inner >= _COHERENT))
    if not len(peaks):
        return None
    # Parts of the period fit as well: the longest is it.
    peaks = peaks[coherence[peaks] >= 0.9 * coherence[peaks].max()]
    best = int(peaks[-1])
    period, error = float(periods[best]), np.inf
    for _ in range(4):
        phase = float(np.angle(np.exp(2j * np.pi * apart / period).mean())) / 2 / np.pi * period
        turns = np.rint((apart - phase) / period)
        good = np.abs(apart - phase - turns * period) < period / 20
        if np.ptp(turns[good]) == 0:
            return None
        slope, covariance = np.polyfit(turns[good], apart[good], 1, cov=True)
        period, error = float(slope[0]), float(np.sqrt(covariance[0, 0]))
    total = np.concatenate(([0.0], np.cumsum(turns)))
    since = (ends - ends[0]).astype(float)
    return Rotation(period, error, float(coherence[best]), reads, total, since)


def measure_track(prober: Prober, pos: int, period: float) -> Track:
    """Bytes of the track at a place, from the phases of reads at descending places."""
    sector = prober.target.sector
    place = pos // sector * sector - np.arange(_PLACE_READS + 1) * _PLACE_STRIDE
    # The last one reads what precedes too.
    length = np.full(len(place), sector)
    length[-1] = _LONG
    place[-1] -= _LONG - sector
    ends = prober.read(place, length).end.astype(float)
    steps = -np.diff(ends) % period
    slope = float(np.median(steps[:-1]))
    # Angles relative to a steady turn: less than half a revolution wrong.
    angle = -np.concatenate(([0.0], np.cumsum((steps - slope + period / 2) % period - period / 2 + slope)))
    fit, at = angle[:-1], np.arange(_PLACE_READS, dtype=float)
    best: tuple[float, Floats, float, float] | None = None
    for split in (0, *range(3, _PLACE_READS - 2)):
        columns = [np.ones_like(at), at, *([(at >= split).astype(float)] if split else [])]
        matrix = np.stack(columns, axis=1)
        solved = np.linalg.lstsq(matrix, fit, rcond=None)[0]
        rest = fit - matrix @ solved
        # Schwarz's criterion: a jump must explain more than chance does.
        score = len(at) * np.log(np.var(rest) + 1.0) + len(columns) * 2 * np.log(len(at))
        covariance = np.linalg.pinv(matrix.T @ matrix) * np.var(rest)
        if best is None or score < best[0]:
            best = (score, solved, float(np.sqrt(covariance[1, 1])), float(split))
    assert best is not None
    solved, error = best[1], best[2]
    step = -float(solved[1])
    if step <= 0:
        raise DeviceError(
            f"{prober.target.path}: reads near byte {pos} don't follow the platter: expected ends that "
            "are less than a revolution apart, found the opposite",
            "--kind volume measures latency and parallelism only",
        )
    skew = -float(solved[2]) % period if best[3] else None
    expected = float(solved @ [1.0, _PLACE_READS, *([1.0] if best[3] else [])])
    excess = (angle[-1] - expected + period / 2) % period - period / 2
    track = _PLACE_STRIDE * period / step
    return Track(pos, track, track * error / step, skew, float(excess))


@dataclass(frozen=True)
class Shortest:
    """The shortest time over all rotational offsets."""

    time: float
    error: float
    probes: int


def find_shortest(
    prober: Prober,
    period: float,
    first: int,
    second: int,
    rng: np.random.Generator,
    *,
    op: int = READ,
    step: int = 1,
    probes: int = 16,
) -> Shortest:
    """The shortest time of a request at `second` after a read at `first`, both `step` sectors lower each time.

    A request that starts `delay` after the read before ends at one angle, whatever the delay: after as few revolutions as
    suffice for command and seek. Each probe so says whether that takes more or less than what remains until the angle; the
    next one tries the median of what is left (probabilistic bisection: some answers are wrong).
    """
    sector = prober.target.sector
    delays: list[float] = []
    took: list[float] = []
    grid = np.arange(0.0, 60e6, 2000.0)
    belief = np.full(len(grid), 1.0 / len(grid))
    for probe in range(probes):
        if probe < 3:
            delay = float(rng.uniform(0, period))
        else:
            middle = grid[np.searchsorted(np.cumsum(belief), 0.5)]
            delay = (_angle(delays, took, period) - middle) % period
        back = probe * step * sector
        times = prober.run([READ, op], [first - back, second - back], sector, [0, round(delay)])
        delays.append(float(times.start[1] - times.end[0]))
        took.append(float(times.end[1] - times.start[1]))
        angle = _angle(delays, took, period)
        belief = np.full(len(grid), 1.0)
        for waited, time in zip(delays, took, strict=True):
            turns = np.rint((waited + time - angle) / period)
            exact = angle + turns * period - waited
            below = _step(exact - grid)
            above = _step(grid - exact + period)
            # Being served in time proves much, a revolution more little: the request may have been late.
            belief *= ((1 - _WRONG) * below + _WRONG) * ((1 - _LATE) * above + _LATE)
            belief /= belief.sum()
    mean = float(grid @ belief)
    return Shortest(mean, float(np.sqrt(belief @ (grid - mean) ** 2)), probes)


def _step(margin: Floats) -> Floats:
    """0 far below zero, 1 far above."""
    values: Floats = 1 / (1 + np.exp(np.clip(-margin / _JITTER_NS, -50, 50)))
    return values


def _angle(delays: list[float], took: list[float], period: float) -> float:
    """The phase at which requests end; the median of what is around it."""
    total = np.array(delays) + np.array(took)
    around = float(np.angle(np.exp(2j * np.pi * total / period).mean())) / 2 / np.pi * period
    return around + float(np.median((total - around + period / 2) % period - period / 2))


class DiskProbes:
    """Measures a disk: estimates go to a draft, by the keys of device files in base units."""

    def __init__(self, prober: Prober, rotation: Rotation, seed: int) -> None:
        """`rotation` is what `find_rotation` has found."""
        self.prober, self.rotation = prober, rotation
        self.rng = np.random.default_rng(seed)
        self.sector, self.size = prober.target.sector, prober.target.size
        self.draft = Draft(self.size)
        self.points = Points()
        self.tracks: list[Track] = []
        self._hit_until = 0.0
        # Where nothing was read yet, for probes of the cache.
        self._fresh = self.size // 2

    def measure(self) -> None:
        """All of it."""
        draft = self.draft
        draft.set("capacity", self.size, "measured: size of the target")
        draft.set("sector", self.sector, "measured: smallest direct read")
        self._measure_hits()
        self._measure_tracks()
        self._measure_seeks()
        self._measure_sequential()
        self._measure_read_cache()
        if self.prober.write:
            self._measure_writes()

    # Where.

    def _at(self, share: float) -> int:
        """A place by its share of the bytes, far enough from both ends."""
        margin = 2 * MIB
        return int(np.clip(share * self.size, margin, self.size - margin)) // self.sector * self.sector

    def _cylinders(self) -> tuple[Floats, Floats]:
        """Shares of the bytes and, for each, of the cylinders before."""
        middles = (np.arange(1024) + 0.5) / 1024
        places = np.array([track.pos / self.size for track in self.tracks])
        # tracks of neighbouring places are alike: linear between them
        tracks = np.interp(middles, places, [track.track for track in self.tracks])
        cylinders = np.concatenate(([0.0], np.cumsum(1 / tracks)))
        return np.linspace(0, 1, 1025), cylinders / cylinders[-1]

    # Parts.

    def _measure_hits(self) -> None:
        """Overhead and bus rate from reads that memory serves."""
        lengths = np.array([self.sector, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB])
        medians, errors, count = [], [], 40
        for at, length in enumerate(lengths.tolist()):
            pos = self._at(0.4) + at * 4 * MIB
            took = self.prober.read(np.full(count + 1, pos), length).took[1:]
            medians.append(float(np.median(took)))
            errors.append(_error_of_median(took))
        found, covariance = np.polyfit(lengths, medians, 1, w=1 / np.maximum(errors, 200.0), cov="unscaled")
        slope, base = map(float, found)
        if medians[0] > self.rotation.period / 3:
            self.draft.set("read_cache", False, f"measured: {count} reads of one place go to the medium")
            self.draft.set("bus.read_hit", 50_000, "assumed: not measured, no read is served by memory")
            self.draft.set("bus.rate", 300e6, "assumed: not measured, no read is served by memory")
            return
        source = f"measured: median of {count} reads from memory at {len(lengths)} sizes"
        pos = self._at(0.4)
        rested = self.prober.read(np.full(_RESTS + 1, pos), self.sector, _REST_NS).took[1:]
        self._hit_until = max(medians[0], float(np.median(rested))) + _HIT_TOLERANCE_NS
        self.draft.set("read_cache", True, source)
        self.draft.set("bus.read_hit", max(base, 0.0), source, float(np.sqrt(covariance[1, 1])))
        if slope > 0 and slope > 2 * np.sqrt(covariance[0, 0]):
            rate, error = 1e9 / slope, float(np.sqrt(covariance[0, 0])) * 1e9 / slope**2
            self.draft.set("bus.rate", rate, source, error)
        else:
            self.draft.set("bus.rate", 300e6, "assumed: not measured, the time does not grow with the size")

    def _measure_tracks(self) -> None:
        """Zones, and the skew of tracks."""
        at = self._at(0.29)
        for _ in range(2):
            share = self.sector / measure_track(self.prober, at, self.rotation.period).track
            self.rotation = self.rotation.refine(share * self.rotation.period)
            at -= MIB
        period = self.rotation.period
        self.draft.set(
            "revolution",
            period,
            f"measured: phases of {self.rotation.reads} reads on one track",
            self.rotation.error,
        )
        for place in range(_PLACES):
            tried: list[Track] = []
            # Where reads were late, again beside it.
            while len(tried) < 4 and not (tried and tried[-1].error < _SURE_TRACK * tried[-1].track):
                at = self._at((place + 0.5 + 0.02 * len(tried)) / _PLACES)
                tried.append(measure_track(self.prober, at, period))
            self.tracks.append(min(tried, key=lambda track: track.error))
        skews = np.array([track.skew for track in self.tracks if track.skew is not None])
        if len(skews) >= 3:
            source = f"measured: median of {len(skews)} crossings of a track's end"
            self.draft.set("track_skew", float(np.median(skews)), source, _error_of_median(skews))
        else:
            self.draft.set("track_skew", period / 10, "assumed: not measured, a tenth of a revolution")
        # The time of a long read beyond its last sector's passing is that of the bus, if it waits for the last one.
        excess = float(np.median([track.excess for track in self.tracks]))
        transfer = (_LONG - self.sector) / self.draft["bus.rate"] * 1e9
        source = f"measured: {len(self.tracks)} long reads end {excess / 1000:.0f} µs after their last sector"
        self.draft.set("bus.read_overlap", excess < transfer / 2, source)

    def _measure_seeks(self) -> None:
        """Overhead of a read from the medium, head switch, seek curve."""
        draft, period = self.draft, self.rotation.period
        middle = self._at(0.5)
        budget = max(0.0, min(0.55 * self.prober.seconds, self.prober.left - 0.2 * self.prober.seconds))
        until = self.prober.used + budget
        near = self._shortest_on_track(READ)
        transfer = self.sector * period / self._track_at(middle) + self.sector / draft["bus.rate"] * 1e9
        source = f"measured: shortest of {near.probes} reads on one track"
        draft.set("bus.read", max(near.time - transfer, 0.0), source, near.error)
        switches = []
        for place in (0.2, 0.35, 0.5, 0.65, 0.8):
            pos = self._at(place)
            switch = self._shortest(pos, pos - round(self._track_at(pos) / self.sector) * self.sector)
            switches.append(switch.time - near.time)
        draft.set(
            "head_switch",
            max(float(np.median(switches)), 0.0),
            f"measured: reads one track lower, median of {len(switches)} places",
            max(near.error, _error_of_median(np.array(switches))),
        )
        shares, cylinders = self._cylinders()
        distances: list[float] = []
        times: list[float] = []
        errors: list[float] = []
        # Each pass measures all distances between those of the passes before it, until the time is used.
        for distance in _distances():
            if self.prober.used > until and len(distances) >= 9:
                break
            start = float(self.rng.uniform(0.01, 0.99 - distance))
            first, second = (
                self._at(float(np.interp(at, cylinders, shares))) for at in (start, start + distance)
            )
            if self.rng.random() < 0.5:
                first, second = second, first
            found = self._shortest(first, second)
            passed = abs(
                float(np.diff(np.interp([first / self.size, second / self.size], shares, cylinders))[0])
            )
            distances.append(passed)
            times.append(found.time - near.time)
            errors.append(float(np.hypot(found.error, near.error)))
        self._fit_seeks(np.array(distances), np.array(times), np.array(errors))

    def _shortest(self, first: int, second: int) -> Shortest:
        return find_shortest(self.prober, self.rotation.period, first, second, self.rng)

    def _shortest_on_track(self, op: int) -> Shortest:
        """Without a seek. Where read-ahead has left the track meanwhile, the way back takes longer: the least counts."""
        found = []
        for share in (0.17, 0.34, 0.51, 0.68, 0.85):
            pos = self._at(share) - (64 * self.sector if op == WRITE else 0)
            found.append(
                find_shortest(
                    self.prober,
                    self.rotation.period,
                    pos,
                    pos - self.sector,
                    self.rng,
                    op=op,
                    step=2,
                    probes=22,
                )
            )
        least = min(one.time for one in found)
        alike = [one for one in found if one.time < least + 6 * _JITTER_NS]
        error = float(np.sqrt(sum(one.error**2 for one in alike))) / len(alike)
        return Shortest(float(np.mean([one.time for one in alike])), error, sum(one.probes for one in found))

    def _track_at(self, pos: int) -> float:
        return float(np.interp(pos, [t.pos for t in self.tracks], [t.track for t in self.tracks]))

    def _fit_seeks(self, distance: Floats, time: Floats, error: Floats) -> None:
        """Equation 14 of Shen, Zhong and Li (FAST 2005), continuous at e."""

        def curve(x: Floats, a: float, b: float, d: float, e: float) -> Floats:
            joined = a + b * np.sqrt(e)
            values: Floats = np.where(x <= e, a + b * np.sqrt(x), joined + d * (x - e))
            return values

        weights = np.maximum(error, 2000.0)
        best: tuple[float, Floats, Floats] | None = None
        for e in (0.1, 0.2, 0.3, 0.4, 0.5):
            start = [max(float(time.min()), 0.0), *[float(np.ptp(time))] * 2, e]
            bounds = ([0, 0, 0, 0.02], [1e9, 1e9, 1e9, 0.9])
            try:
                found, covariance = curve_fit(
                    curve,
                    distance,
                    time,
                    start,
                    sigma=weights,
                    bounds=bounds,
                    loss="soft_l1",
                    f_scale=2.0,
                    x_scale=[1e6, 1e7, 1e7, 0.3],
                )
            except RuntimeError:
                continue
            cost = float(np.sum(np.log1p(((curve(distance, *found) - time) / weights) ** 2)))
            if best is None or cost < best[0]:
                best = (cost, found, np.sqrt(np.maximum(np.diag(covariance), 0)))
        if best is None:
            raise DeviceError(
                f"{self.prober.target.path}: no seek curve fits {len(distance)} measured seeks",
                "measure again on an idle machine, or give it more time with --seconds",
            )
        _, (a, b, d, e), errors = best
        source = f"measured: shortest reads at {len(distance)} distances"
        c = a + b * np.sqrt(e) - d * e
        # c follows from the others: its error is that of a seek of no distance by the long part.
        c_error = float(np.hypot(errors[0], errors[2] * e))
        for name, value, one in (
            ("a", a, errors[0]),
            ("b", b, errors[1]),
            ("c", c, c_error),
            ("d", d, errors[2]),
            ("e", e, errors[3]),
        ):
            self.draft.set(f"seek.curve.{name}", float(value), source, float(one))
        order = np.argsort(distance)
        self.points.tables["seek"] = {
            "distance": distance[order].tolist(),
            "time_ns": time[order].tolist(),
            "residual_ns": (time - curve(distance, a, b, d, e))[order].tolist(),
        }

    def _measure_sequential(self) -> None:
        """Rate of long reads by place: of the medium, or of the bus if that is slower."""
        chunk, count = 256 * KIB, 24
        rates, gaps = [], []
        for track in self.tracks:
            pos = self._at(track.pos / self.size + 0.25 / _PLACES)
            pos = min(pos, self.size - chunk * count) // self.sector * self.sector
            times = self.prober.read(pos + np.arange(count) * chunk, chunk)
            # From the end of the first quarter: the rest starts where that ended.
            skip = count // 4
            took = float(times.end[-1] - times.end[skip])
            rate = (count - 1 - skip) * chunk / took * 1e9
            rates.append(rate)
            gaps.append(self._track_at(pos) / rate * 1e9 - self.rotation.period)
        self.points.tables["rate"] = {
            "pos_bytes": [float(track.pos) for track in self.tracks],
            "sequential_bytes_per_s": rates,
            "track_bytes": [track.track for track in self.tracks],
        }
        self.draft.set(
            "sequential_gap", float(np.median(gaps)), "sequential reads", _error_of_median(np.array(gaps))
        )

    # The read cache.

    def _next_fresh(self) -> int:
        """A place where nothing was read."""
        self._fresh += 48 * MIB
        if self._fresh > self.size - 64 * MIB:
            self._fresh = 32 * MIB + int(self.rng.integers(0, max(self.size // 8, 1)))
        return self._at(self._fresh / self.size)

    def _is_hit(self, took: float) -> bool:
        return took < self._hit_until

    def _largest(self, low: int, high: int, holds: Callable[[int], bool]) -> int:
        """The largest number for which it holds, by bisection. It holds for `low`.

        What is served by memory can come late, beside other work; what is not is seldom as fast as memory,
        where the head happens to be there. So two probes of five are enough to say that it holds.
        """

        def votes(value: int) -> bool:
            hits = 0
            for probe in range(_PROBES):
                hits += holds(value)
                missing = _ENOUGH - hits
                if missing <= 0 or missing > _PROBES - 1 - probe:
                    break
            return hits >= _ENOUGH

        while low < high:
            # in octaves first
            middle = (
                round(float(np.sqrt(max(low, 1) * high))) if high > 2 * max(low, 1) else (low + high + 1) // 2
            )
            middle = min(max(middle, low + 1), high)
            if votes(middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _measure_read_cache(self) -> None:
        """Read-ahead, segments and their size, by what a later read finds in memory."""
        if not self.draft["read_cache"]:
            return
        sector, rest = self.sector, 4 * self.rotation.period

        def is_ahead(sectors: int) -> bool:
            pos = self._next_fresh()
            wait = rest + (sectors * sector) / self._track_at(pos) * 1.3 * self.rotation.period
            return self._is_hit(self.prober.read([pos, pos + sectors * sector], sector, [0, wait]).took[1])

        most = 8 * MIB // sector
        ahead = self._largest(0, most, is_ahead) * sector
        error = 0.5 * sector
        self.draft.set(
            "read_cache.read_ahead", ahead, "measured: farthest read that is served by memory", error
        )

        def holds(count: int) -> bool:
            places = np.array([self._next_fresh() for _ in range(count)])
            took = self.prober.read(np.concatenate((places, places[:1])), sector).took
            return self._is_hit(float(took[-1]))

        segments = max(self._largest(1, 256, holds), 1)
        source = "measured: most places of which the first is still served by memory"
        self.draft.set("read_cache.segments", segments, source, 0.5)

        chunk = 512 * KIB

        def keeps(sectors: int) -> bool:
            pos, length = self._next_fresh(), sectors * sector
            starts = np.arange(0, length, chunk)
            lengths = np.minimum(chunk, length - starts)
            self.prober.read(pos + starts, lengths)
            # read-ahead may replace the start
            return self._is_hit(self.prober.read(pos, sector, rest).took[0])

        held = self._largest(1, 16 * MIB // sector, keeps) * sector
        # Read-ahead after a long read takes room of its segment too, up to its chunk.
        segment = held if held <= chunk else held + ahead
        segment = max(segment, ahead + sector)
        source = "measured: longest read of which the start is still served by memory"
        self.draft.set("read_cache.segment", segment, source, float(sector))

        def goes_on(_: int) -> bool:
            pos = self._next_fresh()
            places = [pos, pos + ahead // sector // 2 * sector, pos + ahead + 8 * sector]
            return self._is_hit(self.prober.read(places, sector, [0, rest + 5e7, rest + 5e7]).took[2])

        if ahead >= 16 * sector:
            on_hit = self._largest(0, 1, goes_on) == 1
            self.draft.set("read_cache.read_ahead_on_hit", on_hit, "measured: a read beyond, after a hit")

    # Writes.

    def _measure_writes(self) -> None:
        draft, sector, period = self.draft, self.sector, self.rotation.period
        count = 40
        places = np.array([self._at(float(share)) for share in self.rng.uniform(0.02, 0.98, count)])
        took = self.prober.run(WRITE, places, sector, 20_000_000).took
        if float(np.median(took)) < period / 3:
            source = f"measured: median of {count} writes far from each other"
            draft.set("write_cache", True, source)
            transfer = sector / draft["bus.rate"] * 1e9
            draft.set(
                "bus.write_hit", max(float(np.median(took)) - transfer, 0.0), source, _error_of_median(took)
            )
            self._measure_write_cache(float(np.median(took)))
            return
        draft.set("write_cache", False, f"measured: {count} writes far from each other wait for the medium")
        middle = self._at(0.55)
        near = self._shortest_on_track(WRITE)
        passing = sector * period / self._track_at(middle)
        transfer = sector / draft["bus.rate"] * 1e9
        source = f"measured: shortest of {near.probes} writes on one track"
        draft.set("bus.write", max(near.time - passing - transfer, 0.0), source, near.error)
        settles = []
        for place in (0.25, 0.5, 0.75):
            first, second = self._at(place), self._at(place - 0.1)
            read = self._shortest(first, second)
            back = 64 * self.sector
            write = find_shortest(self.prober, period, first - back, second - back, self.rng, op=WRITE)
            settles.append((write.time - near.time) - (read.time - draft["bus.read"] - passing - transfer))
        source = f"measured: shortest write less shortest read, {len(settles)} seeks"
        draft.set(
            "write_settle", max(float(np.median(settles)), 0.0), source, float(np.std(settles)) / np.sqrt(3)
        )

    def _measure_write_cache(self, hit: float) -> None:
        """Its size: what it takes at once until a write waits for the medium."""
        chunk, most = 128 * KIB, 512 * MIB
        sizes = []
        for _ in range(3):
            # Time for it to become empty.
            self.prober.run([2], 0, 0)
            count = min(most, self.size // 4) // chunk
            stride = self.size // (count + 1) // self.sector * self.sector
            order = self.rng.permutation(count)
            filled, at = 0, 0
            while at < count:
                times = self.prober.run(WRITE, order[at : at + 16] * stride, chunk)
                slow = np.flatnonzero(times.took > hit + 3 * chunk / self.draft["bus.rate"] * 1e9 + 1e6)
                at += 16
                if len(slow):
                    filled += int(slow[0])
                    sizes.append(filled * chunk)
                    break
                filled += 16
        if len(sizes) == 3:
            source = "measured: written at once until a write waits, median of 3"
            error = float(np.hypot(np.std(sizes), chunk / np.sqrt(12)))
            self.draft.set("write_cache.size", float(np.median(sizes)), source, error)
        else:
            self.draft.set("write_cache.size", 16 * MIB, "assumed: not measured, no write waited")


def _distances() -> list[float]:
    """Shares of all cylinders: dense where seek curves bend, coarse ones first so that time may end anywhere."""
    passes = []
    for shift in (0.0, 0.5, 0.25, 0.75):
        near = np.geomspace(0.0005, 0.1, 10) * (1 + 0.8 * shift)
        far = np.linspace(0.13, 0.9, 14) + shift * (0.9 - 0.13) / 13
        both = np.concatenate((near, far))
        passes += [float(both[at]) for start in (0, 2, 1, 3) for at in range(start, len(both), 4)]
    return passes


def _error_of_median(values: Floats) -> float:
    """Standard error of a median, by the spread of the middle half."""
    spread = float(np.subtract(*np.quantile(values, (0.75, 0.25)))) / 1.349
    return 1.2533 * spread / float(np.sqrt(len(values)))
