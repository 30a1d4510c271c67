"""`iotrail model check`: how close a model's requests are to those of a trail. `iotrail model diff`: to those of another model.

Both are described by one program (crates/model/src/describe.rs) and run on one simulated device. Beside each deviation stand
that of the trail's halves from each other, which no model of the whole can be held to beat, and that of requests that have
only the trail's aggregates (`aggregates`), which a model must beat to be worth its bytes. Of two models the first one takes the
trail's place, and further draws of it that of the halves; a baseline there is none.
"""

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from iotrail import units
from iotrail.errors import ModelError
from iotrail.model.aggregates import draw_aggregates
from iotrail.model.figures import Description, Kind, Measure, magnitude, measures
from iotrail.model.fit import Model, draw, written
from iotrail.model.source import OF_DISKS, Source, expect_alike, expect_disks, source_of
from iotrail.trail import Trail
from iotrail.whatif.cache import check_node
from iotrail.whatif.simulator import ask_of

_BATCH = 1 << 17
# Requests from which on a noise floor is told; halves of fewer say nothing.
_LEAST_WITH_NOISE = 100
# Draws of a first model whose furthest is the noise: one pair of draws is as often further apart than another as nearer.
_DRAWS_OF_NOISE = 4
# Devices of a map of offsets: the lines of more can't be told apart, and their reaches are too long for a command line.
_MOST_MAPPED = 1000
# A deviation that is smaller than this isn't marked, however steady the trail is.
ALLOWED = 0.05

Range = tuple[float, float]
# Called before each step with its name, and how many steps are done and there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Figure:
    """One figure of all workloads. None is unknown.

    A deviation is relative to the original's value, or, by `kind`, the difference of two shares, or a distance. Values are in
    `unit`: "ns", "bytes", "1/s", "share" (of 1), or "" of numbers.
    """

    section: str
    key: str
    name: str
    unit: str
    kind: Kind
    original: float | None
    # medians over the seeds, and from the least to the most: None of one seed
    synthetic: float | None
    synthetic_range: Range | None
    deviation: float | None
    deviation_range: Range | None
    # how far the trail's halves are from each other, or further draws of the first model from its first one at most (`magnitude`)
    noise: float | None
    # requests with the trail's aggregates only; None of two models
    baseline: float | None
    baseline_deviation: float | None
    # whether the deviation's magnitude is larger than the noise and than ALLOWED; None where one of both is unknown
    beyond: bool | None


@dataclass(frozen=True)
class Check:
    """All figures, and what each workload is like. `draws` are those of each seed; `baseline` is None of two models."""

    figures: list[Figure]
    original: Description
    draws: list[Description]
    baseline: Description | None
    # where the addresses of each device end, of the original and the synthetic requests
    reaches_bytes: list[int]
    has_noise: bool
    on: str | None

    @property
    def synthetic(self) -> Description:
        """What the draw of the first seed is like."""
        return self.draws[0]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: figures, and the curves that the page draws."""
        workloads = {"original": self.original, "synthetic": self.synthetic, "baseline": self.baseline}
        sides = {name: _series(one) for name, one in workloads.items() if one is not None}
        return {"on": self.on, "figures": [asdict(each) for each in self.figures], "series": sides}

    def as_diff(self) -> dict[str, Any]:
        """For JSON of two models: `a` and `b` instead of `original` and `synthetic`, and no baseline."""
        names = {"original": "a", "synthetic": "b", "synthetic_range": "b_range"}
        found = self.as_dict()
        figures = [
            {names.get(key, key): value for key, value in each.items() if not key.startswith("baseline")}
            for each in found["figures"]
        ]
        series = {names[name]: curves for name, curves in found["series"].items()}
        return {**found, "figures": figures, "series": series}


def _series(one: Description) -> dict[str, Any]:
    uses, over_time = one["uses"], one["over_time"]
    return {
        "gap_buckets_ns": one["gap_buckets"],
        "dispersion": one["dispersion"],
        "lru_miss_ratios": [[pages, misses / uses if uses else None] for pages, misses in one["lru"]],
        "slice_ns": over_time["length_ns"] / len(over_time["requests"]),
        "requests_in_slices": over_time["requests"],
    }


def check(
    model: Model,
    trail: Trail,
    *,
    seed: int,
    seeds: int = 1,
    on: str | None = None,
    node: str | None = None,
    progress: Progress = lambda *_: None,
) -> Check:
    """All figures, with response times on a device if one is named.

    Raises:
        TrailError: there are no requests with a known time and place.
        ModelError: there is only one, or the trail has more devices than the model.
        UsageError: there is no such machine, or a device is named and the model is one of files.
        SimulationError: a device file is wrong.
    """
    check_node(trail, node)
    if on is not None:
        expect_disks(model, "--on")
    original = read_requests(trail, source_of(model, node))
    _refuse(model, trail, original)
    with written(model) as path:
        halves = original.slice(0, len(original) // 2), original.slice(len(original) // 2)
        return _compare(
            _Requests.given("original", original),
            [
                _Requests(
                    "synthetic" if number == 0 else f"seed {seed + number}",
                    partial(draw_requests, path, seed + number),
                )
                for number in range(seeds)
            ],
            noise=[_Requests.given("first half", halves[0]), _Requests.given("second half", halves[1])],
            baseline=lambda reaches: draw_aggregates(original, reaches, seed),
            model=path,
            on=on,
            progress=progress,
        )


def diff(
    first: Model,
    second: Model,
    *,
    seed: int,
    seeds: int = 1,
    on: str | None = None,
    progress: Progress = lambda *_: None,
) -> Check:
    """All figures of the requests of a second model beside those of a first one, which are `original`. What is within the
    difference of draws of the first says nothing.

    Raises:
        ModelError: a model draws too few requests, or one is of disks and one of files.
        UsageError: a device is named and the models are of files.
        SimulationError: a device file is wrong.
    """
    expect_alike((first, second))
    if on is not None:
        expect_disks(first, "--on")
    with written(first) as path, written(second) as other, written(_grid(first, second)) as grid:
        for name, model in (("first", first), ("second", second)):
            if (count := sum(model["rate"]["counts"])) < 2:
                raise ModelError(
                    f"the {name} model: expected 2 requests or more, found {count}",
                    "times between arrivals and rates take two: fit it to a longer trail",
                )
        return _compare(
            _Requests("A", partial(draw_requests, path, seed)),
            [
                _Requests(f"B, seed {seed + number}", partial(draw_requests, other, seed + number))
                for number in range(seeds)
            ],
            noise=[
                _Requests(f"A, seed {seed + number}", partial(draw_requests, path, seed + number))
                for number in range(1, 1 + _DRAWS_OF_NOISE)
            ],
            baseline=None,
            model=grid,
            on=on,
            progress=progress,
        )


def compare_requests(
    model: Model,
    original: pa.Table,
    others: Sequence[pa.Table],
    *,
    noise: pa.Table | None = None,
    on: str | None = None,
    progress: Progress = lambda *_: None,
) -> Check:
    """All figures of other requests beside those of `original`, both with the columns of `read_requests`. What is within the
    difference of `noise` from the original says nothing; without there is no noise floor. `model` has the states of the
    transitions and at least as many devices as the requests.

    Raises:
        SimulationError: a device file is wrong.
    """
    with written(model) as path:
        return _compare(
            _Requests.given("original", original),
            [_Requests.given(f"{number}", other) for number, other in enumerate(others)],
            noise=[] if noise is None else [_Requests.given("noise", noise)],
            baseline=None,
            model=path,
            on=on,
            progress=progress,
        )


def _grid(first: Model, second: Model) -> Model:
    """A model that is not drawn from: with the states in which transitions of both are counted, up to the larger ends."""
    wider, other = (first, second) if len(first["devices"]) >= len(second["devices"]) else (second, first)
    reaches = _most_of_each(*([each["reach_bytes"] for each in model["devices"]] for model in (wider, other)))
    devices = [
        {**device, "reach_bytes": reach} for device, reach in zip(wider["devices"], reaches, strict=True)
    ]
    return {**wider, "devices": devices}


@dataclass(frozen=True)
class _Requests:
    """Where requests come from."""

    name: str
    read: Callable[[], pa.Table]

    @classmethod
    def given(cls, name: str, table: pa.Table) -> "_Requests":
        """Those of a table."""
        return cls(name, lambda: table)


def _compare(
    original: _Requests,
    synthetic: Sequence[_Requests],
    *,
    noise: Sequence[_Requests],
    baseline: Callable[[list[int]], pa.Table] | None,
    model: Path,
    on: str | None,
    progress: Progress,
) -> Check:
    """All figures. `noise` are halves of the original, or, without a baseline, others that are compared with it; `baseline` makes
    requests from the ends of addresses; `model` has the states of the transitions."""
    requests = original.read()
    has_noise = len(requests) >= _LEAST_WITH_NOISE
    workloads = 1 + len(synthetic) + (baseline is not None) + len(noise) * has_noise
    asked = _Asked(model, on, progress, workloads)
    drawn = synthetic[0].read()
    reaches = reaches_of(requests)
    # one grid for what is drawn over time and addresses
    length_ns = max(_length_ns(requests), _length_ns(drawn))
    drawn_to = _most_of_each(reaches, reaches_of(drawn))
    described = asked.describe(original.name, requests, None, length_ns, drawn_to)
    pages = described["pages"]
    others = [asked.describe(synthetic[0].name, drawn, pages, length_ns, drawn_to)]
    del drawn
    for source in synthetic[1:]:
        others.append(asked.describe(source.name, source.read(), pages, length_ns, drawn_to))
    aggregates = None
    if baseline is not None:
        aggregates = asked.describe("aggregates", baseline(reaches), pages, length_ns, drawn_to)
    first = described if baseline is None else None
    twins: list[tuple[Description, Description]] = []
    for source in noise if has_noise else ():
        one = asked.describe(source.name, source.read(), first["pages"] if first else None)
        if first is None:
            first = one
        else:
            twins.append((first, one))
    figures = [_figure(measure, described, others, aggregates, twins) for measure in measures(described, on)]
    return Check(figures, described, others, aggregates, drawn_to, has_noise, on)


def describe_runs(model: Model, trails: Sequence[Trail]) -> tuple[list[Description], list[int]]:
    """What the requests of trails are like, on the grid of the first one, and the reaches of that grid.

    Raises:
        TrailError: there are no requests with a known time and place.
        ModelError: there is only one, or a trail has more devices than the model.
    """
    tables = []
    for trail in trails:
        tables.append(read_requests(trail, source_of(model, None)))
        _refuse(model, trail, tables[-1])
    reaches = functools.reduce(_most_of_each, map(reaches_of, tables))
    length_ns = max(map(_length_ns, tables))
    described: list[Description] = []
    with written(model) as path:
        asked = _Asked(path, None, lambda *_: None, workloads=len(tables))
        for trail, table in zip(trails, tables, strict=True):
            pages = described[0]["pages"] if described else None
            described.append(asked.describe(str(trail.path), table, pages, length_ns, reaches))
    return described, reaches


def read_requests(trail: Trail, source: Source = OF_DISKS) -> pa.Table:
    """The requests of a trail's disks or files in their order, with the columns that the simulator takes; without response times.

    Raises:
        TrailError: there are none with a known time and place.
    """
    query = source.query(trail)
    with trail.errors(query):
        return _numbered(trail.query(query).to_arrow_reader(_BATCH).read_all())


def _refuse(model: Model, trail: Trail, original: pa.Table) -> None:
    if len(original) < 2:
        raise ModelError(
            f"{trail.path}: expected 2 requests or more with a known place, found {len(original)}",
            "times between arrivals and rates take two: check against the trail that the model was fitted to",
        )
    found, known = len(pc.unique(original["device"])), len(model["devices"])
    if found > known:
        raise ModelError(
            f"{trail.path}: expected requests of {units.counted(known, 'device')}, as the model has, found {found}",
            "check against the trail that the model was fitted to, with the same --node",
        )


@dataclass
class _Asked:
    """Descriptions of requests, one after the other."""

    model: Path
    on: str | None
    progress: Progress
    workloads: int
    done: int = 0

    def describe(
        self,
        name: str,
        table: pa.Table,
        pages: int | None,
        length_ns: int | None = None,
        reaches: Sequence[int] | None = None,
    ) -> Description:
        """What requests are like; caches have sizes for `pages` different pages."""
        words = ["model", "describe", "--model", str(self.model)]
        words += [] if pages is None else ["--pages", str(pages)]
        words += [] if length_ns is None else ["--length-ns", str(length_ns)]
        has_map = reaches is not None and len(reaches) <= _MOST_MAPPED
        words += ["--reaches", ",".join(map(str, reaches or []))] if has_map else []
        self._step(f"describing {name}")
        described: Description = ask_of(table.to_reader(_BATCH), words)
        if self.on is not None:
            self._step(f"simulating {name}")
            described["response"] = _respond(table, self.on)
        return described

    def _step(self, name: str) -> None:
        self.progress(name, self.done, self.workloads * (1 if self.on is None else 2))
        self.done += 1


def _respond(table: pa.Table, on: str) -> Description:
    """Response times by operation, ns, and utilisation, of requests that come at their times."""
    found = ask_of(table.to_reader(_BATCH), ["simulate", "device", "--on", on, "--fold"])
    outcome = found["simulated"][0]["arrivals_recorded"]
    return {"times": {each["op"]: each for each in outcome["times"]}, "utilisation": outcome["utilisation"]}


def _numbered(recorded: pa.Table) -> pa.Table:
    """Requests of a trail with numbers for devices, as a model gives them: in the order of their first requests. Response times
    are left out: the simulator would also answer how long requests take that wait for each other."""
    devices = pa.concat_arrays(recorded["device"].chunks or [pa.array([], pa.int64())])
    return pa.table(
        {
            "ts": recorded["ts"],
            "dur": pa.nulls(len(recorded), pa.int64()),
            "device": devices.dictionary_encode().indices.cast(pa.int64()),
            **{name: recorded[name] for name in ("op", "pos", "length", "flags")},
        }
    )


def draw_requests(path: Path, seed: int) -> pa.Table:
    """A model file's requests with the columns of `read_requests`.

    Raises:
        ModelError: there are none.
    """
    with draw(path, seed=seed) as batches:
        found = list(batches)
    if not found:
        raise ModelError(
            f"the model draws no requests with seed {seed}", "iotrail model show prints what it holds"
        )
    drawn = pa.Table.from_batches(found)
    return pa.table(
        {
            "ts": drawn["ts"],
            "dur": pa.nulls(len(drawn), pa.int64()),
            **{name: drawn[name] for name in ("device", "op", "pos", "length")},
            "flags": pc.multiply(drawn["op"], 0),
        }
    )


def _length_ns(table: pa.Table) -> int:
    return int(table["ts"][-1].as_py()) - int(table["ts"][0].as_py())


def reaches_of(table: pa.Table) -> list[int]:
    """Where the addresses of each device end, by its number; 0 of one without requests."""
    ends = pc.add(table["pos"].cast(pa.uint64()), table["length"].cast(pa.uint64()))
    rows = pa.table({"device": table["device"], "end": ends}).group_by("device").aggregate([("end", "max")])
    reaches: dict[int, int] = dict(
        zip(*(rows.to_pydict()[name] for name in ("device", "end_max")), strict=True)
    )
    return [reaches.get(number, 0) for number in range(max(reaches) + 1)]


def _most_of_each(one: list[int], other: list[int]) -> list[int]:
    longer, shorter = sorted((one, other), key=len, reverse=True)
    return [*map(max, longer, shorter), *longer[len(shorter) :]]


def _figure(
    measure: Measure,
    original: Description,
    synthetic: list[Description],
    baseline: Description | None,
    twins: list[tuple[Description, Description]],
) -> Figure:
    def value(one: Description) -> float | None:
        return None if measure.value is None else measure.value(one)

    synthetic_values = [value(one) for one in synthetic]
    deviations = [measure.distance(original, one) for one in synthetic]
    floors = (magnitude(measure.kind, measure.distance(*pair)) for pair in twins)
    noise = max((floor for floor in floors if floor is not None), default=None)
    deviation = _median(deviations)
    return Figure(
        measure.section,
        measure.key,
        measure.name,
        measure.unit,
        measure.kind,
        value(original),
        _median(synthetic_values),
        _range(synthetic_values),
        deviation,
        _range(deviations),
        noise,
        None if baseline is None else value(baseline),
        None if baseline is None else measure.distance(original, baseline),
        _is_beyond(measure.kind, deviation, noise),
    )


def _is_beyond(kind: Kind, deviation: float | None, noise: float | None) -> bool | None:
    if deviation is None or noise is None:
        return None
    size = magnitude(kind, deviation)
    # nothing is left of it
    return True if size is None else size > max(noise, ALLOWED)


def _median(values: Sequence[float | None]) -> float | None:
    """Of those known. One value keeps its type."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(values) > 1 and known else None
