"""Find seek time, rates and overheads from the service times of requests that the medium served.

A request's time is its command, a seek that depends on the distance, half a revolution on average, and its transfer.
Regression finds their sums; where only a sum is determined, the split is by what other classes say, and is named.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from iotrail.device.observed import Floats, Mask, Observed

# Fewer determine no curve; more only take time.
_LEAST_SEEKS, _MOST_SEEKS = 30, 20_000


@dataclass(frozen=True)
class Mechanics:
    """Service times of the medium, in ns, by regression; errors are standard errors."""

    # seek as in equation 14 of Shen, Zhong and Li (FAST 2005), without its constant
    b_ns: float
    d_ns: float
    e: float
    # command, shortest seek and half a revolution; None without such requests
    read_base_ns: float | None
    write_base_ns: float | None
    # time of a byte, in the middle of the disk
    read_ns_per_byte: float
    write_ns_per_byte: float
    # how much more at the end than at the start
    gradient_ns_per_byte: float
    errors: dict[str, float]
    # by request used: what the regression does not explain
    residuals: Floats
    used: Mask

    def cylinder(self, share: Floats) -> Floats:
        """Where a place, as a share of the capacity, is among the cylinders, as a share of them."""
        middle = self.write_ns_per_byte if self.write_base_ns is not None else self.read_ns_per_byte
        if middle <= 0:
            return share
        relative = min(max(self.gradient_ns_per_byte / middle, -0.9), 0.9)
        # The rate is linear in place, so that cylinders are its integral.
        return share * (1 - relative / 2) + relative * share**2 / 2


def _seek(distance: Floats, b: float, d: float, e: float) -> Floats:
    long = b * np.sqrt(e) + d * (distance - e)
    times: Floats = np.where(distance <= e, b * np.sqrt(distance), long)
    return times


def regress(requests: Observed, medium: Mask, capacity: int, least_base_ns: float = 0.0) -> Mechanics | None:
    """From requests of the medium that follow others elsewhere; None if there are too few.

    A base is at least `least_base_ns`: half a revolution, once that is known.
    """
    used = medium & ~requests.near(capacity)
    if used.sum() < _LEAST_SEEKS:
        return None
    used[np.flatnonzero(used)[_MOST_SEEKS:]] = False
    writes, reads = used & requests.write, used & ~requests.write
    mechanics: Mechanics | None = None
    # The distance in cylinders depends on the rates by place that the regression finds.
    for _ in range(3):
        shares = requests.pos / capacity, requests.previous_end / capacity
        at, before = (share if mechanics is None else mechanics.cylinder(share) for share in shares)
        mechanics = _regress(requests, used, reads, writes, np.abs(at - before), shares[0], least_base_ns)
    return mechanics


def _regress(
    requests: Observed,
    used: Mask,
    reads: Mask,
    writes: Mask,
    distance: Floats,
    share: Floats,
    least_base_ns: float,
) -> Mechanics:
    length = requests.length[used].astype(float)
    service = requests.service[used].astype(float)
    write = requests.write[used].astype(float)
    distance, middle = distance[used], share[used] - 0.5

    def model(values: Floats) -> Floats:
        read_base, write_base, b, e, d, read_rate, write_rate, gradient = values
        base = np.where(write > 0, write_base, read_base)
        rate = np.where(write > 0, write_rate, read_rate) + gradient * middle
        times: Floats = base + _seek(distance, b, d, e) + rate * length
        return times

    def misses(values: Floats) -> Floats:
        relative: Floats = (model(values * units) - service) / scale
        return relative

    # Unknowns are solved for in units that make them alike: of time, of share, of time per byte.
    scale = max(float(np.median(service)), 1.0)
    per_byte = scale / max(float(length.max()), 1.0)
    units = np.array([scale] * 3 + [1.0, scale] + [per_byte] * 3)
    base = min(least_base_ns / scale, 9.0)
    least = np.array([base, base, 0, 0.01, 0, 0, 0, -2.0])
    most = np.array([10, 10, 50, 0.9, 50, 5, 5, 2.0])
    if not np.ptp(length) > 0:
        # The time of a byte can't be told from the rest.
        least[5:], most[5:] = -1e-9, 1e-9
    found = None
    # The bend has several local optima.
    for e in (0.05, 0.15, 0.3, 0.6):
        start = np.clip([0.5, 0.5, 0.5, e, 0.5, 0.3, 0.3, 0.0], least, most)
        # Outliers (recalibration, lost revolutions) weigh less.
        tried = least_squares(
            misses,
            start,
            bounds=(least, most),
            loss="huber",
            f_scale=0.5,
        )
        if found is None or tried.cost < found.cost:
            found = tried
    assert found is not None
    read_base, write_base, b, e, d, read_rate, write_rate, gradient = map(float, found.x * units)
    residuals = service - model(found.x * units)
    jacobian = np.asarray(found.jac)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * np.var(residuals / scale)
    names = ("read_base", "write_base", "b", "e", "d", "read_rate", "write_rate", "gradient")
    errors = dict(zip(names, map(float, np.sqrt(np.maximum(np.diag(covariance), 0)) * units), strict=True))
    return Mechanics(
        b,
        d,
        e,
        read_base if reads.any() else None,
        write_base if writes.any() else None,
        read_rate,
        write_rate,
        gradient,
        errors,
        residuals,
        used,
    )
