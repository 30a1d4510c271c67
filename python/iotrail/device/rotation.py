"""Find a disk's time of a revolution from the times at which requests end.

Two requests at places near each other end a whole number of revolutions apart, but for the angle between their ends. So
the times between them have one phase if they are divided by the true period and by no other.
"""

from dataclasses import dataclass

import numpy as np

from iotrail.device.observed import Floats, Ints, Observed

# What disks have or had.
USUAL_RPM = (3600, 4500, 5400, 5900, 6400, 7200, 10000, 10033, 15000)

# Pairs are requests this far apart in order and place.
_LAG, _NEAR_BYTES = 5, 128 << 10
_MOST_PAIRS, _LEAST_PAIRS = 1500, 50
# Mean length of the phases' vector from which they agree: 1 is perfect, 0.13 is chance with 50 pairs.
_AGREEMENT = 0.4
# How far a speed may be from a usual one.
_OFF = 0.01


@dataclass(frozen=True)
class Rotation:
    """Time of a revolution and where it is from."""

    revolution_ns: float
    error_ns: float | None
    source: str


def by_phase(requests: Observed, ended: Floats) -> Rotation | None:
    """From requests that the medium served, which `ended` there at these times; None if no period fits."""
    place = requests.pos + requests.length
    apart, between = _pairs(place, ended)
    if len(apart) < _LEAST_PAIRS:
        return None
    # Around each usual speed: motors are within 0.5 % of it.
    rates = (
        np.array([rpm * (1 + part) for rpm in USUAL_RPM for part in np.linspace(-0.005, 0.005, 21)]) / 60e9
    )
    # Turns of the platter per byte, from tracks of 16 KiB to 2 MiB.
    turns = 1 / np.geomspace(1 << 14, 1 << 21, 60)
    apart_phase = np.exp(2j * np.pi * np.outer(rates, apart))
    place_phase = np.exp(-2j * np.pi * np.outer(between, turns))
    agreement = np.abs(apart_phase @ place_phase) / len(apart)
    rate, _ = np.unravel_index(np.argmax(agreement), agreement.shape)
    if agreement.max() < _AGREEMENT:
        return None
    # As wide as the phases are spread, over the mean time between requests.
    spread = np.sqrt(-2 * np.log(agreement.max())) / (2 * np.pi) / np.sqrt(len(apart))
    period = 1 / rates[rate]
    error = float(spread * period**2 / np.median(apart))
    nominal = _nearest(period)
    # A disk turns at its nominal speed unless the phases say that it doesn't.
    if abs(nominal / period - 1) < _OFF:
        period = nominal
    return Rotation(
        float(period), error, f"fitted: phases of {len(apart):,} pairs of requests near each other"
    )


def _pairs(place: Ints, ended: Floats) -> tuple[Floats, Floats]:
    """Time and bytes between requests near each other."""
    apart, between = [], []
    for lag in range(1, min(_LAG + 1, len(place))):
        bytes_ = place[lag:] - place[:-lag]
        near = np.abs(bytes_) <= _NEAR_BYTES
        apart.append((ended[lag:] - ended[:-lag])[near])
        between.append(bytes_[near])
    if not apart:
        return np.array([]), np.array([])
    times, places = np.concatenate(apart), np.concatenate(between).astype(float)
    thin = slice(None, None, 1 + len(times) // _MOST_PAIRS)
    return times[thin], places[thin]


def by_spread(residuals: Floats) -> Rotation | None:
    """From service times of requests of the medium, less what a seek and a transfer explain: even over a revolution."""
    if len(residuals) < 100:
        return None
    # The outermost twentieths hold what isn't a simple wait.
    width = float(np.subtract(*np.quantile(residuals, (0.95, 0.05))) / 0.9)
    # Standard error of the distance of these quantiles of an even distribution.
    error = width * np.sqrt(2 * 0.05 * 0.9 / len(residuals)) / 0.9
    source = f"fitted: spread of {len(residuals):,} requests of the medium"
    return Rotation(_nearest(width), float(error), f"{source}, nearest usual speed")


def _nearest(period_ns: float) -> float:
    """The usual period nearest to one, in ns."""
    periods = 60e9 / np.array(USUAL_RPM)
    return float(periods[np.argmin(np.abs(np.log(periods / period_ns)))])
