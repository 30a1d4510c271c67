"""Clusters in words, and the layer that leaves the expectation first."""

import numpy as np
import pytest

from iotrail.anomaly.describe import bound_text, describe
from iotrail.anomaly.layers import find_deviations
from iotrail.anomaly.space import Dimension
from iotrail.sweep import stack
from tests.anomaly import planted
from tests.expected.test_stack import settings

SPACE = planted.paper_space()

METRICS = [
    ("prefetch", "requests_per_stream"),
    ("prefetch", "request_bytes"),
    ("prefetch", "useful_share"),
    ("scheduler", "request_bytes"),
    ("scheduler", "seek_distance"),
    ("device", "seek_ns"),
]
NAMES = {("prefetch", "request_bytes"): "prefetch_request_bytes"}


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ("cancel", ["concurrency: 128 and above", "stream: 256 KiB and above", "prefetch: on"]),
        # A run of 256 KiB implies its stream.
        ("distance", ["concurrency: 8 and above", "run: 256 KiB and above", "scheduler: anticipatory"]),
        ("reset", ["concurrency: 2", "scheduler: elevator"]),
        ("timer", ["concurrency: 2 and above", "run: 256 KiB", "scheduler: anticipatory"]),
    ],
)
def test_the_clusters_of_the_paper(cause: str, text: list[str]) -> None:
    box, _ = planted.causes(SPACE)[cause]
    bounds = describe(SPACE, box)
    sizes = [f"{one.dimension}: {one.text}".replace(".0 ", " ") for one in bounds]
    assert [size.replace("256.", "256") for size in sizes] == text


def test_bounds_in_words() -> None:
    think = Dimension("think", (1_000_000, 2_000_000, 4_000_000, 8_000_000), unit="ns")
    words = {bound_text(think, at) for at in range(len(think.sets))}
    assert {"any", "up to 4.00 ms", "2.00 ms and above", "2.00 ms to 4.00 ms", "8.00 ms"} <= words
    scheduler = Dimension("scheduler", ("none", "bfq", "kyber", "mq-deadline"), is_ordered=False)
    words = {bound_text(scheduler, at) for at in range(len(scheduler.sets))}
    assert {"not bfq", "none or kyber", "kyber"} <= words
    assert describe(SPACE, SPACE.everything) == []


def deviations(fault: str, where: dict[str, str | int]) -> list[tuple[str, str]]:
    """The metrics that leave the expectation in a fault's zone; both faults leave the elevator alone where it isn't congested."""
    given = settings(300, 9)
    given = [{**one, **where} for one in given[:40]] + given[40:]
    given = [{**one, "run": min(int(one["run"]), int(one["stream"]))} for one in given]
    outcomes = stack.simulate(given, faults=[fault])
    expected = [{(one.layer, one.metric): one.value for one in stack.expect(setting)} for setting in given]
    inside = np.arange(len(given)) < 40
    outside = (
        np.array([one["scheduler"] == "elevator" and int(one["concurrency"]) < 64 for one in given]) & ~inside
    )
    return [
        (one.layer, one.metric)
        for one in find_deviations(
            METRICS,
            {m: np.array([o[NAMES.get(m, m[1])] or np.nan for o in outcomes], dtype=float) for m in METRICS},
            {m: np.array([e[m] for e in expected]) for m in METRICS},
            inside,
            outside,
        )
    ]


def test_the_layer_of_each_fault() -> None:
    cancel = deviations(
        "cancel", {"concurrency": 256, "prefetch": "on", "stream": 1 << 20, "scheduler": "elevator"}
    )
    assert cancel[:2] == [("prefetch", "requests_per_stream"), ("prefetch", "request_bytes")]
    long: dict[str, str | int] = {
        "prefetch": "on",
        "stream": 1 << 20,
        "run": 1 << 20,
        "scheduler": "anticipatory",
    }
    distance = deviations("distance", {"concurrency": 32, **long})
    assert distance[0] == ("scheduler", "request_bytes")


def test_metrics_that_are_not_there() -> None:
    value = np.array([1.0, 1.0, 5.0, 5.0])
    inside = np.array([False, False, True, True])
    one = {("a", "x"): value, ("a", "y"): np.full(4, np.nan)}
    other = {("a", "x"): np.ones(4), ("a", "y"): np.ones(4), ("a", "z"): np.ones(4)}
    (found,) = find_deviations([("a", "z"), ("a", "y"), ("a", "x")], one, other, inside, ~inside)
    assert (found.layer, found.metric, found.measured, found.expected) == ("a", "x", 5.0, 1.0)
    assert (found.inside, found.outside) == (1.0, 0.0)
    # A metric that is off everywhere says nothing of the cluster.
    assert find_deviations([("a", "x")], {("a", "x"): np.full(4, 5.0)}, other, inside, ~inside) == []
    # Nothing is as expected if nothing was expected.
    zero = {("a", "x"): np.zeros(4)}
    assert find_deviations([("a", "x")], zero, zero, inside, ~inside) == []
