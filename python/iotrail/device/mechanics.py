"""Find seek time, rates and overheads from the service times of requests that the medium served.

A request's time is its command, a seek that depends on the distance, half a revolution on average, and its transfer.
Regression finds their sums; where only a sum is determined, the split is by what other classes say, and is named.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from iotrail.device.observed import Floats, Mask, Observed


# Requests nearer to the one before, as a share of the capacity, may need no seek.
NEAR = 5e-4


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

    def seek(self, distance: Floats) -> Floats:
        """Seek time less the shortest."""
        return _seek(distance, self.b_ns, self.d_ns, self.e)

    def cylinder(self, share: Floats) -> Floats:
        """Where a place, as a share of the capacity, is among the cylinders, as a share of them."""
        middle = self.write_ns_per_byte if self.write_base_ns is not None else self.read_ns_per_byte
        if middle <= 0:
            return share
        relative = np.clip(self.gradient_ns_per_byte / middle, -0.9, 0.9)
        # The rate is linear in place, so that cylinders are its integral.
        return share * (1 - relative / 2) + relative * share**2 / 2


def _seek(distance: Floats, b: float, d: float, e: float) -> Floats:
    long = b * np.sqrt(e) + d * (distance - e)
    return np.where(distance <= e, b * np.sqrt(distance), long)


def regress(requests: Observed, medium: Mask, capacity: int) -> Mechanics | None:
    """From requests of the medium that follow others elsewhere; None if there are too few."""
    used = medium & (np.abs(requests.pos - requests.previous_end) > NEAR * capacity)
    writes, reads = used & requests.write, used & ~requests.write
    if used.sum() < 30:
        return None
    mechanics: Mechanics | None = None
    # The distance in cylinders depends on the rates by place that the regression finds.
    for _ in range(3):
        shares = requests.pos / capacity, requests.previous_end / capacity
        at, before = (share if mechanics is None else mechanics.cylinder(share) for share in shares)
        mechanics = _regress(requests, used, reads, writes, np.abs(at - before), shares[0])
    return mechanics


def _regress(
    requests: Observed, used: Mask, reads: Mask, writes: Mask, distance: Floats, share: Floats
) -> Mechanics:
    length = requests.length[used].astype(float)
    service = requests.service[used].astype(float)
    write = requests.write[used].astype(float)
    distance, middle = distance[used], share[used] - 0.5
    has = {"read": bool(reads.any()), "write": bool(writes.any())}

    def model(values: Floats) -> Floats:
        read_base, write_base, b, e, d, read_rate, write_rate, gradient = values
        base = np.where(write > 0, write_base, read_base)
        rate = np.where(write > 0, write_rate, read_rate) + gradient * middle
        return base + _seek(distance, b, d, e) + rate * length

    # Unknowns are solved for in units that make them alike: of time, of share, of time per byte.
    scale = float(np.median(service))
    per_byte = scale / max(float(length.max()), 1.0)
    units = np.array([scale] * 3 + [1.0, scale] + [per_byte] * 3)
    least = np.array([0, 0, 0, 0.01, 0, 0, 0, -2.0])
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
            lambda values: (model(values * units) - service) / scale,
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
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * np.var(residuals / scale)
    names = ("read_base", "write_base", "b", "e", "d", "read_rate", "write_rate", "gradient")
    errors = dict(zip(names, map(float, np.sqrt(np.maximum(np.diag(covariance), 0)) * units), strict=True))
    return Mechanics(
        b,
        d,
        e,
        read_base if has["read"] else None,
        write_base if has["write"] else None,
        read_rate,
        write_rate,
        gradient,
        errors,
        residuals,
        used,
    )
