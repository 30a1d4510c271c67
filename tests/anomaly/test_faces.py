"""What pairs of settings say of clusters and their faces: confirmed where something is planted, and not where nothing is."""

from dataclasses import replace

import numpy as np

from iotrail.anomaly.evidence import FEWEST_PAIRS, LEVEL, find_clusters, judge_candidates
from iotrail.anomaly.faces import Face, Pairs, judge
from iotrail.anomaly.space import Box, Codes, Flags, Values
from iotrail.sweep.confirm import choose_pairs, faces

from . import planted

SPACE = planted.paper_space()
CAUSES = planted.causes(SPACE)
RESET = CAUSES["reset"][0]


def losses_at(codes: Codes, causes: list[tuple[Box, float]], rng: np.random.Generator) -> Values:
    """log(expected / measured) with planted causes and an error of 3 %."""
    losses = rng.normal(0.0, 0.03, size=len(codes))
    for box, loss in causes:
        taken = loss * (1 + 0.3 * rng.uniform(-1, 1, size=len(codes)))
        losses = losses - np.log1p(-taken * SPACE.contains(box, codes))
    return losses


def measure_pairs(
    boxes: list[Box],
    causes: list[tuple[Box, float]],
    seed: int,
    each: int | None = 5,
    total: int | None = None,
) -> Pairs:
    """Pairs across the faces of boxes, of which nothing was measured before."""
    chosen = choose_pairs(SPACE, boxes, [], seed, each=each, total=total)
    inside, outside = np.array([one.inside for one in chosen]), np.array([one.outside for one in chosen])
    rng = np.random.default_rng(seed)
    return Pairs(
        inside,
        outside,
        losses_at(inside, causes, rng),
        losses_at(outside, causes, rng),
        np.ones(len(chosen), dtype=bool),
    )


def by_name(found: list[Face]) -> dict[tuple[str, str, str], bool | None]:
    """Whether faces are confirmed."""
    return {(face.dimension, face.inside, face.outside): face.is_confirmed for face in found}


def test_pairs_are_neighbours_across_a_face() -> None:
    boxes = [box for box, _ in CAUSES.values()]
    chosen = choose_pairs(SPACE, boxes, [], 1, each=4)
    feasible = set(map(tuple, SPACE.feasible.tolist()))
    settings = [code for pair in chosen for code in pair.settings]
    assert set(settings) <= feasible
    assert len(set(settings)) == len(settings)
    inside, outside = (np.array([getattr(one, side) for one in chosen]) for side in ("inside", "outside"))
    crossed = [(SPACE.contains(box, inside) != SPACE.contains(box, outside)).astype(int) for box in boxes]
    assert (np.sum(crossed, axis=0) == 1).all()
    # A stream below 256 KiB has no run of 256 KiB: that is no face of its own of "distance" and "timer".
    counts = [len(faces(SPACE, box)) for box in boxes]
    assert counts == [3, 3, 3, 4]
    assert len(chosen) == 4 * sum(counts)
    assert ((inside != outside).sum(axis=1) == 1).mean() > 0.9
    # Which of the two is first is drawn.
    assert 0.2 < np.mean([one.is_inside_first for one in chosen]) < 0.8


def test_pairs_leave_out_what_was_measured() -> None:
    codes = SPACE.feasible[SPACE.contains(RESET, SPACE.feasible)]
    measured = [tuple(row) for row in codes[:-4].tolist()]
    chosen = choose_pairs(SPACE, [RESET], measured, 1, total=3)
    assert not {pair.inside for pair in chosen} & set(measured)
    # Where nothing else is left, what was measured does.
    every = [tuple(row) for row in SPACE.feasible.tolist()]
    assert len(choose_pairs(SPACE, [RESET], every, 1, total=3)) == 3
    assert choose_pairs(SPACE, [SPACE.everything], [], 1, total=3) == []
    assert choose_pairs(SPACE, [], [], 1, total=3) == []


def test_a_total_is_dealt_to_all_boxes() -> None:
    boxes = [box for box, _ in CAUSES.values()]
    chosen = choose_pairs(SPACE, boxes, [], 1, total=18)
    inside, outside = (np.array([getattr(one, side) for one in chosen]) for side in ("inside", "outside"))
    counts = [int((SPACE.contains(box, inside) & ~SPACE.contains(box, outside)).sum()) for box in boxes]
    assert sorted(counts) == [4, 4, 5, 5]


def test_faces_of_causes_are_confirmed_and_others_are_not() -> None:
    # The box found is one value too large above.
    too_large = planted.box(SPACE, concurrency=(2, 4), scheduler=["elevator"])
    planted_here = [CAUSES["reset"]]
    right, wrong = set(), set()
    for seed in range(1, 11):
        (found,) = judge(SPACE, [too_large], measure_pairs([too_large], planted_here, seed))
        named = by_name(found)
        assert named.keys() == {
            ("concurrency", "2", "1"),
            ("concurrency", "4", "8"),
            ("scheduler", "elevator", "anticipatory"),
        }
        right |= {seed} if named["concurrency", "2", "1"] else set()
        wrong |= {seed} if named["concurrency", "4", "8"] else set()
    assert len(right) == 10
    assert len(wrong) <= 1


def test_nothing_is_confirmed_where_nothing_is_planted() -> None:
    boxes = [box for box, _ in CAUSES.values()]
    confirmed = 0
    for seed in range(1, 11):
        found = judge(SPACE, boxes, measure_pairs(boxes, [], seed))
        assert [len(of) for of in found] == [3, 3, 3, 4]
        confirmed += any(face.is_confirmed for of in found for face in of)
    assert confirmed <= 2


def test_one_pair_tells_nothing() -> None:
    (found,) = judge(SPACE, [RESET], measure_pairs([RESET], [CAUSES["reset"]], 1, each=1))
    assert {(face.pairs, face.low, face.high, face.chance, face.is_confirmed) for face in found} == {
        (1, None, None, None, None)
    }


def mixed(seed: int, causes: list[tuple[Box, float]]) -> tuple[Codes, Values, Flags]:
    """30 uniform samples, and 40 around the cause `reset` as if chosen: alone the latter prove nothing."""
    rng = np.random.default_rng(seed)
    near = np.flatnonzero(np.isin(SPACE.feasible[:, 0], (0, 1, 2)))
    uniform = rng.choice(len(SPACE.feasible), 30, replace=False)
    at = np.unique(np.concatenate((uniform, rng.choice(near, 40, replace=False))))
    codes = SPACE.feasible[at]
    return codes, losses_at(codes, causes, rng), np.isin(at, uniform)


def test_chosen_samples_prove_nothing_but_place_faces() -> None:
    codes, losses, uniform = mixed(1, [CAUSES["reset"]])
    # Taken for uniform, the cluster is beyond doubt; by uniform samples alone it isn't.
    (taken_for_uniform,) = find_clusters(SPACE, codes, losses)
    assert planted.is_within_one(SPACE, taken_for_uniform.box, RESET)
    assert find_clusters(SPACE, codes, losses, uniform=uniform) == []
    (candidate,) = judge_candidates(SPACE, codes, losses, uniform=uniform)
    assert candidate.chance > LEVEL
    assert candidate.box == taken_for_uniform.box
    # Fresh pairs prove it.
    pairs = measure_pairs([candidate.box], [CAUSES["reset"]], 1)
    (cluster,) = find_clusters(SPACE, codes, losses, uniform=uniform, pairs=pairs)
    assert (cluster.box, cluster.pairs) == (candidate.box, 15)
    assert cluster.chance < 0.001
    # Too few pairs don't, nor do those of settings that were measured before, nor pairs without a difference.
    few = Pairs(*(getattr(pairs, name)[: FEWEST_PAIRS - 1] for name in Pairs.__dataclass_fields__))
    stale = replace(pairs, is_fresh=np.zeros(15, dtype=bool))
    alike = measure_pairs([candidate.box], [], 1)
    for other in (few, stale, alike):
        assert find_clusters(SPACE, codes, losses, uniform=uniform, pairs=other) == []


def test_one_wrong_pair_proves_nothing() -> None:
    codes, losses, uniform = mixed(1, [CAUSES["reset"]])
    (candidate,) = judge_candidates(SPACE, codes, losses, uniform=uniform)
    pairs = measure_pairs([candidate.box], [], 1, each=None, total=6)
    pairs.losses_inside[2] += 2.0
    assert find_clusters(SPACE, codes, losses, uniform=uniform, pairs=pairs) == []
