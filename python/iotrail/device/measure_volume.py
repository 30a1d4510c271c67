"""Measure an SSD or a volume: time by size, how many requests it works on at a time, flushes and trims.

It is described as so many servers, each with a latency and a rate (kind `fixed`): what can be told from outside. Times are
ns, sizes bytes.
"""

from dataclasses import dataclass

import numpy as np

from iotrail.device.estimates import Draft
from iotrail.device.measure_disk import KIB, Points, _error_of_median
from iotrail.device.observed import Floats
from iotrail.device.probe import FLUSH, READ, TRIM, WRITE, Prober
from iotrail.errors import DeviceError

_SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB)
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
# A depth brings more if throughput grows by this.
_GROWS = 1.15
_WORDS = {READ: "read", WRITE: "write"}


@dataclass(frozen=True)
class _Line:
    base: float
    base_error: float
    # ns a byte
    slope: float
    slope_error: float
    count: int

    def at(self, size: int) -> float:
        return self.base + self.slope * size


class VolumeProbes:
    """Measures a volume: estimates go to a draft, by the keys of device files in base units."""

    def __init__(self, prober: Prober, seed: int) -> None:
        self.prober = prober
        self.rng = np.random.default_rng(seed)
        self.size = prober.target.size
        self.draft = Draft(self.size)
        self.points = Points()

    def measure(self) -> None:
        """All of it."""
        draft = self.draft
        draft.set("capacity", self.size, "measured: size of the target")
        seconds = 0.9 * self.prober.left
        parts = 2 if self.prober.write else 1
        lines = {READ: self._time_sizes(READ, 0.35 * seconds / parts)}
        if self.prober.write:
            lines[WRITE] = self._time_sizes(WRITE, 0.35 * seconds / parts)
        for op, line in lines.items():
            source = f"measured: medians of {line.count} {_WORDS[op]}s at {len(_SIZES)} sizes"
            if line.base <= 0:
                # No device answers before it is asked: a number here would be a guess.
                raise DeviceError(
                    f"{_WORDS[op]}s of {len(_SIZES)} sizes: expected a time above 0 without the transfer, "
                    f"found {line.base:.0f} ns",
                    "other work disturbed them: measure again on an idle machine, or with more --seconds",
                )
            draft.set(_WORDS[op], line.base, source, line.base_error)
        # Both directions share the rate: that which is known better.
        op = min(lines, key=lambda op: lines[op].slope_error / max(lines[op].slope, 1e-9))
        slope, error = lines[op].slope, lines[op].slope_error
        if slope > 2 * error:
            source = f"measured: {_WORDS[op]}s at {len(_SIZES)} sizes"
            draft.set("rate", 1e9 / slope, source, error * 1e9 / slope**2)
        else:
            draft.set("rate", 10e9, "assumed: not measured, the time does not grow with the size")
        self._measure_depths(READ, lines[READ], 0.4 * seconds)
        self._measure_order(0.05 * seconds)
        if self.prober.write:
            self._measure_rest(0.15 * seconds)
            return
        draft.set("write", draft["read"], "assumed: not measured without --write, as a read")
        draft.set("flush", 0, "assumed: not measured without --write")
        draft.set("trim", draft["read"], "assumed: not measured without --write, as a read")

    def _places(self, count: int, size: int) -> Floats:
        """Random ones, aligned to the size and to pages."""
        step = max(size, 4 * KIB)
        return self.rng.integers(0, self.size // step, count).astype(float) * step

    def _time_sizes(self, op: int, seconds: float) -> _Line:
        medians, errors, count = [], [], 0
        for size in _SIZES:
            first = self.prober.run(op, self._places(9, size), size).took
            share = seconds / len(_SIZES)
            times = int(np.clip(share * 1e9 / max(float(np.median(first)), 1.0), 30, 1500))
            took = self.prober.run(op, self._places(times, size), size).took
            medians.append(float(np.median(took)))
            errors.append(_error_of_median(took))
            count += times
        weights = 1 / np.maximum(errors, np.array(medians) * 1e-3)
        found, covariance = np.polyfit(_SIZES, medians, 1, w=weights, cov=True)
        self.points.tables[f"{_WORDS[op]}_size"] = {
            "length_bytes": [float(size) for size in _SIZES],
            "time_ns": medians,
            "error_ns": errors,
            "residual_ns": (np.array(medians) - np.polyval(found, _SIZES)).tolist(),
        }
        base_error, slope_error = np.sqrt(covariance[1, 1]), np.sqrt(covariance[0, 0])
        return _Line(float(found[1]), float(base_error), float(found[0]), float(slope_error), count)

    def _measure_depths(self, op: int, line: _Line, seconds: float) -> None:
        """How many requests it works on at a time: throughput at its most, times the time of one alone."""
        size = 4 * KIB
        rates: list[float] = []
        errors: list[float] = []
        used: list[int] = []
        for depth in _DEPTHS:
            expected = 1e9 * depth / line.at(size)
            count = int(np.clip(seconds / len(_DEPTHS) * expected, 12 * depth, 20_000))
            parts = [self._throughput(op, size, count // 4, depth) for _ in range(4)]
            rates.append(float(np.median(parts)))
            errors.append(float(np.std(parts, ddof=1)) / 2)
            used.append(depth)
            if depth > 4 and rates[-1] < rates[-3] * _GROWS:
                break
        self.points.tables["depth"] = {
            "queue_depth": [float(depth) for depth in used],
            "reads_per_s": rates,
            "error_per_s": errors,
        }
        most = int(np.argmax(rates))
        servers = max(1.0, rates[most] * line.at(size) / 1e9)
        error = errors[most] * line.at(size) / 1e9
        grows = len(used) == len(_DEPTHS) and rates[-1] >= rates[-2] * _GROWS
        source = f"measured: reads per second at depth {used[most]}, times the time of one"
        if grows:
            source += "; at least, more depth still brings more"
        self.draft.set("servers", round(servers), source, max(error, abs(servers - round(servers))))

    def _throughput(self, op: int, size: int, count: int, depth: int) -> float:
        """Requests per second, without the start and the end."""
        count = max(count, 3 * depth)
        ends = np.sort(self.prober.run(op, self._places(count, size), size, depth=depth).end).astype(float)
        # Completions come in waves of as many as are in flight: a line through all is not misled by them.
        steady = ends[depth : len(ends) - depth // 2]
        slope = np.polyfit(steady - steady[0], np.arange(len(steady)), 1)[0]
        return float(slope * 1e9)

    def _measure_order(self, seconds: float) -> None:
        """Sequential and random reads side by side."""
        size = 64 * KIB
        first = float(np.median(self.prober.read(self._places(9, size), size).took))
        count = int(np.clip(seconds / 2 * 1e9 / max(first, 1.0), 20, 1000))
        count = min(count, self.size // size - 1)
        sequential = float(np.median(self.prober.read(np.arange(count) * size, size).took))
        random = float(np.median(self.prober.read(self._places(count, size), size).took))
        self.points.tables["order"] = {
            "length_bytes": [float(size)],
            "sequential_ns": [sequential],
            "random_ns": [random],
        }

    def _measure_rest(self, seconds: float) -> None:
        """Flushes and trims."""
        size, count = 4 * KIB, 9
        for op, word in ((FLUSH, "flush"), (TRIM, "trim")):
            took: list[float] = []
            until = self.prober.used + seconds / 2
            while len(took) < count or (self.prober.used < until and len(took) < 300):
                place = self._places(1, size)
                if op == FLUSH:
                    # A flush of nothing may take no time.
                    times = self.prober.run([WRITE, FLUSH], [place[0], 0], [size, 0])
                else:
                    times = self.prober.run([WRITE, TRIM], [place[0], place[0]], size)
                took.append(float(times.took[1]))
            values = np.array(took)
            source = (
                f"measured: median of {len(took)} {word}{'es' if op == FLUSH else 's'}, each after a write"
            )
            self.draft.set(word, float(np.median(values)), source, _error_of_median(values))
