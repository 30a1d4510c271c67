"""Planted causes are found again, alone and where they overlap; where nothing is planted, nothing is found."""

import numpy as np
import pytest

from iotrail.anomaly.evidence import find_clusters
from iotrail.anomaly.pursuit import Pursuit, find_boxes
from iotrail.anomaly.space import Box

from . import planted

SPACE = planted.paper_space()
CAUSES = planted.causes(SPACE)


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("seed", [1])
def test_one_cause_alone(name: str, seed: int) -> None:
    box, loss = CAUSES[name]
    samples = planted.sample(SPACE, [(box, loss)], seed=seed)
    (found,) = find_clusters(SPACE, samples.codes, samples.losses)
    assert planted.is_within_one(SPACE, found.box, box)
    assert found.low <= planted.mean_loss(loss) <= found.high
    assert found.chance < 0.001
    assert (
        SPACE.contains(found.largest, SPACE.feasible) >= SPACE.contains(found.smallest, SPACE.feasible)
    ).all()


def test_a_face_is_open_where_no_sample_is() -> None:
    # no sample of what falls short has concurrency 1, which the planted box leaves out
    box, loss = CAUSES["timer"]
    samples = planted.sample(SPACE, [(box, loss)], seed=8)
    (found,) = find_clusters(SPACE, samples.codes, samples.losses)
    concurrency = SPACE.dimensions[0].sets
    assert concurrency[found.box[0]].all()
    assert concurrency[found.smallest[0]].tolist() == concurrency[box[0]].tolist() == [False] + [True] * 8


@pytest.mark.parametrize("seed", [1, 2])
def test_four_overlapping_causes(seed: int) -> None:
    samples = planted.sample(SPACE, list(CAUSES.values()), seed=seed)
    found = find_clusters(SPACE, samples.codes, samples.losses)
    assert len(found) == len(CAUSES)
    for box, loss in CAUSES.values():
        best = max(found, key=lambda cluster: planted.overlap(SPACE, cluster.box, box))
        assert planted.is_within_one(SPACE, best.box, box)
        assert best.loss == pytest.approx(loss, abs=0.08)


@pytest.mark.parametrize("error", [0.03, 0.1])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_planted(error: float, seed: int) -> None:
    samples = planted.sample(SPACE, [], seed=seed, error=error)
    assert find_clusters(SPACE, samples.codes, samples.losses) == []


def test_wrong_samples_are_no_cause() -> None:
    samples = planted.sample(SPACE, [], seed=5)
    rng = np.random.default_rng(5)
    wrong = rng.random(len(samples.losses)) < 0.1
    losses = np.where(wrong, samples.losses + rng.uniform(-0.7, 0.7, size=len(wrong)), samples.losses)
    assert find_clusters(SPACE, samples.codes, losses) == []


def test_losses_everywhere() -> None:
    samples = planted.sample(SPACE, [(SPACE.everything, 0.3)], seed=3, spread=0.0)
    (found,) = find_clusters(SPACE, samples.codes, samples.losses)
    assert found.box == SPACE.everything
    assert found.loss == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_too_few_samples(number: int) -> None:
    samples = planted.sample(SPACE, [(SPACE.everything, 0.3)], seed=3, number=number)
    assert find_clusters(SPACE, samples.codes, samples.losses) == []


def test_what_looking_once_takes_for_one_cause() -> None:
    # 60 uniform samples, the others where causes overlap, as an adaptive sweep chooses them.
    samples = planted.sample(SPACE, list(CAUSES.values()), seed=3, number=1500)
    concurrency, run = samples.codes[:, 0], samples.codes[:, 3]
    near = (concurrency < 3) & (run > 2) & (run < 6)
    chosen = np.flatnonzero((np.arange(1500) < 60) | near)[:150]
    pursuit = Pursuit(SPACE, samples.codes[chosen], samples.losses[chosen])

    def fitting(boxes: list[Box]) -> int:
        return sum(
            any(planted.is_within_one(SPACE, found, box) for found in boxes) for box, _ in CAUSES.values()
        )

    assert fitting(pursuit.pursue().boxes) == 3
    assert fitting(pursuit.run().boxes) == 4


def test_equal_samples_give_equal_boxes() -> None:
    samples = planted.sample(SPACE, list(CAUSES.values()), seed=4, number=200)
    one, other = (find_boxes(SPACE, samples.codes, samples.losses) for _ in range(2))
    assert one.boxes == other.boxes
    # nor does the order of samples count
    order = np.random.default_rng(1).permutation(len(samples.codes))
    dealt = find_boxes(SPACE, samples.codes[order], samples.losses[order])
    assert set(dealt.boxes) == set(one.boxes)
