"""Which distribution do positive times follow, and are they exponential?

Times that all are alike are constant: no other family is fitted. Exponential times between arrivals are a Poisson process:
arrivals in intervals of one length have Poisson's distribution.
Each family is fitted by maximum likelihood, with its origin at 0; Akaike's criterion chooses. Whether the times follow
the chosen one is tested by the Kolmogorov-Smirnov statistic. As the parameters come from the same times, its textbook
probabilities are too large: here they are found by fitting samples of the fitted distribution itself (Lilliefors, On
the Kolmogorov-Smirnov Test for the Exponential Distribution with Mean Unknown, JASA 64, 1969; parametric bootstrap:
Stute, Manteiga, Quindimil, Metrika 40, 1993). Random numbers are seeded: the same times give the same answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

Times = NDArray[np.float64]

# Times that are fitted and tested: more would take long, and call deviations of no consequence significant.
MOST_TIMES = 20_000
# Times in a sample of the bootstrap; the statistic is scaled to that number (Stephens, EDF Statistics for Goodness of
# Fit, JASA 69, 1974, table 1.1).
MOST_RESAMPLED = 500
# Samples: of fits that take an optimiser, and of the exponential, whose mean is its only parameter.
SAMPLES = 99
SAMPLES_EXPONENTIAL = 1999
# Probability below which times are said not to follow a distribution.
LEVEL = 0.01
# A distribution function that is nowhere further off than this will do for a mean, however many times tell it apart.
AS_GOOD_AS = 0.02

_PHASES_ROUNDS = 200
# The family of times that all are alike.
CONSTANT = "constant"


@dataclass(frozen=True)
class Fit:
    """A fitted family. Times in ns; `parameters` by name, those of time in ns."""

    family: str
    parameters: dict[str, float]
    aic: float
    # largest distance of the distribution functions (Kolmogorov-Smirnov)
    distance: float


@dataclass(frozen=True)
class Fits:
    """All families, best first. `p` is the probability of so large a distance if times follow the best, with its
    parameters fitted; `exponential_p` that of the exponential."""

    fits: tuple[Fit, ...]
    p: float
    exponential_p: float

    @property
    def best(self) -> Fit:
        """The one with the least AIC."""
        return self.fits[0]

    @property
    def exponential(self) -> Fit:
        """The exponential, wherever it ranks."""
        return next(fit for fit in self.fits if fit.family == "exponential")

    @property
    def is_exponential(self) -> bool:
        """Whether nothing speaks against it, or what does is of no consequence."""
        return self.exponential_p >= LEVEL or self.exponential.distance < AS_GOOD_AS


@dataclass(frozen=True)
class _Family:
    # parameters, of times whose mean is 1
    fitted: Callable[[Times], tuple[float, ...]]
    # its logarithm: the density of one time among thousands is less than any float
    log_density: Callable[..., Any]
    distribution: Callable[..., Any]
    sample: Callable[..., Any]
    names: tuple[str, ...]
    # which parameters are times
    scales: tuple[int, ...]


def fit(times: Times) -> Fits:
    """Fit all families to `times`, ns, three or more; 0 counts as 1 ns, the clock's step."""
    step = -(-len(times) // MOST_TIMES)
    # every k-th: of the whole time
    chosen = np.maximum(np.asarray(times, dtype=float), 1.0)[::step]
    mean = float(chosen.mean())
    scaled = chosen / mean
    if np.ptp(chosen) < 1:
        return _constant(scaled, mean)
    found: list[tuple[Fit, tuple[float, ...]]] = []
    for name, family in _FAMILIES.items():
        parameters = family.fitted(scaled)
        likelihood = float(family.log_density(scaled, *parameters).sum()) - len(scaled) * math.log(mean)
        if math.isfinite(likelihood):
            named = {
                n: p * mean if i in family.scales else p
                for i, (n, p) in enumerate(zip(family.names, parameters, strict=True))
            }
            distance = _distance(scaled, family, parameters)
            found.append((Fit(name, named, 2 * len(parameters) - 2 * likelihood, distance), parameters))
    found.sort(key=lambda pair: pair[0].aic)
    best, parameters = found[0]
    exponential = next(f for f, _ in found if f.family == "exponential")
    exponential_p = _p_exponential(exponential.distance, len(scaled))
    p = exponential_p if best is exponential else _p(best, parameters, len(scaled))
    return Fits(tuple(f for f, _ in found), p, exponential_p)


def cumulative(fitted: Fit, times: Times) -> Times:
    """The fitted distribution function at `times`, ns."""
    if fitted.family == CONSTANT:
        return np.where(np.asarray(times) >= fitted.parameters["value"], 1.0, 0.0)
    shares = _FAMILIES[fitted.family].distribution(times, *fitted.parameters.values())
    return np.asarray(shares, dtype=float)


def _constant(scaled: Times, mean: float) -> Fits:
    """What is said of times that differ by less than the clock's step: a likelihood of 1 each."""
    likelihood = float(_FAMILIES["exponential"].log_density(scaled, 1.0).sum()) - len(scaled) * math.log(mean)
    distance = _distance(scaled, _FAMILIES["exponential"], (1.0,))
    exponential = Fit("exponential", {"mean": mean}, 2 - 2 * likelihood, distance)
    constant = Fit(CONSTANT, {"value": mean}, 2.0, 0.0)
    return Fits((constant, exponential), 1.0, _p_exponential(distance, len(scaled)))


def _distance(times: Times, family: _Family, parameters: tuple[float, ...]) -> float:
    at = family.distribution(np.sort(times), *parameters)
    place = np.arange(len(times) + 1) / len(times)
    return float(max((place[1:] - at).max(), (at - place[:-1]).max()))


def _scaled(distance: float, count: int) -> float:
    """The statistic as it is for any number of times: Stephens 1974, for a distribution whose parameters are fitted."""
    return (distance - 0.2 / count) * (math.sqrt(count) + 0.26 + 0.5 / math.sqrt(count))


def _p_exponential(distance: float, count: int) -> float:
    of = min(count, MOST_RESAMPLED)
    samples = _exponential_distances(of)
    return float((1 + (samples >= _scaled(distance, count)).sum()) / (1 + len(samples)))


@cache
def _exponential_distances(count: int) -> Times:
    random = np.random.default_rng(count)
    family = _FAMILIES["exponential"]
    found = []
    for _ in range(SAMPLES_EXPONENTIAL):
        times = random.exponential(size=count)
        found.append(_scaled(_distance(times, family, (float(times.mean()),)), count))
    return np.array(found)


def _p(fitted: Fit, parameters: tuple[float, ...], count: int) -> float:
    family, of = _FAMILIES[fitted.family], min(count, MOST_RESAMPLED)
    random = np.random.default_rng(count)
    larger = 0
    for _ in range(SAMPLES):
        times = family.sample(random, of, *parameters)
        larger += _scaled(_distance(times, family, family.fitted(times)), of) >= _scaled(
            fitted.distance, count
        )
    return (1 + larger) / (1 + SAMPLES)


def _fit_exponential(times: Times) -> tuple[float, ...]:
    return (float(times.mean()),)


def _fit_normal(times: Times) -> tuple[float, ...]:
    return float(times.mean()), float(max(times.std(), 1e-9))


def _fit_lognormal(times: Times) -> tuple[float, ...]:
    logs = np.log(times)
    return float(max(logs.std(), 1e-9)), float(np.exp(logs.mean()))


def _fit_gamma(times: Times) -> tuple[float, ...]:
    if math.log(times.mean()) - float(np.log(times).mean()) < 1e-6:
        # all alike, within rounding: the shape that their spread gives, as there is no likelihood to climb
        shape = float((times.mean() / max(float(times.std()), 1e-9)) ** 2)
        return shape, float(times.mean()) / shape
    shape, _, scale = stats.gamma.fit(times, floc=0)
    return float(shape), float(scale)


def _fit_weibull(times: Times) -> tuple[float, ...]:
    """Newton's method on the profile likelihood's slope in the shape."""
    logs = np.log(times)
    # from the spread of logarithms, which is pi / sqrt(6) by the shape
    shape = math.pi / math.sqrt(6) / max(float(logs.std()), 1e-3)
    for _ in range(50):
        weights = times**shape
        total, first = weights.sum(), (weights * logs).sum()
        slope = first / total - 1 / shape - logs.mean()
        bend = (weights * logs**2).sum() / total - (first / total) ** 2 + 1 / shape**2
        change = float(slope / bend)
        shape = max(shape - change, shape / 2)
        if abs(change) < 1e-8 * shape:
            break
    return shape, float(np.mean(times**shape) ** (1 / shape))


def _fit_pareto(times: Times) -> tuple[float, ...]:
    """Of the second kind (Lomax), which begins at 0. Given the scale, its shape's best value is known."""

    def loss(log_scale: float) -> float:
        mean = float(np.log1p(times / math.exp(log_scale)).mean())
        return math.log(mean) + log_scale + mean

    scale = math.exp(minimize_scalar(loss, bounds=(-12, 12), method="bounded").x)
    return 1 / float(np.log1p(times / scale).mean()), scale


def _fit_phases(times: Times) -> tuple[float, ...]:
    """Two exponentials, by expectation and maximisation (Dempster, Laird, Rubin 1977)."""
    share, short, long = 0.5, float(np.median(times)) / 2, float(times.mean()) * 2
    before = -math.inf
    for _ in range(_PHASES_ROUNDS):
        first = share / short * np.exp(-times / short)
        both = first + (1 - share) / long * np.exp(-times / long) + 1e-300
        of_first = first / both
        share = min(max(float(of_first.mean()), 1e-6), 1 - 1e-6)
        short = max(float((of_first * times).sum() / of_first.sum()), 1e-9)
        long = max(float(((1 - of_first) * times).sum() / max((1 - of_first).sum(), 1e-12)), 1e-9)
        likelihood = float(np.log(both).mean())
        if likelihood - before < 1e-9:
            break
        before = likelihood
    return share, short, long


def _sample_phases(random: np.random.Generator, count: int, share: float, short: float, long: float) -> Times:
    return np.where(random.random(count) < share, short, long) * random.exponential(size=count)


_FAMILIES = {
    "exponential": _Family(
        _fit_exponential,
        lambda t, m: -t / m - math.log(m),
        lambda t, m: -np.expm1(-t / m),
        lambda random, n, m: random.exponential(m, n),
        ("mean",),
        (0,),
    ),
    "gamma": _Family(
        _fit_gamma,
        lambda t, k, s: (k - 1) * np.log(t / s) - t / s - gammaln(k) - math.log(s),
        lambda t, k, s: stats.gamma.cdf(t, k, scale=s),
        lambda random, n, k, s: np.maximum(random.gamma(k, s, n), 1e-12),
        ("shape", "scale"),
        (1,),
    ),
    # of the whole line: where it has a share below 0 that counts, it isn't the best
    "normal": _Family(
        _fit_normal,
        lambda t, m, d: stats.norm.logpdf(t, m, d),
        lambda t, m, d: stats.norm.cdf(t, m, d),
        lambda random, n, m, d: np.maximum(random.normal(m, d, n), 1e-12),
        ("mean", "deviation"),
        (0, 1),
    ),
    "lognormal": _Family(
        _fit_lognormal,
        lambda t, sigma, median: stats.lognorm.logpdf(t, sigma, scale=median),
        lambda t, sigma, median: stats.lognorm.cdf(t, sigma, scale=median),
        lambda random, n, sigma, median: median * np.exp(random.normal(0, sigma, n)),
        ("sigma", "median"),
        (1,),
    ),
    "Weibull": _Family(
        _fit_weibull,
        lambda t, k, s: stats.weibull_min.logpdf(t, k, scale=s),
        lambda t, k, s: stats.weibull_min.cdf(t, k, scale=s),
        lambda random, n, k, s: np.maximum(s * random.weibull(k, n), 1e-12),
        ("shape", "scale"),
        (1,),
    ),
    "Pareto II": _Family(
        _fit_pareto,
        lambda t, k, s: stats.lomax.logpdf(t, k, scale=s),
        lambda t, k, s: stats.lomax.cdf(t, k, scale=s),
        lambda random, n, k, s: s * random.pareto(k, n),
        ("shape", "scale"),
        (1,),
    ),
    "hyperexponential": _Family(
        _fit_phases,
        lambda t, p, a, b: np.logaddexp(math.log(p / a) - t / a, math.log((1 - p) / b) - t / b),
        lambda t, p, a, b: 1 - p * np.exp(-t / a) - (1 - p) * np.exp(-t / b),
        _sample_phases,
        ("share", "short", "long"),
        (1, 2),
    ),
}
