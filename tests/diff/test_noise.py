"""The tests behind a comparison: they err as rarely as they say on series that are no independent draws."""

import numpy as np
import pytest
from scipy import stats

from iotrail.diff import noise


def drifting(random: np.random.Generator, count: int, memory: float) -> np.ndarray:
    series = np.zeros(count)
    for i, step in enumerate(random.normal(0, 1, count)):
        series[i] = memory * series[i - 1] + step
    return series


@pytest.mark.parametrize(("count", "memory"), [(128, 0.0), (128, 0.8), (64, 0.5), (16, 0.0)])
def test_drift_is_not_a_difference(count: int, memory: float) -> None:
    random = np.random.default_rng(20_240_229)
    rounds = [drifting(random, count, memory) for _ in range(2000)]
    errs = np.mean([(noise.mean(series).p or 0) < 0.01 for series in rounds])
    assert errs < 0.03, "one in a hundred errs, three at the most"
    if memory >= 0.8:
        naive = np.mean([stats.ttest_1samp(series, 0).pvalue < 0.01 for series in rounds])
        assert naive > 0.2, "and a test that takes slices as independent errs ten times as often"


def test_a_difference_is_found_in_drift() -> None:
    random = np.random.default_rng(1)
    found = [(noise.mean(drifting(random, 128, 0.5) + 2.0).p or 0) < 0.001 for _ in range(200)]
    assert np.mean(found) > 0.95


def test_the_interval_holds_the_truth() -> None:
    random = np.random.default_rng(2)
    estimates = [noise.mean(drifting(random, 128, 0.5) + 3.0) for _ in range(1000)]
    assert 0.92 < np.mean([e.low <= 3.0 <= e.high for e in estimates]) < 0.98


def test_one_stall_is_no_difference() -> None:
    series = np.zeros(128)
    series[40] = 1e9
    assert (noise.mean(series).p or 0) > 0.1


def test_a_constant_difference_is_certain_and_one_slice_tells_nothing() -> None:
    assert noise.mean(np.full(16, 3.0)).p == 0.0
    assert noise.mean(np.zeros(16)).p == 1.0
    assert noise.mean(np.array([3.0])).p is None


def test_what_does_not_exceed_a_bound_is_not_shown() -> None:
    random = np.random.default_rng(3)
    series = drifting(random, 128, 0.5) * 0.1 + 3.0
    assert (noise.mean(series).p or 0) < 1e-6 and noise.mean(series, beyond=3.5).p == 1.0
    assert (noise.mean(series, beyond=2.0).p or 0) < 1e-3
    assert (
        noise.mean(np.full(16, 3.0), beyond=4.0).p == 1.0
        and noise.mean(np.full(16, 3.0), beyond=2.0).p == 0.0
    )


def test_shares_weigh_slices_by_what_they_hold() -> None:
    whole = np.tile([1.0, 99.0], 64)
    part = np.tile([1.0, 0.0], 64)
    assert noise.share(part, whole, whole * 0.51, whole).value == pytest.approx(0.5)


def test_many_comparisons_are_adjusted_for() -> None:
    assert noise.discoveries([0.01] + [0.5] * 9)[0] == pytest.approx(0.1)
    assert noise.discoveries([]) == []
    drawn = np.random.default_rng(1).uniform(size=200) ** 3
    drawn[:3] = 0, 1, drawn[3]
    adjusted = stats.false_discovery_control(drawn, method="bh")
    assert noise.discoveries(drawn.tolist()) == pytest.approx(adjusted.tolist(), rel=1e-12)
