"""How long calls and runs take: which differences are more than what runs of one program differ by.

Three figures of a call: the mean of all but its slowest 5 % (`call_slice`), of its fastest tenth (`call_fast`), of its
slowest 5 %. What a call has to wait for (a journal's commit that a neighbour began, a busy disk) changes the first
several-fold from run to run and hardly the second, so that a small delay added to every call shows in the second.

What slows a whole machine for a whole run (its clock, a neighbour) shows in every call alike. So each call is judged
against the change that is common to the other frequent calls, the median of their logarithmic changes, wherever that
explains how calls vary; the common change is a comparison of its own. A call found to differ no longer speaks.

With several runs a side, `between` judges. One run each shows only how a run varies inside, by slices that did the same
work (`noise.mean`); runs differ by more than that. So the change must exceed, by what the slices tell, what equal runs may
differ by (`PLAUSIBLE`); everything smaller is left open.
"""

import math
from collections.abc import Collection, Mapping

import numpy as np

from iotrail.diff import noise
from iotrail.diff.between import Sample, Usual, compare_means, usual
from iotrail.diff.difference import UNKNOWN, Difference
from iotrail.diff.noise import Estimate, Series
from iotrail.diff.run import SLICES, Run, Sides

EVERY_CALL = "every call"
BODY, FAST, TAIL = "all but the slowest 5 %", "the fastest tenth", "the slowest 5 %"
# Calls that speak for the machine: this many besides the one that is judged.
LEAST_REFERENCES = 3
# Calls of each run that make a fastest tenth, and that let a call speak for the machine.
LEAST_FAST = 100
# Slices that show how much a figure varies inside of a run.
LEAST_SLICES = 8
# Factors by which equal runs may differ beside what they show inside: mean of all but the slowest and run time (a
# journal shared with neighbours: open on ext4 varied by a factor of 2, one standard deviation), fastest tenth (pairs
# differed by up to 1.6; bench/diff.py).
PLAUSIBLE, PLAUSIBLE_FAST = 8.0, 2.0
# Standard deviation between runs, of logarithms, that speaks as one more call (bench/diff.py).
TYPICAL = {BODY: 0.1, FAST: 0.06, TAIL: 0.5}
# Of the median change of all calls, and of the run time: there is only one of each.
TYPICAL_RUN = Usual(0.1, 2.0)
# Amounts of work that differ by less are the same work: what is done of it a second is then told by the run time.
SAME_WORK = 0.01


def compare_run_time(sides: Sides) -> Difference:
    """How long the runs took."""
    times = [float(max(run.duration, 1)) for run in sides.runs]
    names = ("run time", "run time", "", "", "ns")
    if sides.several:
        return _of_logarithms(names, _sample(sides, np.log(times), 0.0), TYPICAL_RUN)
    a, b = sides.runs
    slices = min(len(a.clock), len(b.clock)) - 1
    beyond = (PLAUSIBLE - 1) * min(times) / slices
    estimate = noise.mean(_steps(b.clock, slices) - _steps(a.clock, slices), beyond).scaled(slices)
    return Difference(
        *names, times[0], times[1], estimate.value / times[0], estimate.low / times[0], estimate.high / times[0],
        estimate.p, runs_a=times[:1], runs_b=times[1:],
    )  # fmt: skip


def _steps(clock: Series, slices: int) -> Series:
    """How long each of so many slices of the work took."""
    return np.diff(clock[:: (len(clock) - 1) // slices])


def compare_latencies(sides: Sides, apart: Collection[str]) -> list[Difference]:
    """Every call of all runs. Those of `apart` don't speak for the machine."""
    common = sorted(set.intersection(*(set(run.latencies) for run in sides.runs)))
    fast = [
        call
        for call in sorted(set.intersection(*(set(run.fast) for run in sides.runs)))
        if all(run.fast[call].n >= LEAST_FAST for run in sides.runs)
    ]
    if not sides.several:
        a, b = sides.a[0], sides.b[0]
        return [*_compare_slices(a, b, common, apart), *_compare_fast(a, b, fast, apart)]
    bodies = {call: np.log([_body(run, call).mean() for run in sides.runs]) for call in common}
    tails = {
        call: np.log([max(run.latencies[call].tail.mean() / 0.05, 1.0) for run in sides.runs])
        for call in common
        if all(run.latencies[call].tail.any() for run in sides.runs)
    }
    fasts = {call: np.log([max(run.fast[call].mean, 1.0) for run in sides.runs]) for call in fast}
    inside = {call: _variance_inside(sides, call) for call in common}
    frequent = [
        call
        for call in common
        if call not in apart
        and min(run.latencies[call].n for run in sides.runs) >= LEAST_FAST
        and sides.runs[0].latencies[call].kind != "wait"
    ]
    machine = [call for call in fast if call not in apart]
    found = []
    late = [call for call in frequent if call in tails]
    for part, figures, speaking in ((BODY, bodies, frequent), (FAST, fasts, machine), (TAIL, tails, late)):
        within = dict.fromkeys(figures, 0.0) if part == FAST else inside if part == BODY else _loose(inside)
        found += _compare_family(sides, part, figures, within, speaking)
    return found


def _loose(inside: Mapping[str, float | None]) -> dict[str, float | None]:
    """Tails vary inside of a run by orders of magnitude more than what is left: nothing is known of it."""
    return {call: None if value is None else 0.0 for call, value in inside.items()}


def _compare_family(
    sides: Sides,
    part: str,
    figures: Mapping[str, Series],
    within: Mapping[str, float | None],
    speaking: Collection[str],
) -> list[Difference]:
    """One figure of all calls; each run's change that all calls share is taken off where that makes runs more alike."""
    changes = {call: values - values.mean() for call, values in figures.items()}
    shared = {
        call: np.median([changes[other] for other in speaking if other != call], axis=0)
        for call in figures
        if len([other for other in speaking if other != call]) >= LEAST_REFERENCES
    }
    gained = [
        math.log(max(_sample(sides, figures[call] - shared[call], 0.0).variance, 1e-9))
        - math.log(max(_sample(sides, figures[call], 0.0).variance, 1e-9))
        for call in speaking
        if call in shared
    ]
    beside = bool(gained) and float(np.mean(gained)) < 0
    samples = {
        call: _sample(sides, values - shared[call] if beside and call in shared else values, within[call])
        for call, values in figures.items()
    }
    expected = usual(list(samples.values()), TYPICAL[part])
    found = []
    for call, sample in samples.items():
        latency = sides.runs[0].latencies[call]
        rare = sample.within is None
        difference = _of_logarithms(
            ("latency", call, part if latency.tail.any() or part != BODY else "", latency.kind, "ns"),
            sample,
            # of a rare call the usual spread of frequent ones says nothing
            None if rare else expected,
            figures[call],
        )
        calls = min(float(np.mean([run.latencies[call].n for run in side])) for side in (sides.a, sides.b))
        time = calls * difference.a * (0.05 if part == TAIL else 1.0)
        _add_time(difference, time)
        if beside and call in shared:
            moved = _sample(sides, shared[call], 0.0)
            change = math.expm1(float(moved.b.mean() - moved.a.mean()))
            difference.note = f"beside {change:+.1%} in every call" if abs(change) >= 0.01 else ""
        found.append(difference)
    if part == BODY and len(speaking) > LEAST_REFERENCES:
        machine = np.median([changes[call] for call in speaking], axis=0)
        each = float(np.median([figures[call].mean() for call in speaking]))
        difference = _of_logarithms(
            ("latency", EVERY_CALL, "the machine or what all calls share", "all", "ns"),
            _sample(sides, machine + each, 0.0),
            TYPICAL_RUN,
        )
        a = sides.a
        _add_time(difference, sum(
            float(np.mean([run.latencies[call].n for run in a])) * float(np.exp(figures[call][: len(a)].mean()))
            for call in speaking
        ))  # fmt: skip
        found.append(difference)
    return found


def _add_time(difference: Difference, time: float) -> None:
    difference.added_ns = time * difference.effect
    difference.added_low, difference.added_high = time * difference.low, time * difference.high


def _sample(sides: Sides, values: Series, within: float | None) -> Sample:
    count = len(sides.a)
    return Sample(np.asarray(values[:count]), np.asarray(values[count:]), within)


def _of_logarithms(
    names: tuple[str, str, str, str, str], sample: Sample, expected: Usual | None, shown: Series | None = None
) -> Difference:
    """A relative difference of times, given their logarithms; `shown` are those before the machine's was taken off."""
    estimate = compare_means(sample, expected)
    logs = np.concatenate([sample.a, sample.b]) if shown is None else shown
    a, b = logs[: len(sample.a)], logs[len(sample.a) :]
    return Difference(
        *names, float(np.exp(a.mean())), float(np.exp(b.mean())), _grown(estimate.value), _grown(estimate.low),
        _grown(estimate.high), estimate.p, runs_a=np.exp(a).tolist(), runs_b=np.exp(b).tolist(),
    )  # fmt: skip


def _variance_inside(sides: Sides, call: str) -> float | None:
    """Variance of the logarithm of one run's body by what varies inside of it: slices of runs of a side did the same
    work, so what they differ by is no phase of the program. None of a call with few slices."""
    slices = min(run.latencies[call].slices for run in sides.runs)
    if slices < LEAST_SLICES:
        return None
    found = []
    for side in (sides.a, sides.b):
        series = np.array([np.log(noise.merged(_body(run, call), slices)) for run in side])
        if len(side) > 1:
            rest = series - series.mean(axis=0)
            found += [noise.wander(row) / slices * len(side) / (len(side) - 1) for row in rest]
    return float(np.mean(found))


def _body(run: Run, call: str) -> Series:
    # a call can be shorter than the clock's tick
    return np.maximum(run.latencies[call].body, 1.0)


def _compare_slices(a: Run, b: Run, common: Collection[str], apart: Collection[str]) -> list[Difference]:
    """One run each: how long all but the slowest calls take, and the change common to them."""
    changes = {}
    for call in common:
        slices = min(run.latencies[call].slices for run in (a, b))
        before, after = (noise.merged(_body(run, call), slices) for run in (a, b))
        changes[call] = np.log(after / before)
    frequent = {
        call: change
        for call, change in changes.items()
        if len(change) == SLICES and a.latencies[call].kind != "wait" and call not in apart
    }
    beyond = math.log(PLAUSIBLE)
    found = []
    for call, change in changes.items():
        first, second = a.latencies[call], b.latencies[call]
        others = [series for other, series in frequent.items() if other != call]
        estimate, beside = noise.mean(change, beyond), 0.0
        if len(others) >= LEAST_REFERENCES and len(change) > 1:
            shared = noise.merged(np.median(others, axis=0), len(change))
            if noise.wander(change - shared) < noise.wander(change):
                estimate, beside = noise.mean(change - shared, beyond), float(shared.mean())
        part = "" if not (first.tail.any() or second.tail.any()) else BODY
        means = float(first.body.mean()), float(second.body.mean())
        difference = _of_estimate(("latency", call, part, first.kind, "ns"), means, estimate)
        # of as many calls as both made; the rest is the difference in number
        _add_time(difference, min(first.n, second.n) * means[0])
        difference.note = f"beside {_grown(beside):+.1%} in every call" if abs(beside) >= 0.01 else ""
        found.append(difference)
        if first.tail.any() and second.tail.any():
            tails = float(first.tail.mean()) / 0.05, float(second.tail.mean()) / 0.05
            change_of_tail = math.log(max(tails[1], 1.0) / max(tails[0], 1.0))
            difference = _of_estimate(
                ("latency", call, TAIL, first.kind, "ns"),
                tails,
                Estimate(change_of_tail, -math.inf, math.inf, None),
            )
            difference.added_ns = min(first.n, second.n) * 0.05 * (tails[1] - tails[0])
            difference.answer = UNKNOWN
            found.append(difference)
    if len(frequent) > LEAST_REFERENCES:
        estimate = noise.mean(np.median(list(frequent.values()), axis=0), beyond)
        time_a, time_b = (
            sum(float(run.latencies[call].body.mean()) * b.latencies[call].n for call in frequent)
            for run in (a, b)
        )
        calls = sum(b.latencies[call].n for call in frequent)
        difference = _of_estimate(
            ("latency", EVERY_CALL, "the machine or what all calls share", "all", "ns"),
            (time_a / calls, time_b / calls),
            estimate,
        )
        _add_time(difference, time_a)
        found.append(difference)
    return found


def _compare_fast(a: Run, b: Run, calls: Collection[str], apart: Collection[str]) -> list[Difference]:
    """One run each: the fastest tenth. It has no slices: the first calls are hardly the fastest, nor evenly spread."""
    changes = {call: math.log(max(b.fast[call].mean, 1.0) / max(a.fast[call].mean, 1.0)) for call in calls}
    found = []
    for call, change in changes.items():
        others = [other for name, other in changes.items() if name != call and name not in apart]
        shared = float(np.median(others)) if len(others) >= LEAST_REFERENCES else 0.0
        value = change - shared
        beyond = abs(value) > math.log(PLAUSIBLE_FAST)
        difference = _of_estimate(
            ("latency", call, FAST, a.fast[call].kind, "ns"),
            (a.fast[call].mean, b.fast[call].mean),
            Estimate(value, -math.inf, math.inf, None),
        )
        difference.added_ns = min(a.fast[call].n, b.fast[call].n) * a.fast[call].mean * _grown(value)
        difference.exact, difference.answer = beyond, UNKNOWN
        found.append(difference)
    return found


def _of_estimate(
    names: tuple[str, str, str, str, str], means: tuple[float, float], estimate: Estimate
) -> Difference:
    return Difference(
        *names, *means, _grown(estimate.value), _grown(estimate.low), _grown(estimate.high), estimate.p,
        runs_a=[means[0]], runs_b=[means[1]],
    )  # fmt: skip


def _grown(logarithm: float) -> float:
    """A logarithmic change as a relative one; infinite where nothing is known of it."""
    return math.inf if logarithm > 700.0 else math.expm1(logarithm)


def compare_throughput(sides: Sides) -> list[Difference]:
    """Operations and bytes a second. Where both did the same, the run time says it."""
    found = []
    for name, column, unit in (
        ("operations", "ops", "1/s"),
        ("read", "bytes_read", "bytes/s"),
        ("written", "bytes_written", "bytes/s"),
    ):
        done = [float(run.overview[column] or 0) for run in sides.runs]
        means = float(np.mean(done[: len(sides.a)])), float(np.mean(done[len(sides.a) :]))
        if not all(done) or abs(means[1] - means[0]) <= SAME_WORK * means[0]:
            continue
        rates = np.log([n * 1e9 / max(run.duration, 1) for n, run in zip(done, sides.runs, strict=True)])
        names = ("throughput", name, "a second", "", unit)
        if sides.several:
            found.append(_of_logarithms(names, _sample(sides, rates, 0.0), TYPICAL_RUN))
            continue
        value = float(rates[1] - rates[0])
        a, b = np.exp(rates)
        difference = _of_estimate(names, (float(a), float(b)), Estimate(value, -math.inf, math.inf, None))
        difference.answer = UNKNOWN
        found.append(difference)
    return found
