"""Find the requests that a disk served from memory: their service time is a line over their length.

Whatever waits for the medium has its time spread over a revolution. What memory serves does not, so that for each length
many of its times lie close together.
"""

from dataclasses import dataclass

import numpy as np

from iotrail.device.observed import Floats, Ints, Mask

# Groups of equal lengths, the largest ones. One tells something if it has so many requests,
_LEAST, _MOST_LENGTHS = 8, 100
# of which this share lies within this part of their time.
_SHARE, _WIDTH = 0.12, 0.04
# Times this far from the line are still of memory.
_TOLERANCE = 0.12
# Fewer are coincidence.
_LEAST_SHARE = 0.03


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
    best, inliers = -1.0, np.zeros(len(lengths), dtype=bool)
    # Of all lines through two groups, the one on which the most requests lie; of one alone, the constant.
    first, second = np.triu_indices(len(lengths), 1)
    with np.errstate(divide="ignore"):
        slopes = np.concatenate(([0.0], (times[second] - times[first]) / (lengths[second] - lengths[first])))
    origins = np.concatenate(([np.argmax(weights)], first))
    for slope, origin in zip(slopes, origins, strict=True):
        overhead = times[origin] - slope * lengths[origin]
        if slope < 0 or overhead < 0:
            continue
        near = np.abs(times - overhead - slope * lengths) <= _WIDTH * times
        if weights[near].sum() > best:
            best, inliers = float(weights[near].sum()), near
    line = _regress(lengths[inliers], times[inliers], weights[inliers])
    return line if line.count >= _LEAST_SHARE * len(length) else None


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
