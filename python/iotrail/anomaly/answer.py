"""Where a sweep's trail says that its system falls short: clusters, and the layers in which they leave the expectation."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iotrail.anomaly.algorithm import cover_anomalies
from iotrail.anomaly.describe import Bound, describe, describe_faces
from iotrail.anomaly.evidence import LEVEL, Cluster, judge_candidates
from iotrail.anomaly.faces import Face, Pairs, judge
from iotrail.anomaly.layers import Deviation, Metric, find_deviations
from iotrail.anomaly.space import Box, Codes, Flags, Space, Values
from iotrail.errors import SweepError, UsageError
from iotrail.expected.user import APPLICATION
from iotrail.sweep import spec as specs
from iotrail.sweep.run import CONFIRM, UNIFORM
from iotrail.sweep.sampling import unseen_share
from iotrail.sweep.spec import Spec
from iotrail.sweep.trail import PAIRS, SPECIFICATION, SPECIFICATION_PATH
from iotrail.trail import Trail

# Layers from the application down; others come after them, in the order of their names.
_ORDER = ("application", "prefetch", "readahead", "scheduler", "device")
# Failed samples that say where measurements fail.
_FEWEST_FAILED = 3


@dataclass(frozen=True)
class Samples:
    """The settings of a sweep: their ids and codes, what was measured of the target and expected, losses as
    log(expected / measured) (NaN where unknown), what they were measured for first (uniform, adaptive, confirm), and what layers showed
    and were expected to; a value a sample. `pairs` are those measured to confirm clusters, of which both losses are known."""

    spec: Spec
    space: Space
    ids: Codes
    codes: Codes
    target_measured: Values
    target_expected: Values
    losses: Values
    purposes: NDArray[np.object_]
    pairs: Pairs | None
    states: Mapping[str, int]
    metrics: Sequence[Metric]
    measured: Mapping[Metric, Values]
    expected: Mapping[Metric, Values]
    # who says what is expected, in words
    reference: str

    @property
    def is_uniform(self) -> Flags:
        """Which samples were drawn uniformly and have a known loss."""
        return np.asarray((self.purposes == UNIFORM) & ~np.isnan(self.losses), bool)

    @property
    def is_fitted(self) -> Flags:
        """Which samples tell where clusters are: all with a known loss, but for those that only confirm them."""
        return np.asarray((self.purposes != CONFIRM) & ~np.isnan(self.losses), bool)


@dataclass(frozen=True)
class Found:
    """A cluster: its bounds in words, its share of all settings, its samples, of which some are uniform, how sure it is (None by
    Algorithm 4.1, which doesn't tell), the fresh pairs of settings that this rests on beside uniform samples, its faces that pairs
    were measured for, and the metrics that have left the expectation, from the application down."""

    box: Box
    bounds: Sequence[Bound]
    share: float
    samples: int
    uniform: int
    loss: float
    low: float | None
    high: float | None
    chance: float | None
    pairs: int
    faces: Sequence[Face]
    smallest: Sequence[Bound] | None
    largest: Sequence[Bound] | None
    layers: Sequence[Deviation]


@dataclass(frozen=True)
class Failing:
    """Settings of which nine of ten samples or more, `failed` of `samples`, could not be measured: their bounds."""

    bounds: Sequence[Bound]
    failed: int
    samples: int


@dataclass(frozen=True)
class Answer:
    """All clusters of a sweep, and what they rest on: samples with a known loss, of them `anomalous` at least the threshold, `uniform`
    drawn uniformly, and beside them `confirming` ones in pairs; `hidden` is the share of settings that a zone may have without
    a uniform sample in it (95 %); `unproven` how many boxes explain losses that chance may as well have made; `unjudged` samples were measured, but
    nothing is expected of them; `failing` where
    measurements failed, of which nothing is known."""

    trail: str
    reference: str
    method: str
    threshold: float
    settings: int
    samples: int
    uniform: int
    confirming: int
    anomalous: int
    unjudged: int
    states: Mapping[str, int]
    hidden: float
    unproven: int
    failing: Sequence[Failing]
    clusters: Sequence[Found]

    def json(self) -> dict[str, Any]:
        """The same as plain data."""
        answer = asdict(self)
        for cluster in answer["clusters"]:
            del cluster["box"]
        return answer


def read(trail: Trail, compare: Trail | None = None, expect: str | None = None) -> Samples:
    """The samples of a sweep's trail; with `compare` what is expected of each setting is what that sweep measured there, with
    `expect` what that "FILE.py:FUNCTION" returns, or what an expectation by that name has.

    Raises:
        SweepError: a trail has no sweep or more than one, or the two have no setting in common.
        UsageError: there is no such function, or it returns no number above 0.
    """
    facts = trail.rows_of("SELECT node, name, value FROM recording")
    texts = [row["value"] for row in facts if row["name"] == SPECIFICATION]
    if len(texts) != 1:
        raise SweepError(
            f"{trail.path}: expected the trail of one sweep, found {len(texts)}", "iotrail sweep makes one"
        )
    path = next(row["value"] for row in facts if row["name"] == SPECIFICATION_PATH)
    try:
        spec = specs.parse(texts[0], path)
    except UsageError as error:
        raise SweepError(
            f"{trail.path}: its specification can't be read: {error.message}",
            "iotrail anonymize takes it off a trail: ask the original",
        ) from error
    space = spec.space()
    rows = trail.query(
        "SELECT setting, value, expected, log_loss, purpose, state FROM sweep_sample ORDER BY setting"
    ).fetchnumpy()
    ids = np.asarray(rows["setting"], np.int64)
    measured, expected = _layers(trail, ids)
    target_measured, target_expected = _numbers(rows["value"]), _numbers(rows["expected"])
    codes = _codes(trail, space, ids)
    losses, reference = _numbers(rows["log_loss"]), f"{spec.expect} expects"
    if compare is not None:
        expected, reference = _measured_before(compare, ids), f"{compare.path} measured"
    elif expect is not None:
        expected, reference = _expected_by(expect, spec, space, codes), f"{expect} expects"
    if compare is not None or expect is not None:
        target_expected = expected.get((APPLICATION, spec.target.metric), np.full(len(ids), np.nan))
        if compare is not None and np.isnan(target_expected).all():
            raise SweepError(
                f"{compare.path}: has measured none of the settings of {trail.path}",
                "sweep the same dimensions with the same seed",
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.log(target_expected / target_measured)
        losses = np.where(np.isfinite(losses), losses if spec.target.is_higher_better else -losses, np.nan)
    purposes = np.asarray(rows["purpose"], object)
    pair_ids = [pair for row in facts if row["name"] == PAIRS for pair in json.loads(row["value"])]
    return Samples(
        spec=spec,
        space=space,
        ids=ids,
        codes=codes,
        target_measured=target_measured,
        target_expected=target_expected,
        losses=losses,
        purposes=purposes,
        pairs=_pairs(
            pair_ids,
            ids,
            codes,
            _confirming(trail, ids, target_expected, spec) if pair_ids else losses,
            purposes,
        ),
        states=dict(Counter(map(str, rows["state"]))),
        metrics=sorted(measured, key=_place),
        measured=measured,
        expected=expected,
        reference=reference,
    )


def _confirming(trail: Trail, ids: Codes, expected: Values, spec: Spec) -> Values:
    """log(expected / measured) by measurements for pairs alone, a value a setting, NaN where there is none."""
    measured = np.full(len(ids), np.nan)
    for row in trail.rows_of(
        "SELECT setting, avg(value) AS value FROM measurement WHERE purpose = 'confirm' AND value IS NOT NULL GROUP BY setting"
    ):
        measured[np.searchsorted(ids, row["setting"])] = row["value"]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(expected / measured)
    return np.where(np.isfinite(losses), losses if spec.target.is_higher_better else -losses, np.nan)


def _pairs(
    pairs: Sequence[Sequence[int]],
    ids: Codes,
    codes: Codes,
    losses: Values,
    purposes: NDArray[np.object_],
) -> Pairs | None:
    """Pairs of settings by their ids, of which both losses are known; None without any."""
    at = np.searchsorted(ids, np.array(pairs, np.int64).reshape(-1, 2))
    at = at[~np.isnan(losses[at]).any(axis=1)]
    if not len(at):
        return None
    inside, outside = at[:, 0], at[:, 1]
    return Pairs(
        inside=codes[inside],
        outside=codes[outside],
        losses_inside=losses[inside],
        losses_outside=losses[outside],
        is_fresh=np.asarray((purposes[at] == CONFIRM).all(axis=1), bool),
    )


def _place(metric: Metric) -> tuple[int, str]:
    layer, name = metric
    return (_ORDER.index(layer), "") if layer in _ORDER else (len(_ORDER), f"{layer} {name}")


def _codes(trail: Trail, space: Space, ids: Codes) -> Codes:
    """The codes of settings, (settings, dimensions)."""
    codes = np.empty((len(ids), len(space.dimensions)), np.int64)
    for at, dimension in enumerate(space.dimensions):
        rows = trail.query(
            "SELECT setting, word, number FROM setting WHERE dimension = $dimension ORDER BY setting",
            {"dimension": dimension.name},
        ).fetchnumpy()
        if not np.array_equal(rows["setting"], ids):
            raise SweepError(f"{trail.path}: table setting lacks {dimension.name} of some settings")
        is_word = isinstance(dimension.values[0], str)
        values = np.asarray(rows["word"], object) if is_word else _numbers(rows["number"])
        index = {value if is_word else float(value): code for code, value in enumerate(dimension.values)}
        codes[:, at] = [index[value] for value in values]
    return codes


def _layers(trail: Trail, ids: Codes) -> tuple[dict[Metric, Values], dict[Metric, Values]]:
    """What layers showed and were expected to show, a value a setting, NaN where there is none."""
    rows = trail.query(
        "SELECT setting, layer, metric, value, expected FROM sweep_layer ORDER BY layer, metric, setting"
    ).fetchnumpy()
    return _columns(rows, "value", ids), _columns(rows, "expected", ids)


def _measured_before(trail: Trail, ids: Codes) -> dict[Metric, Values]:
    """What layers showed in another sweep at these settings, NaN where it has none."""
    rows = trail.query("SELECT setting, layer, metric, value FROM measured").fetchnumpy()
    known = np.isin(np.asarray(rows["setting"], np.int64), ids)
    return _columns({name: column[known] for name, column in rows.items()}, "value", ids)


def _expected_by(expect: str, spec: Spec, space: Space, codes: Codes) -> dict[Metric, Values]:
    """What another expectation has for each layer at these settings: a user's function, of a file in the working directory, or
    one by its name."""
    from iotrail.sweep.plan import expectations

    path = "--expect" if ".py:" in expect else spec.path
    found = expectations(replace(spec, expect=expect, path=path), space, codes)
    columns: dict[Metric, Values] = {}
    for at, code in enumerate(codes):
        for one in found[tuple(map(int, code))]:
            column = columns.setdefault((one.layer, one.metric), np.full(len(codes), np.nan))
            column[at] = one.value
    return columns


def _columns(rows: Mapping[str, Any], name: str, ids: Codes) -> dict[Metric, Values]:
    """A column of rows by setting, layer and metric: for each metric a value a setting, NaN where there is none."""
    columns: dict[Metric, Values] = {}
    at = np.searchsorted(ids, np.asarray(rows["setting"], np.int64))
    keys = np.array(
        [f"{layer}/{metric}" for layer, metric in zip(rows["layer"], rows["metric"], strict=True)]
    )
    values = _numbers(rows[name])
    for key in np.unique(keys):
        chosen = keys == key
        layer, metric = key.split("/", 1)
        column = np.full(len(ids), np.nan)
        column[at[chosen]] = values[chosen]
        columns[layer, metric] = column
    return columns


def _numbers(column: Any) -> Values:
    """A column of doubles, NaN for null."""
    return np.asarray(np.ma.filled(np.ma.asarray(column, float), np.nan), float)


def find(
    samples: Samples, name: str, *, method: str = "pursuit", threshold: float = 0.1, epsilon: float = 0.9
) -> Answer:
    """The clusters of a sweep's samples, whose trail has this name; `epsilon` is Algorithm 4.1's.

    Raises `SweepError` if nothing is expected of them.
    """
    known = samples.is_fitted
    if not known.any():
        raise SweepError(
            f"{name}: no setting has both a measured and an expected value",
            "name an expectation in the specification (expect = …), or another sweep with --compare"
            if samples.spec.expect is None
            else None,
        )
    codes, losses = samples.codes[known], samples.losses[known]
    least = -np.log1p(-threshold)
    uniform = samples.is_uniform
    # Algorithm 4.1 says no more of a box.
    clusters: list[tuple[Box, Cluster | None]]
    unproven = 0
    if method == "paper":
        clusters = [(box, None) for box in cover_anomalies(samples.space, codes, losses >= least, epsilon)]
    else:
        judged = judge_candidates(
            samples.space, codes, losses, threshold, uniform=uniform[known], pairs=samples.pairs
        )
        clusters = [(one.box, one) for one in judged if one.chance <= LEVEL]
        unproven = len(judged) - len(clusters)
    faces: list[list[Face]] = [[] for _ in clusters]
    if samples.pairs is not None and clusters:
        faces = judge(samples.space, [box for box, _ in clusters], samples.pairs)
    insides = [samples.space.contains(box, codes) for box, _ in clusters]
    outside = ~np.any(insides, axis=0) if insides else np.ones(len(codes), bool)
    return Answer(
        trail=name,
        reference=samples.reference,
        method=method,
        threshold=threshold,
        settings=len(samples.space.feasible),
        samples=int(known.sum()),
        uniform=int(uniform.sum()),
        confirming=int(((samples.purposes == CONFIRM) & ~np.isnan(samples.losses)).sum()),
        anomalous=int((losses >= least).sum()),
        unjudged=int((~np.isnan(samples.target_measured) & np.isnan(samples.target_expected)).sum()),
        states=samples.states,
        hidden=unseen_share(int(uniform.sum())),
        unproven=unproven,
        failing=_failing(samples),
        clusters=[
            _found(samples, box, cluster, losses, known, inside, outside, of)
            for (box, cluster), inside, of in zip(clusters, insides, faces, strict=True)
        ],
    )


def _failing(samples: Samples) -> list[Failing]:
    """Where measurements failed, by Algorithm 4.1: a failure has no size."""
    failed = np.isnan(samples.target_measured)
    left, found = np.ones(len(failed), bool), []
    for box in cover_anomalies(samples.space, samples.codes, failed, least=_FEWEST_FAILED):
        inside = samples.space.contains(box, samples.codes) & left
        left &= ~inside
        found.append(Failing(describe(samples.space, box), int((inside & failed).sum()), int(inside.sum())))
    return found


def _found(
    samples: Samples,
    box: Box,
    cluster: Cluster | None,
    losses: Values,
    known: Flags,
    inside: Flags,
    outside: Flags,
    faces: Sequence[Face],
) -> Found:
    space = samples.space
    below = [metric for metric in samples.metrics if metric[0] != APPLICATION and metric in samples.expected]
    bounds = describe(space, box)
    return Found(
        box=box,
        bounds=bounds,
        share=float(space.contains(box, space.feasible).mean()),
        samples=int(inside.sum()),
        uniform=int((inside & samples.is_uniform[known]).sum()),
        loss=cluster.loss if cluster else float(-np.expm1(-np.median(losses[inside]))),
        low=cluster.low if cluster else None,
        high=cluster.high if cluster else None,
        chance=cluster.chance if cluster else None,
        pairs=cluster.pairs if cluster else 0,
        faces=faces,
        smallest=describe_faces(space, cluster.smallest, bounds) if cluster else None,
        largest=describe_faces(space, cluster.largest, bounds) if cluster else None,
        layers=find_deviations(
            below,
            {metric: samples.measured[metric][known] for metric in below},
            {metric: samples.expected[metric][known] for metric in below},
            inside,
            outside,
        ),
    )
