"""The device layer, a disk: equations 11 to 16 of Shen, Zhong and Li (FAST 2005), section 3.3.

Times are in ns, distances are fractions of the disk. Two equations are printed without their divisors: the squares of
equation 15 are ((x - a) / b)² and its second line has (x - c) / d; only with them equation 16's second line follows. The
sum in equation 16 has terms of opposite signs that grow with the concurrency, and is lost to rounding above about 50; here
its integral is an incomplete beta function.
"""

from dataclasses import dataclass
from math import sqrt

from scipy.special import beta, betainc

from iotrail.errors import UsageError


@dataclass(frozen=True)
class SeekCurve:
    """Time of a seek by its distance (equation 14): a + b √distance up to a distance e, c + d distance beyond."""

    a_ns: float
    b_ns: float
    c_ns: float
    d_ns: float
    e: float

    def time_ns(self, distance: float) -> float:
        """Time of a seek; none takes none."""
        if distance <= 0:
            return 0.0
        return (
            self.a_ns + self.b_ns * sqrt(distance) if distance <= self.e else self.c_ns + self.d_ns * distance
        )

    def mean_ns(self, concurrency: float, span: float) -> float:
        """Mean time of seeks whose distances follow equation 7 (equation 16).

        The two parts of a measured curve differ a little at e. The paper leaves that step out; it belongs to the integral.
        """
        reached = min(self.e, span)
        short = (
            self.b_ns
            * sqrt(span)
            / 2
            * beta(0.5, concurrency + 1)
            * betainc(0.5, concurrency + 1, reached / span)
        )
        if span <= self.e:
            return float(self.a_ns + short)
        beyond = 1 - self.e / span
        step = self.c_ns + self.d_ns * self.e - self.a_ns - self.b_ns * sqrt(self.e)
        long = self.d_ns * span / (concurrency + 1) * beyond ** (concurrency + 1)
        return float(self.a_ns + short + step * beyond**concurrency + long)


@dataclass(frozen=True)
class Disk:
    """A disk: its seeks, one turn of its platters, and the rate of its transfers at each place.

    `rates` has for equal parts of the disk, from its first sector to the last, bytes per second.
    """

    seek: SeekCurve
    turn_ns: float
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates or min(self.rates) <= 0:
            raise UsageError(f"rates: expected at least one rate above 0, found {list(self.rates)}")
        if not self.turn_ns >= 0:
            raise UsageError(f"turn_ns: expected at least 0, found {self.turn_ns}")

    def transfer_rate(self, span: float) -> float:
        """Mean rate in the first `span` of the disk, in bytes per second."""
        end = span * len(self.rates)
        parts = [min(max(end - at, 0.0), 1.0) for at in range(len(self.rates))]
        return sum(rate * part for rate, part in zip(self.rates, parts, strict=True)) / end

    @property
    def rotation_ns(self) -> float:
        """Mean delay until the first sector is below the heads: half a turn."""
        return self.turn_ns / 2


@dataclass(frozen=True)
class Served:
    """Mean times of a request at a disk, in ns (equation 12), and the throughput in bytes per second (equation 13)."""

    transfer_ns: float
    seek_ns: float
    rotation_ns: float
    idle_ns: float
    throughput: float

    @property
    def service_ns(self) -> float:
        """Time of the disk that a request takes, without idling."""
        return self.transfer_ns + self.seek_ns + self.rotation_ns


def serve(
    disk: Disk,
    request_bytes: float,
    concurrency: float,
    span: float,
    idle_ns: float = 0.0,
    seek_ns: float | None = None,
) -> Served:
    """Requests of a mean length, each behind a seek that is chosen among so many, or takes `seek_ns` on average."""
    transfer = request_bytes / disk.transfer_rate(span) * 1e9
    seek = disk.seek.mean_ns(concurrency, span) if seek_ns is None else seek_ns
    busy = transfer + seek + disk.rotation_ns + idle_ns
    return Served(transfer, seek, disk.rotation_ns, idle_ns, request_bytes / busy * 1e9)
