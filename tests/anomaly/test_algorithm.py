"""Algorithm 4.1 against its lines as printed, and what its boxes are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrail.anomaly import algorithm
from iotrail.anomaly.algorithm import cover_anomalies, find_cluster
from iotrail.anomaly.space import Box, Codes, Dimension, Flags, Space
from iotrail.errors import UsageError

from . import planted


def naive(space: Space, codes: Codes, anomalous: Flags, epsilon: float) -> Box | None:
    """Algorithm 4.1, line by line; boxes are sets of values."""
    ordered = [dimension.is_ordered for dimension in space.dimensions]

    def bound(box: tuple[frozenset[int], ...], point: Codes) -> tuple[frozenset[int], ...]:
        grown = []
        for values, value, is_ordered in zip(box, point, ordered, strict=True):
            values = values | {int(value)}
            grown.append(frozenset(range(min(values), max(values) + 1)) if is_ordered else values)
        return tuple(grown)

    def count(box: tuple[frozenset[int], ...], points: Codes) -> int:
        return sum(all(int(v) in values for v, values in zip(point, box, strict=True)) for point in points)

    points = codes[anomalous]
    largest, most = None, 0
    for x in points:
        box = tuple(frozenset({int(value)}) for value in x)
        while True:
            best, found = None, 0
            for y in points:
                if all(int(v) in values for v, values in zip(y, box, strict=True)):
                    continue
                tried = bound(box, y)
                anomalies = count(tried, points)
                if anomalies / count(tried, codes) >= epsilon and anomalies > found:
                    best, found = tried, anomalies
            if best is None:
                break
            box = best
        if count(box, points) > most:
            largest, most = box, count(box, points)
    if largest is None:
        return None
    return tuple(
        int(
            np.flatnonzero(
                (dimension.sets == [at in values for at in range(len(dimension.values))]).all(axis=1)
            )[0]
        )
        for dimension, values in zip(space.dimensions, largest, strict=True)
    )


SMALL = Space(
    (
        Dimension("a", (1, 2, 3, 4, 5)),
        Dimension("b", ("x", "y", "z"), is_ordered=False),
        Dimension("c", (10, 20, 30)),
    ),
    np.array([(a, b, c) for a in range(5) for b in range(3) for c in range(3)]),
)


# Where boxes are counted beforehand, all of them and none.
COUNTED = {"beforehand": 10**9, "on demand": 0}


@pytest.mark.parametrize("counted", COUNTED)
@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.0, 1.0), st.sampled_from([0.5, 0.75, 0.9, 1.0])
)
def test_equal_to_the_printed_algorithm(
    counted: str, seed: int, number: int, share: float, epsilon: float
) -> None:
    rng = np.random.default_rng(seed)
    # Settings can be there more than once.
    codes = SMALL.feasible[rng.integers(len(SMALL.feasible), size=number)]
    anomalous = rng.random(number) < share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "COUNTED_PER_PAIR", COUNTED[counted])
        found = find_cluster(SMALL, codes, anomalous, epsilon)
    assert found == naive(SMALL, codes, anomalous, epsilon)


def test_counts_of_all_boxes_are_those_on_demand() -> None:
    space = planted.paper_space()
    rng = np.random.default_rng(1)
    codes = space.feasible[rng.integers(len(space.feasible), size=3000)]
    anomalous = rng.random(len(codes)) < 0.3
    boxes = np.stack([rng.integers(len(one.sets), size=2000) for one in space.dimensions], axis=1)
    # Among them what every sample is in.
    boxes[0] = space.everything
    table = algorithm._Table(space, codes, anomalous).count(boxes)
    bits = algorithm._BitSets(space, codes, anomalous).count(boxes)
    assert np.array_equal(table, bits)
    assert (int(table[0][0]), int(table[1][0])) == (int(anomalous.sum()), 3000)
    for box, anomalies, samples in zip(boxes[:100], *table, strict=False):
        inside = space.contains(tuple(box), codes)
        assert (inside & anomalous).sum() == anomalies
        assert inside.sum() == samples


def test_one_planted_box_is_found() -> None:
    space = planted.paper_space()
    box, loss = planted.causes(space)["cancel"]
    samples = planted.sample(space, [(box, loss)], seed=1)
    found = find_cluster(space, samples.codes, samples.losses > -np.log(0.9))
    assert found is not None
    assert planted.overlap(space, found, box) > 0.6


def test_clusters_one_after_the_other() -> None:
    codes = SMALL.feasible
    first = planted.box(SMALL, a=(1, 2), b=["x"])
    second = planted.box(SMALL, a=(4, 5), b=["y", "z"], c=(20, 30))
    anomalous = SMALL.contains(first, codes) | SMALL.contains(second, codes)
    assert set(cover_anomalies(SMALL, codes, anomalous)) == {first, second}


@pytest.mark.parametrize("kind", ["none", "one", "all", "no samples"])
def test_few_and_many_anomalies(kind: str) -> None:
    codes = SMALL.feasible[:0] if kind == "no samples" else SMALL.feasible
    anomalous = np.zeros(len(codes), dtype=bool)
    if kind == "one":
        anomalous[7] = True
    if kind == "all":
        anomalous[:] = True
    found = find_cluster(SMALL, codes, anomalous)
    if kind == "all":
        assert found == SMALL.everything
    elif kind == "one":
        assert found is not None and SMALL.contains(found, codes).sum() == 1
    else:
        assert found is None
    assert len(cover_anomalies(SMALL, codes, anomalous)) == (1 if kind == "all" else 0)


def test_a_box_is_shown_without_what_its_bounds_imply() -> None:
    space = planted.paper_space()
    timer, _ = planted.causes(space)["timer"]
    simple = space.simplified(timer)
    assert np.array_equal(space.contains(simple, space.feasible), space.contains(timer, space.feasible))
    names = [dimension.name for dimension in space.dimensions]
    # a run of 256 KiB implies its stream
    assert simple[names.index("stream")] == planted.STREAM.full
    assert simple[names.index("run")] == timer[names.index("run")]
    # a lower bound of a run is implied by nothing, an upper one by that of its stream
    short = planted.box(space, stream=(64 << 10, 128 << 10), run=(32 << 10, 128 << 10))
    assert space.simplified(short) == planted.box(space, stream=(64 << 10, 128 << 10), run=(32 << 10, None))


def test_dimensions_that_do_not_exist() -> None:
    for values, said in (((), "at least one value"), ((1, 2, 1), "value 1 is there twice")):
        with pytest.raises(UsageError, match=said):
            Dimension("n", values)
    with pytest.raises(UsageError, match="at most 10 values of an unordered"):
        Dimension("n", tuple(range(11)), is_ordered=False)
    with pytest.raises(UsageError, match="dimension n is there twice"):
        Space((Dimension("n", (1,)), Dimension("n", (1,))), np.array([(0, 0)]))
