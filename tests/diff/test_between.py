"""The test between runs: it errs as rarely as it says where calls differ in how much they vary from run to run."""

import numpy as np
import pytest

from iotrail.diff.between import Sample, compare_means, usual


def samples(
    random: np.random.Generator, spreads: np.ndarray, shift: float = 0.0, runs: int = 3
) -> list[Sample]:
    """A figure of three runs a side of as many calls as there are spreads; the first is shifted in B."""
    found = []
    for number, spread in enumerate(spreads):
        a, b = random.normal(0, spread, runs), random.normal(0, spread, runs)
        found.append(Sample(a, b + (shift if number == 0 else 0.0), 0.0))
    return found


def probabilities(drawn: list[Sample]) -> list[float]:
    expected = usual(drawn, 0.1)
    return [compare_means(sample, expected).p or 0.0 for sample in drawn]


@pytest.mark.parametrize(
    "spreads", [np.full(8, 0.04), np.array([0.03] * 6 + [0.6, 0.8]), np.geomspace(0.01, 0.5, 12)]
)
def test_runs_of_the_same_differ_in_nothing(spreads: np.ndarray) -> None:
    random = np.random.default_rng(4)
    drawn = [probabilities(samples(random, spreads)) for _ in range(400)]
    assert np.mean(np.array(drawn) < 0.01) < 0.02, "one in a hundred errs, two at the most"
    # one of all calls at a thousandth each, as adjusted for many comparisons
    assert np.mean(np.array(drawn).min(axis=1) < 0.01 / len(spreads)) < 0.05


def test_what_all_calls_show_makes_three_runs_enough() -> None:
    random = np.random.default_rng(5)
    drawn = [samples(random, np.full(8, 0.04), shift=0.2) for _ in range(200)]
    moderated = np.mean([probabilities(each)[0] < 0.001 for each in drawn])
    alone = np.mean([(compare_means(each[0], None).p or 0) < 0.001 for each in drawn])
    assert moderated > 0.6 and alone < 0.4 < moderated - 0.2


def test_what_varies_inside_of_runs_widens_what_is_expected() -> None:
    a, b = np.array([0.0, 0.001, 0.002]), np.array([0.1, 0.101, 0.102])
    others = samples(np.random.default_rng(6), np.full(8, 0.02))
    expected = usual(others, 0.1)
    sure, unsure = (compare_means(Sample(a, b, within), expected).p or 0.0 for within in (0.0, 0.04))
    assert sure < 0.001 < 0.1 < unsure


def test_too_few_runs_tell_nothing() -> None:
    assert compare_means(Sample(np.array([1.0]), np.array([2.0]), None), None).p is None
    estimate = compare_means(Sample(np.array([1.0, 1.0]), np.array([2.0]), None), None)
    assert (estimate.value, estimate.p) == (1.0, 0.0)
