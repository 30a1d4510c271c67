"""How far apart two distributions of service times are."""

import numpy as np

from iotrail.device.observed import Floats, Ints


def demerit(one: Floats | Ints, other: Floats | Ints) -> float:
    """Root mean square of the horizontal distance between two cumulative distributions, in the unit of both.

    The demerit figure of Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer 27(3), 1994).
    """
    shares = (np.arange(max(len(one), len(other))) + 0.5) / max(len(one), len(other))
    distance = np.quantile(one, shares) - np.quantile(other, shares)
    return float(np.sqrt(np.mean(distance**2)))
