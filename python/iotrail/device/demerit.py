"""How far apart two distributions of service times are."""

import numpy as np

from iotrail.device.observed import Floats, Ints


def demerit(one: Floats | Ints, other: Floats | Ints) -> float:
    """Root mean square of the horizontal distance between two cumulative distributions, in the unit of both.

    The demerit figure of Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer 27(3), 1994).
    """
    one, other = np.sort(one), np.sort(other)
    count = max(len(one), len(other))
    shares = (np.arange(count) + 0.5) / count
    distance = one[(shares * len(one)).astype(int)] - other[(shares * len(other)).astype(int)].astype(float)
    return float(np.sqrt(np.mean(distance**2)))
