"""Where a sweep's trail says that its system falls short: clusters, and the layers in which they leave the expectation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from iotrail.anomaly.algorithm import cover_anomalies
from iotrail.anomaly.describe import Bound, describe, describe_faces
from iotrail.anomaly.evidence import Cluster, find_clusters
from iotrail.anomaly.layers import Deviation, Metric, find_deviations
from iotrail.anomaly.space import Box, Codes, Flags, Space, Values
from iotrail.errors import SweepError, UsageError
from iotrail.expected.user import APPLICATION, load
from iotrail.sweep import spec as specs
from iotrail.sweep.sampling import unseen_share
from iotrail.sweep.spec import Spec
from iotrail.sweep.trail import SPECIFICATION, SPECIFICATION_PATH
from iotrail.trail import Trail

# Layers from the application down; others come after them, in the order of their names.
_ORDER = ("application", "prefetch", "scheduler", "device")


@dataclass(frozen=True)
class Samples:
    """The settings of a sweep: their ids and codes, what was measured of the target and expected, losses as
    log(expected / measured) (NaN where unknown), whether they were drawn uniformly, and what layers showed and were expected to; a value a sample."""

    spec: Spec
    space: Space
    ids: Codes
    codes: Codes
    target_measured: Values
    target_expected: Values
    losses: Values
    uniform: Flags
    states: Mapping[str, int]
    metrics: Sequence[Metric]
    measured: Mapping[Metric, Values]
    expected: Mapping[Metric, Values]
    # who says what is expected, in words
    reference: str


@dataclass(frozen=True)
class Found:
    """A cluster: its bounds in words, its share of all settings, how sure it is (None by Algorithm 4.1, which doesn't tell),
    and the metrics that have left the expectation, from the application down."""

    box: Box
    bounds: Sequence[Bound]
    share: float
    samples: int
    loss: float
    low: float | None
    high: float | None
    chance: float | None
    smallest: Sequence[Bound] | None
    largest: Sequence[Bound] | None
    layers: Sequence[Deviation]


@dataclass(frozen=True)
class Answer:
    """All clusters of a sweep, and what they rest on: uniform samples with a known loss, of them `anomalous` at least the
    threshold; `hidden` is the share of settings that a zone may have without a sample in it (95 %)."""

    trail: str
    reference: str
    method: str
    threshold: float
    settings: int
    samples: int
    anomalous: int
    states: Mapping[str, int]
    hidden: float
    clusters: Sequence[Found]

    def json(self) -> dict[str, Any]:
        """The same as plain data."""
        answer = asdict(self)
        for cluster in answer["clusters"]:
            del cluster["box"]
        return answer


def read(trail: Trail, compare: Trail | None = None, expect: str | None = None) -> Samples:
    """The samples of a sweep's trail; with `compare` what is expected of each setting is what that sweep measured there, with
    `expect` what that "FILE.py:FUNCTION" returns.

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
        "SELECT setting, value, expected, log_loss, purpose = 'uniform' AS uniform, state FROM sweep_sample ORDER BY setting"
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
    return Samples(
        spec=spec,
        space=space,
        ids=ids,
        codes=codes,
        target_measured=target_measured,
        target_expected=target_expected,
        losses=losses,
        uniform=np.asarray(rows["uniform"], bool),
        states=dict(Counter(map(str, rows["state"]))),
        metrics=sorted(measured, key=_place),
        measured=measured,
        expected=expected,
        reference=reference,
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


def _expected_by(where: str, spec: Spec, space: Space, codes: Codes) -> dict[Metric, Values]:
    """What a user's function, of a file in the working directory, expects of each layer at these settings."""
    expect = load(where, "--expect", spec.target.metric)
    columns: dict[Metric, Values] = {}
    for at, code in enumerate(codes):
        for one in expect(space.setting(code)):
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
    known = samples.uniform & ~np.isnan(samples.losses)
    if not known.any():
        raise SweepError(
            f"{name}: no setting has both a measured and an expected value",
            "name an expectation in the specification (expect = …), or another sweep with --compare"
            if samples.spec.expect is None
            else None,
        )
    codes, losses = samples.codes[known], samples.losses[known]
    least = -np.log1p(-threshold)
    # Algorithm 4.1 says no more of a box.
    clusters: list[tuple[Box, Cluster | None]]
    if method == "paper":
        clusters = [(box, None) for box in cover_anomalies(samples.space, codes, losses >= least, epsilon)]
    else:
        clusters = [(one.box, one) for one in find_clusters(samples.space, codes, losses, threshold)]
    insides = [samples.space.contains(box, codes) for box, _ in clusters]
    outside = ~np.any(insides, axis=0) if insides else np.ones(len(codes), bool)
    return Answer(
        trail=name,
        reference=samples.reference,
        method=method,
        threshold=threshold,
        settings=len(samples.space.feasible),
        samples=int(known.sum()),
        anomalous=int((losses >= least).sum()),
        states=samples.states,
        hidden=unseen_share(int(known.sum())),
        clusters=[
            _found(samples, box, cluster, losses, known, inside, outside)
            for (box, cluster), inside in zip(clusters, insides, strict=True)
        ],
    )


def _found(
    samples: Samples,
    box: Box,
    cluster: Cluster | None,
    losses: Values,
    known: Flags,
    inside: Flags,
    outside: Flags,
) -> Found:
    space = samples.space
    below = [metric for metric in samples.metrics if metric[0] != APPLICATION and metric in samples.expected]
    bounds = describe(space, box)
    return Found(
        box=box,
        bounds=bounds,
        share=float(space.contains(box, space.feasible).mean()),
        samples=int(inside.sum()),
        loss=cluster.loss if cluster else float(-np.expm1(-np.median(losses[inside]))),
        low=cluster.low if cluster else None,
        high=cluster.high if cluster else None,
        chance=cluster.chance if cluster else None,
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
