"""The layer that leaves the expectation first, of metrics whose truth is known."""

import numpy as np
import pytest

from iotrail.anomaly.layers import Metric, find_deviations

REQUEST: Metric = ("readahead", "request_bytes")
SEEK: Metric = ("scheduler", "seek_distance")
SERVICE: Metric = ("device", "service_ns")
METRICS = (REQUEST, SEEK, SERVICE)
INSIDE = np.arange(100) < 20
RNG = np.random.default_rng(1)


def measured(error: float, **factors: float) -> dict[Metric, np.ndarray]:
    """Metrics that should be 1, with an error; inside the cluster times a factor."""
    found = {}
    for metric in METRICS:
        values = np.exp(RNG.normal(0, error, 100))
        values[INSIDE] *= factors.get(metric[0], 1.0)
        found[metric] = values
    return found


def named(values: dict[Metric, np.ndarray]) -> list[Metric]:
    """The metrics that leave an expectation of 1."""
    expected = {metric: np.ones(100) for metric in METRICS}
    found = find_deviations(METRICS, values, expected, INSIDE, ~INSIDE)
    return [(one.layer, one.metric) for one in found]


def test_the_first_layer_from_the_application_down_comes_first() -> None:
    assert named(measured(0.02)) == []
    assert named(measured(0.02, device=1.5)) == [SERVICE]
    assert named(measured(0.02, device=1.5, readahead=0.25)) == [REQUEST, SERVICE]


@pytest.mark.parametrize(("own", "order"), [(1.8, "device first"), (1.0, "device last")])
def test_what_a_layer_did_with_what_it_was_given_decides(own: float, order: str) -> None:
    ratio: Metric = ("device", "service_ratio")
    metrics = (*METRICS, ratio)
    values = {**measured(0.02, readahead=0.5, scheduler=3.0, device=2.0), ratio: np.where(INSIDE, own, 1.0)}
    expected = {metric: np.ones(100) for metric in metrics}
    found = find_deviations(metrics, values, expected, INSIDE, ~INSIDE)
    named = [(one.layer, one.metric) for one in found]
    assert named == ([ratio, REQUEST, SEEK, SERVICE] if order == "device first" else [REQUEST, SEEK, SERVICE])


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_a_layer_that_did_its_own_work_is_named_last(off: float) -> None:
    ratio: Metric = ("readahead", "asked_ratio")
    metrics = (*METRICS, ratio)
    # off to both sides, so that half of all samples did more than expected
    values = {**measured(0.02, readahead=0.5, scheduler=3.0), ratio: 1 + off * np.tile([1.0, -1.0], 50)}
    expected = {metric: np.ones(100) for metric in metrics}
    found = find_deviations(metrics, values, expected, INSIDE, ~INSIDE)
    assert [(one.layer, one.metric) for one in found] == [SEEK, REQUEST]


def test_what_is_usual_elsewhere_leaves_nothing() -> None:
    # a metric that is off by half in many samples outside
    assert named(measured(0.4, scheduler=1.2)) == []
    # but where it is off by far more inside, it says so
    assert named(measured(0.4, scheduler=5.0)) == [SEEK]


def test_zero_is_as_expected_only_if_zero_is() -> None:
    values = measured(0.02)
    values[SEEK][INSIDE] = 0.0
    assert named(values) == [SEEK]
    expected = {metric: np.ones(100) for metric in METRICS}
    expected[SEEK][INSIDE] = 0.0
    assert find_deviations(METRICS, values, expected, INSIDE, ~INSIDE) == []


def test_a_cluster_of_all_samples_has_nothing_to_stand_out_from() -> None:
    values = {**measured(0.02), SERVICE: np.full(100, 2.0)}
    expected = {metric: np.ones(100) for metric in METRICS}
    every = np.ones(100, dtype=bool)
    (found,) = find_deviations(METRICS, values, expected, every, ~every)
    assert (found.layer, found.metric, found.outside) == (*SERVICE, None)
