"""The requests of two trails compared: which parts and steps of their paths came, went, or take longer.

Requests of one kind (component, operation) are compared with each other. Three questions are asked of each kind:

- **parts** (`flow.Part`): is something done more or less often a request? Of what came or went with the work that it
  stands below, only that work is named.
- **steps** from one point to the next: do they take longer? Requests are compared with those whose paths have the same
  shape, so that more misses don't look like slower reads; those of shapes that only one run has, or that are rare,
  with each other. What their steps differ by is weighed by B's numbers.
- **shapes**: does another share of the requests go this way?

Tests are those of `noise`: series in order of time, whose slow drift is their error. What a difference adds to the
time of all requests counts only as often as replies waited for it: its share of critical paths in B.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from iotrail.diff import noise
from iotrail.diff.difference import Difference
from iotrail.diff.flow import SLICES, Flow, Part, Step
from iotrail.diff.noise import Estimate, Series

# Fewer timings than this on one side say nothing of a step's time: noise.mean needs some slow waves.
LEAST_TIMED = 16
# A shape with so many requests on both sides is compared on its own: one a slice.
LEAST_OF_SHAPE = SLICES
# What adds less than this share of A's time of requests is not worth a line (as in `compare`).
MIN_ADDED = 0.001
# Number of a part per the work it belongs to, relative: within it, the part came or went with that work.
ALIKE = 0.05
# Requests of all shapes that aren't compared on their own.
_REST = 0


@dataclass
class FlowDifference(Difference):
    """A comparison about the requests of one kind (`subject`). `metric`: request, part, step or shape."""

    # how often B has it: what `each_ns` is added to
    times: int = 0
    # what it adds to each, ns; of a part what one takes
    each_ns: float = 0.0
    # how many replies waited for each, on average: more than 1 where several requests share one
    awaited: float = 1.0
    # mean, p50, p99 of a step's time in A and in B, ns
    figures: tuple[tuple[int | None, ...], tuple[int | None, ...]] | None = None
    # a request that shows it: "a" or "b", machine, breadcrumb
    example: tuple[str, str, int] | None = None
    # A's and B's figure in slices of equal numbers, in order of time: for drawing
    series: tuple[Series, Series] | None = field(default=None, repr=False, compare=False)


@dataclass
class Kind:
    """Requests of one kind in both runs; times in ns, None without replies."""

    component: str
    op: str
    a: int
    b: int
    mean_a: float | None
    mean_b: float | None

    @property
    def name(self) -> str:
        return f"{self.component} {self.op}"


@dataclass
class FlowComparison:
    """What `iotrail diff --requests` says."""

    a: str
    b: str
    min_effect: float
    false_discoveries: float
    # ns until their replies, of all requests of A
    time_a: int
    # of how many seconds the requests are, where a trail has a sample of them; 0 all
    sampled_seconds: tuple[int, int] = (0, 0)
    kinds: list[Kind] = field(default_factory=list)
    # what is more than noise first, by what it adds
    differences: list[FlowDifference] = field(default_factory=list)

    @property
    def found(self) -> list[FlowDifference]:
        """Differences that are more than noise, ranked."""
        return [d for d in self.differences if d.significant]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: infinite bounds are null."""
        return {
            "a": self.a,
            "b": self.b,
            "min_effect": self.min_effect,
            "false_discoveries": self.false_discoveries,
            "time_a_ns": self.time_a,
            "sampled_seconds": {"a": self.sampled_seconds[0] or None, "b": self.sampled_seconds[1] or None},
            "kinds": [asdict(kind) for kind in self.kinds],
            "found": [_finite(d) for d in self.found],
            "not_shown_to_be_more_than_noise": [_finite(d) for d in self.differences if not d.significant],
        }


@dataclass
class Compared:
    """The comparisons of one kind of requests; those of parts once more, by part, and which parts there are."""

    differences: list[FlowDifference]
    of_part: dict[int, FlowDifference]
    parts: dict[int, Part]


def compare_kind(name: str, a: Flow, b: Flow) -> Compared:
    """Every comparison of the requests of one kind, not judged yet."""
    slices = min(SLICES, a.requests, b.requests)
    parts_a, shapes_a, whole_a = a.per_request(slices)
    parts_b, shapes_b, whole_b = b.per_request(slices)
    nothing = np.zeros(slices)
    of_part, of_shape = {}, []
    for part in sorted(parts_a.keys() | parts_b.keys()):
        in_a, in_b = parts_a.get(part, nothing), parts_b.get(part, nothing)
        of_part[part] = _part(name, part, a, b, _rate(in_a, whole_a, in_b, whole_b))
        of_part[part].series = in_a / whole_a, in_b / whole_b
    for shape in sorted(shapes_a.keys() | shapes_b.keys()):
        in_a, in_b = shapes_a.get(shape, nothing), shapes_b.get(shape, nothing)
        of_shape.append(_shape(name, shape, a, b, _rate(in_a, whole_a, in_b, whole_b)))
        of_shape[-1].series = in_a / whole_a, in_b / whole_b
    differences = [*_request(name, a, b), *of_part.values(), *of_shape, *_steps(name, a, b)]
    return Compared(differences, of_part, a.parts | b.parts)


def judge(result: FlowComparison) -> None:
    """Say which differences are more than noise, and rank them."""
    differences = result.differences
    tested = [d for d in differences if d.p is not None]
    for d, q in zip(tested, noise.discoveries([d.p or 0.0 for d in tested]), strict=True):
        d.q = q
        large = abs(d.effect) >= result.min_effect
        if d.metric == "step":
            large &= abs(d.each_ns * d.times) >= MIN_ADDED * result.time_a
        elif d.metric == "shape":
            large |= not d.a or not d.b
        d.significant = large and q <= result.false_discoveries
    slower = sum(d.added_ns or 0 for d in differences if d.metric == "request") >= 0
    differences.sort(key=lambda d: _rank(d, slower))


def fold(compared: Compared) -> None:
    """Leave of parts that came or went together with the work they belong to only that work."""
    changed = {part: d for part, d in compared.of_part.items() if d.significant}
    came: dict[int, list[str]] = {}
    for part, difference in changed.items():
        outermost, owner = None, compared.parts[part].owner
        while owner in changed and _together(difference, changed[owner]):
            outermost, owner = owner, compared.parts[owner].owner
        if outermost is not None:
            difference.significant = False
            difference.note = f"came or went with {compared.parts[outermost]}"
            came.setdefault(outermost, []).append(compared.parts[part].label)
    for part, labels in came.items():
        changed[part].note = f"with {', '.join(sorted(labels))}"


def _together(part: FlowDifference, above: FlowDifference) -> bool:
    """Whether there are as many of a part per the work it belongs to as before, or the work is only in one run."""
    if not above.a or not above.b:
        return True
    before, after = part.a / above.a, part.b / above.b
    return abs(after - before) <= ALIKE * max(before, after)


def _request(name: str, a: Flow, b: Flow) -> list[FlowDifference]:
    series_a, series_b = a.durations(), b.durations()
    if not len(series_a) or not len(series_b):
        return []
    slices = min(len(series_a), len(series_b))
    times = b.requests - b.graph.unfinished
    estimate = noise.mean(resampled(series_b, slices) - resampled(series_a, slices))
    difference = _timed("request", name, "", float(series_a.mean()), estimate, times, 1.0)
    difference.series = series_a, series_b
    return [difference]


def _steps(name: str, a: Flow, b: Flow) -> list[FlowDifference]:
    alone = {
        shape
        for shape in a.shapes.keys() & b.shapes.keys()
        if min(a.shapes[shape].count, b.shapes[shape].count) >= LEAST_OF_SHAPE
    }
    strata = {shape: n for n, shape in enumerate(sorted(alone), start=_REST + 1)}
    of_a, of_b = (flow.steps({s: strata.get(s, _REST) for s in flow.shapes}) for flow in (a, b))
    found = []
    for step in sorted(of_a.keys() & of_b.keys()):
        both = [
            (*of_a[step][stratum], *of_b[step][stratum])
            for stratum in sorted(of_a[step].keys() & of_b[step].keys())
            if min(of_a[step][stratum][0], of_b[step][stratum][0]) >= LEAST_TIMED
        ]
        if not both:
            continue
        slices = min(min(len(x), len(y)) for _, x, _, y in both)
        times = sum(n for _, _, n, _ in both)
        time_a, time_b, before = np.zeros(slices), np.zeros(slices), 0.0
        for _, x, n, y in both:
            time_a += n / times * resampled(x, slices)
            time_b += n / times * resampled(y, slices)
            before += n / times * float(x.mean())
        edge = b.edges[step]
        difference = _timed(
            "step", name, _named(step), before, noise.mean(time_b - time_a), times, edge.critical / edge.count
        )
        difference.figures = tuple(  # type: ignore[assignment]
            (e.mean_ns, e.p50_ns, e.p99_ns) for e in (a.edges[step], edge)
        )
        difference.series = time_a, time_b
        found.append(difference)
    return found


def _timed(
    metric: str, name: str, what: str, before: float, estimate: Estimate, times: int, awaited: float
) -> FlowDifference:
    base, scale = before or math.inf, times * awaited
    effect = estimate.value / base if before else math.inf if estimate.value else 0.0
    low, high = estimate.low / base, estimate.high / base
    difference = FlowDifference(
        metric, name, what, "", "ns", before, before + estimate.value, effect, low, high, estimate.p
    )
    difference.times, difference.each_ns, difference.awaited = times, estimate.value, awaited
    difference.added_ns = estimate.value * scale
    difference.added_low, difference.added_high = estimate.low * scale, estimate.high * scale
    return difference


def _part(name: str, part: int, a: Flow, b: Flow, rate: Estimate) -> FlowDifference:
    in_a, in_b = a.parts.get(part), b.parts.get(part)
    per_a, per_b = ((p.count if p else 0) / f.requests for p, f in ((in_a, a), (in_b, b)))
    # what came takes what it takes in B, what went what it took in A
    more = per_b >= per_a
    shown: Part = (in_b if more else in_a) or in_a or in_b  # type: ignore[assignment]
    base = per_a or math.inf
    effect = per_b / per_a - 1 if per_a else math.inf
    difference = FlowDifference(
        "part",
        name,
        str(shown),
        "",
        "a request",
        per_a,
        per_b,
        effect,
        rate.low / base,
        rate.high / base,
        rate.p,
    )
    difference.awaited = (b if more else a).awaited.get(shown.label, 0.0)
    difference.times, difference.each_ns = b.requests, shown.mean_ns
    scale = b.requests * shown.mean_ns * difference.awaited
    difference.added_ns = (per_b - per_a) * scale
    difference.added_low, difference.added_high = rate.low * scale, rate.high * scale
    return difference


def _shape(name: str, shape: int, a: Flow, b: Flow, rate: Estimate) -> FlowDifference:
    in_a, in_b = a.shapes.get(shape), b.shapes.get(shape)
    share_a, share_b = ((s.count if s else 0) / f.requests for s, f in ((in_a, a), (in_b, b)))
    effect = share_b - share_a
    difference = FlowDifference(
        "shape", name, "", "", "share", share_a, share_b, effect, rate.low, rate.high, rate.p
    )
    flow, where, shown = (b, "b", in_b) if in_b else (a, "a", in_a)
    assert shown is not None
    difference.part = _described(shape, flow, a)
    difference.times = in_b.count if in_b else 0
    difference.example = (where, *shown.example)
    return difference


def _described(shape: int, flow: Flow, a: Flow) -> str:
    """A shape by what sets it apart from the most frequent one of A."""
    usual = next(iter(a.shapes))
    if shape == usual:
        return "the usual path of A"
    own, others, parts = flow.parts_of(shape), a.parts_of(usual), a.parts | flow.parts
    words = []
    for word, apart in (("with", own - others), ("without", others - own)):
        outermost = sorted(str(parts[p]) for p in apart if parts[p].owner not in apart)
        if outermost:
            words.append(f"{word} {', '.join(outermost)}")
    return "; ".join(words)


def _rate(a: Series, whole_a: Series, b: Series, whole_b: Series) -> Estimate:
    """The difference of how many there are a request. What is in too few slices to show a rate over time is judged
    as independent events, given how many requests each run has (the conditional binomial test of two Poisson counts;
    Przyborowski and Wilenski, Biometrika 31, 1940)."""
    if min(noise.occupied(a), noise.occupied(b)) >= noise.LEAST_OCCUPIED and len(a) > 1:
        return noise.share(a, whole_a, b, whole_b)
    first, second = float(a.sum()), float(b.sum())
    requests_a, requests_b = float(whole_a.sum()), float(whole_b.sum())
    value = second / requests_b - first / requests_a
    both = stats.binomtest(round(second), round(first + second), requests_b / (requests_a + requests_b))
    interval = both.proportion_ci(noise.CONFIDENCE)
    low, high = (
        (first + second) * (share / requests_b - (1 - share) / requests_a)
        for share in (float(interval.low), float(interval.high))
    )
    return Estimate(value, low, high, float(both.pvalue))


def resampled(series: Series, slices: int) -> Series:
    """A series of equal slices as one of fewer: what a new slice covers of old ones counts by that part."""
    if len(series) == slices:
        return series
    total = np.concatenate(([0.0], np.cumsum(series))) / len(series)
    at = np.interp(np.linspace(0, 1, slices + 1), np.linspace(0, 1, len(series) + 1), total)
    return np.asarray(np.diff(at) * slices, dtype=float)


def _named(step: Step) -> str:
    source, target, kind = step
    return f"{source} {kind[-1]} {target}"


def _rank(difference: FlowDifference, slower: bool) -> tuple[object, ...]:
    """Proven ones first; a whole kind's time after what it is made of; what has no time last."""
    added = difference.added_ns
    group = 2 if added is None else 1 if difference.metric == "request" else 0
    size = -(added or 0) if slower else (added or 0)
    return not difference.significant, group, size, -abs(difference.effect), difference.name


def _finite(difference: FlowDifference) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(difference).items()
        if name != "series"
    }
