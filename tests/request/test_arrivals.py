"""`iotrail arrivals`: which distributions it recognises, what it predicts, and when it refuses to."""

import heapq
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from typer.testing import CliRunner

from iotrail import distributions
from iotrail.cli import app
from iotrail.errors import IotrailError, UnknownNameError
from iotrail.requests import queueing
from iotrail.requests.arrivals import LEVELS, Point, collect
from iotrail.requests.find import Chosen
from iotrail.trail import Trail

from .conftest import MakeTrail

Times = NDArray[np.float64]
SVG = "{http://www.w3.org/2000/svg}"
SEEDS = range(20)
# mean ns between arrivals
MEAN = 1_000_000.0


def ask(*words: object) -> str:
    """What `iotrail arrivals` prints; its error is raised."""
    result = CliRunner().invoke(app, ["arrivals", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def disk(gaps: Times, service: Times, servers: int = 1) -> dict[str, list[dict[str, Any]]]:
    """The rows of a disk that serves up to `servers` requests at once, first come, first served."""
    free, rows = [0] * servers, []
    for ts, needed in zip(np.cumsum(gaps).astype(int), service.astype(int), strict=True):
        issued = max(int(ts), heapq.heappop(free))
        heapq.heappush(free, issued + int(needed))
        rows.append(
            {
                "ts": int(ts),
                "dur": issued + int(needed) - int(ts),
                "issued": issued,
                "kind": "kernel",
                "crumb": 0,
            }
        )
    return {"disk_op": rows}


def at_disk(trail: Path) -> Point:
    """The one point of the trail's disk."""
    [point] = collect(Trail(trail), Chosen(), ("disk",))
    return point


def test_exponential_is_recognised() -> None:
    """Of 20 samples 18 or more, at a level of 1 %."""
    found = [distributions.fit(np.random.default_rng(seed).exponential(MEAN, 2000)) for seed in SEEDS]
    assert sum(f.is_exponential for f in found) >= 18


@pytest.mark.parametrize("sigma", [0.6, 1.4])
def test_lognormal_is_not_exponential(sigma: float) -> None:
    """Neither what is steadier nor what is burstier; and it is told by its name."""
    found = [distributions.fit(np.random.default_rng(seed).lognormal(13, sigma, 2000)) for seed in SEEDS]
    assert not any(f.is_exponential for f in found)
    assert sum(f.best.family == "lognormal" for f in found) >= 18
    assert sum(f.p >= distributions.LEVEL for f in found) >= 18


def test_families_are_told_apart() -> None:
    """Each by its own sample, with the parameters it was drawn with."""
    random = np.random.default_rng(1)
    phases = np.where(random.random(4000) < 0.8, 1e5, 3e6) * random.exponential(size=4000)
    for family, times, expected in (
        ("gamma", random.gamma(3, 1e6, 4000), {"shape": 3, "scale": 1e6}),
        ("normal", random.normal(1e6, 2e5, 4000), {"mean": 1e6, "deviation": 2e5}),
        ("Weibull", 1e6 * random.weibull(0.6, 4000), {"shape": 0.6, "scale": 1e6}),
        ("Pareto II", 1e6 * random.pareto(2.5, 4000), {"shape": 2.5, "scale": 1e6}),
        ("hyperexponential", phases, {"share": 0.8, "short": 1e5, "long": 3e6}),
    ):
        found = distributions.fit(times)
        assert found.best.family == family
        assert found.best.parameters == pytest.approx(expected, rel=0.15)
        assert found.p >= distributions.LEVEL


def test_constant_times_are_recognised() -> None:
    """Nothing else is fitted to them; a clock's step more or less isn't constant."""
    found = distributions.fit(np.full(50, 1e6))
    assert found.best == distributions.Fit("constant", {"value": 1e6}, 2.0, 0.0)
    assert [fitted.family for fitted in found.fits] == ["constant", "exponential"]
    shares = distributions.cumulative(found.best, np.array([999_999.0, 1e6]))
    assert shares.tolist() == [0.0, 1.0]
    assert distributions.fit(np.tile([1e6, 1e6 + 2], 25)).best.family != "constant"


def test_fits_are_the_most_likely() -> None:
    """Own fits of Weibull and Pareto are at least as likely as those of scipy's optimiser."""
    random = np.random.default_rng(5)
    for family, peer, times in (
        ("Weibull", stats.weibull_min, random.weibull(1.7, 500)),
        ("Pareto II", stats.lomax, random.pareto(3.0, 500)),
    ):
        [found] = [f for f in distributions.fit(times * MEAN).fits if f.family == family]
        theirs = peer.nnlf(peer.fit(times * MEAN, floc=0, scale=MEAN), times * MEAN)
        assert (found.aic - 4) / 2 <= theirs + 1e-3


def test_the_naive_test_would_not_do() -> None:
    """Textbook probabilities take the fitted mean for a known one, and so hardly ever refuse."""
    naive, own = [], []
    for seed in range(300):
        times = np.random.default_rng(seed).exponential(MEAN, 200)
        naive.append(stats.kstest(times, "expon", (0, times.mean())).pvalue)
        own.append(distributions.fit(times).exponential_p)
    assert np.mean(np.array(naive) < 0.1) < 0.02
    assert 0.06 < np.mean(np.array(own) < 0.1) < 0.14


@pytest.mark.parametrize(
    "times", [np.full(200, 1e6), np.tile([0.0, 1e6], 100), np.array([5.0] * 1999 + [1e12])]
)
def test_odd_times_are_fitted(times: Times) -> None:
    """All alike, half of them 0, one enormous: no error, and not exponential."""
    found = distributions.fit(times)
    assert not found.is_exponential
    assert all(np.isfinite([f.aic, f.distance]).all() for f in found.fits)


def test_pollaczek_khinchine(make: MakeTrail) -> None:
    """A simulated M/G/1: the prediction is within a tenth of what requests took."""
    random = np.random.default_rng(11)
    service = random.lognormal(np.log(0.55 * MEAN), 0.5, 20_000)
    found = at_disk(make(disk(random.exponential(MEAN, 20_000), service))).prediction
    assert (found.model, found.servers, found.refused) == ("M/G/1", 1, None)
    assert found.utilisation == pytest.approx(service.mean() / MEAN, rel=0.03)
    assert found.response_ns is not None and found.measured_ns is not None
    assert found.response_ns == pytest.approx(found.measured_ns, rel=0.1)
    # waiting is a good part of it: the service time alone would be no prediction
    assert found.measured_ns > 1.5 * service.mean()


@pytest.mark.parametrize(("servers", "model"), [(1, "M/M/1"), (4, "M/M/c")])
def test_exponential_service(make: MakeTrail, servers: int, model: str) -> None:
    """One server and several."""
    random = np.random.default_rng(3)
    service = random.exponential(0.7 * servers * MEAN, 20_000)
    found = at_disk(make(disk(random.exponential(MEAN, 20_000), service, servers))).prediction
    assert (found.model, found.servers) == (model, servers)
    assert found.response_ns == pytest.approx(found.measured_ns, rel=0.1)


def test_kingman(make: MakeTrail) -> None:
    """Arrivals steadier than Poisson's: a bound, and it holds."""
    random = np.random.default_rng(4)
    gaps, service = random.gamma(4, MEAN / 4, 10_000), random.lognormal(np.log(0.7 * MEAN), 0.3, 10_000)
    found = at_disk(make(disk(gaps, service))).prediction
    assert (found.model, found.bound) == ("G/G/1", True)
    assert found.measured_ns is not None and found.response_ns is not None
    assert found.measured_ns <= found.response_ns < 2 * found.measured_ns


def bursty(random: np.random.Generator, count: int) -> Times:
    """Exponential gaps whose mean wanders, by up to ten times."""
    mood = np.repeat(random.choice([0.2, 2.0], count // 50), 50)
    return MEAN * mood * random.exponential(size=count)


COUNT = 4000
_DRAWN = np.random.default_rng(5)
POISSON, LIGHT = _DRAWN.exponential(MEAN, COUNT), _DRAWN.lognormal(np.log(0.4 * MEAN), 0.4, COUNT)
PHASES = np.repeat(_DRAWN.choice([0.1, 0.6], COUNT // 50), 50) * MEAN * _DRAWN.lognormal(0, 0.2, COUNT)


@pytest.mark.parametrize(
    ("gaps", "service", "servers", "reason"),
    [
        (bursty(_DRAWN, COUNT), LIGHT, 1, "arrivals are autocorrelated"),
        (POISSON, PHASES, 1, "service times are autocorrelated"),
        (POISSON[:60], LIGHT[:60], 1, "60 arrivals are too few: it takes 100"),
        (POISSON, 3 * LIGHT, 1, "utilisation is 1."),
        (POISSON, 4 * LIGHT, 3, "service times aren't exponential"),
        (POISSON * 10, LIGHT * 0.01, 100, "nothing ever waited"),
    ],
    ids=["bursty", "phases", "few", "overload", "several", "idle"],
)
def test_refused(make: MakeTrail, gaps: Times, service: Times, servers: int, reason: str) -> None:
    """What no model fits is not predicted, and why is said."""
    found = at_disk(make(disk(gaps, service, servers))).prediction
    assert found.response_ns is None and found.model is None
    assert found.refused is not None and reason in found.refused


def test_most_at_once() -> None:
    """What ends when another begins doesn't overlap it."""
    begin, end = np.array([0, 10, 12, 30]), np.array([10, 20, 31, 40])
    assert queueing.most_at_once(begin, end) == 2


def test_requests_and_messages(make: MakeTrail) -> None:
    """Exponential and bursty arrivals of requests, told apart in a trail; only disks say when service began."""
    random = np.random.default_rng(8)
    moments = {"steady": np.cumsum(random.exponential(MEAN, 1500)), "bursty": np.cumsum(bursty(random, 1500))}
    served, sent, crumb = [], [], 0
    for name, times in moments.items():
        for ts in times.astype(int):
            crumb += 1
            served.append({"crumb": crumb, "ts": int(ts), "dur": 1000, "component": name, "client": name})
            sent.append({"crumb": crumb, "ts": int(ts) + 500, "sender": name, "length": 1})
    trail = make({"service_op": served, "network_transmit": sent})
    points = {(p.level, p.place): p for p in collect(Trail(trail), Chosen())}
    assert {key: p.fits.is_exponential for key, p in points.items() if p.fits} == {
        ("request", "steady"): True, ("request", "bursty"): False,
        ("message", "steady"): True, ("message", "bursty"): False,
    }  # fmt: skip
    assert all("nothing says when service began" in (p.prediction.refused or "") for p in points.values())
    chosen = collect(Trail(trail), Chosen(client="steady"))
    assert [(p.level, p.place, p.n) for p in chosen] == [
        ("request", "steady", 1500),
        ("message", "steady", 1500),
    ]


def test_table_json_svg(make: MakeTrail, tmp_path: Path) -> None:
    """The same in words, as JSON and as a picture, which is replaced only by force."""
    random = np.random.default_rng(9)
    rows = disk(random.lognormal(np.log(MEAN), 0.8, 3000), random.lognormal(np.log(0.5 * MEAN), 0.4, 3000))
    trail = make(rows)
    lines = ask(trail).splitlines()
    assert lines[0].startswith("requests of disk sda on n: 3,000 arrivals, ")
    assert lines[2].startswith("exponential: no (Kolmogorov-Smirnov 0.")
    assert lines[3].startswith("best fit: lognormal (sigma 0.")
    assert lines[-1].startswith("response time: at most ") and "by G/G/1 at 39% utilisation" in lines[-1]
    # bars hold all times between arrivals
    assert sum(int(line.split()[-1].replace(",", "")) for line in lines[4:-1]) == 2999
    [stored] = json.loads(ask(trail, "--json"))
    assert stored["fits"]["fits"][0]["family"] == "lognormal"
    assert sum(n for _, n in stored["buckets"]) == 2999
    svg = tmp_path / "a.svg"
    ask(trail, "--at", "disk", "--svg", svg)
    drawn = ElementTree.parse(svg).getroot()
    steps, *curves = drawn.findall(f".//{SVG}polyline")
    assert len(steps.get("points", "").split()) == 2 * len(stored["buckets"]) + 2
    assert len(curves) == 2
    families = {fitted["family"] for fitted in stored["fits"]["fits"]}
    assert {word.text.split(",")[0] for word in drawn.iter(f"{SVG}text") if word.text} & families == {
        "lognormal",
        "exponential",
    }
    with pytest.raises(IotrailError, match="exists"):
        ask(trail, "--svg", svg)
    ask(trail, "--svg", svg, "--force")


def test_little_in_it(store: Path, make: MakeTrail) -> None:
    """A few arrivals are shown without a distribution; none, and names that are nowhere, are refused."""
    said = ask(store)
    assert "requests at head on head: 5 arrivals, 81.6 k a second" in said
    assert "too few, or all at once" in said
    assert [p.level for p in collect(Trail(store), Chosen())] == sorted(
        [p.level for p in collect(Trail(store), Chosen())], key=LEVELS.index
    )
    with pytest.raises(UnknownNameError, match="no client alcie"):
        ask(store, "--client", "alcie")
    with pytest.raises(IotrailError, match="nothing arrived: no disk"):
        ask(make({"service_op": [{"crumb": 1, "ts": 5, "dur": 10}]}), "--at", "disk")
