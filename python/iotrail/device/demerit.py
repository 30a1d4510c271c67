"""How far apart two distributions of service times are."""

import numpy as np

from iotrail.device.observed import Floats, Ints


def demerit(one: Floats | Ints, other: Floats | Ints) -> float:
    """Root mean square of the horizontal distance between two cumulative distributions, in the unit of both.

    The demerit figure of Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer 27(3), 1994).
    """
    left, right = np.sort(one).astype(float), np.sort(other).astype(float)
    count = max(len(left), len(right))
    shares = (np.arange(count) + 0.5) / count
    distance = left[(shares * len(left)).astype(int)] - right[(shares * len(right)).astype(int)]
    return float(np.sqrt(np.mean(distance**2)))
