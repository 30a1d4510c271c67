"""Find the requests that a disk served from memory: their service time is a line over their length.

Whatever waits for the medium has its time spread over a revolution. What memory serves does not, so that for each length
many of its times lie close together.
"""

from dataclasses import dataclass

import numpy as np

from iotrail.device.observed import Floats, Ints, Mask

# Groups of equal lengths, the largest ones. One tells something if it has so many requests,
_LEAST, _MOST_LENGTHS = 8, 40
# of which this share lies within this part of their time.
_SHARE, _WIDTH = 0.05, 0.04
# A line has this share of all requests within that part of its time; twice as many as there are further up, where requests
# wait for the medium; and more than are faster, as nothing is faster than memory. Else it is coincidence.
_LEAST_SHARE, _DENSER, _FURTHER, _FASTER = 0.03, 2, 1.5, 0.85
# Times this far above the line are still of memory.
_TOLERANCE = 0.15
# A line is judged by so many requests at most.
_MOST_JUDGES = 5000


@dataclass(frozen=True)
class Line:
    """Time = overhead + length × time of a byte."""

    overhead_ns: float
    ns_per_byte: float
    overhead_error_ns: float
    ns_per_byte_error: float
    # requests on it
    count: int

    def time(self, length: Ints) -> Floats:
        """Time of requests of these lengths, in ns."""
        return self.overhead_ns + self.ns_per_byte * length.astype(float)

    def has(self, length: Ints, service: Ints) -> Mask:
        """Whether requests are on the line, or faster."""
        return service <= (1 + _TOLERANCE) * self.time(length)


def find_line(length: Ints, service: Ints) -> Line | None:
    """The line of requests that memory served, or None if there are none."""
    lengths, times, weights = _dense(length, service)
    if not len(lengths):
        return None
    judges = slice(None, None, 1 + len(length) // _MOST_JUDGES)
    lines = _candidates(lengths, times, weights)
    counts = [_count(line, length[judges], service[judges], 1) for line in lines]
    best = lines[int(np.argmax(counts))]
    count = _count(best, length, service, 1)
    faster = int(np.sum(service < _FASTER * (best[0] + best[1] * length)))
    further = _count(best, length, service, _FURTHER)
    if count < max(_LEAST_SHARE * len(length), _DENSER * further, faster):
        return None
    near = np.abs(times - best[0] - best[1] * lengths) <= _WIDTH * times
    return _regress(lengths[near], times[near], weights[near])


def _candidates(lengths: Floats, times: Floats, weights: Floats) -> list[tuple[float, float]]:
    """Overhead and time of a byte of all lines through two groups, and of the constant of the largest."""
    first, second = np.triu_indices(len(lengths), 1)
    slopes = (times[second] - times[first]) / (lengths[second] - lengths[first])
    overheads = times[first] - slopes * lengths[first]
    valid = (slopes >= 0) & (overheads >= 0)
    constant = float(times[np.argmax(weights)])
    return [(constant, 0.0), *zip(overheads[valid].tolist(), slopes[valid].tolist(), strict=True)]


def _count(line: tuple[float, float], length: Ints, service: Ints, times: float) -> int:
    """Requests whose time is about so many times that of a line."""
    expected = times * (line[0] + line[1] * length)
    return int(np.sum(np.abs(service - expected) <= _WIDTH * expected))


def _dense(length: Ints, service: Ints) -> tuple[Floats, Floats, Floats]:
    """Lengths of which many requests took about the same time; that time; how many."""
    found = []
    all_, counts = np.unique(length, return_counts=True)
    common = np.argsort(-counts, kind="stable")[:_MOST_LENGTHS]
    for bytes_ in all_[common[counts[common] >= _LEAST]]:
        times = np.sort(service[length == bytes_]).astype(float)
        count = max(_LEAST // 2, int(np.ceil(_SHARE * len(times))))
        widths = times[count - 1 :] - times[: len(times) - count + 1]
        start = int(np.argmin(widths))
        middle = float(np.median(times[start : start + count]))
        # Spread evenly over the middle half of all, so many would be this far apart.
        even = 2 * float(np.subtract(*np.quantile(times, (0.75, 0.25)))) * count / len(times)
        if widths[start] <= _WIDTH * middle and (widths[start] <= 0.25 * even or even <= _WIDTH * middle):
            found.append((bytes_, middle, np.sum(np.abs(times - middle) <= _WIDTH * middle)))
    table: Floats = np.array(found, dtype=float).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _regress(lengths: Floats, times: Floats, weights: Floats) -> Line:
    count = int(weights.sum())
    if len(lengths) < 3:
        slope = (times[-1] - times[0]) / (lengths[-1] - lengths[0]) if len(lengths) == 2 else 0.0
        return Line(float(times[0] - slope * lengths[0]), float(slope), np.nan, np.nan, count)
    (slope, overhead), covariance = np.polyfit(lengths, times, 1, w=np.sqrt(weights), cov=True)
    errors = np.sqrt(np.diag(covariance))
    return Line(float(overhead), float(slope), float(errors[1]), float(errors[0]), count)
