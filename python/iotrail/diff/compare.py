"""Two trails compared: every difference that is more than noise, ranked by the time it adds.

`compare(a, b)` makes a `Comparison`; `iotrail.diff.show`, `page` and `gate` print it, draw it and judge it.

Latencies. What slows a whole machine for a whole run (its clock, a neighbour) shows in every call alike, and one run
of each can't tell it from noise. So each call is judged against the change that is common to all frequent calls, the
median over the others of the logarithmic change in each slice, wherever that explains how the call's own change
varies; the common change is a comparison of its own. A call found to differ no longer speaks for the others.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from iotrail.diff import noise
from iotrail.diff.files import Files, match_files
from iotrail.diff.noise import Estimate, Series
from iotrail.diff.run import MOST_FILES, SLICES, Latency, Run, coarse
from iotrail.trail import Trail
from iotrail.units import duration, human

# Smallest relative change that is reported.
MIN_EFFECT = 0.05
# Share of reported differences that may be noise. Stricter than usual: noise is estimated within each run, and what
# differs between runs of the same thing comes on top (docs/diff.md has the measured rates).
FALSE_DISCOVERIES = 0.001
# A slower call that adds less than this share of A's working time is not worth a line.
MIN_ADDED = 0.001
# Calls that speak for the machine: this many besides the one that is judged.
LEAST_REFERENCES = 3
# What differs without being shown to be more than noise is named from this share of A's working time on.
WORTH_NAMING = 0.01

# Amounts of work that differ by less are the same work: what is done of it a second is then told by the run time.
ALIKE = 0.01

EVERY_CALL = "every call"


@dataclass
class Difference:
    """One comparison of A and B."""

    # latency, count, bytes, errors, size, pattern, throughput, files
    metric: str
    # The call, kind or file; what of it.
    subject: str
    part: str
    kind: str
    unit: str
    a: float
    b: float
    # Relative change, or change of a share; with its confidence interval.
    effect: float
    low: float
    high: float
    p: float | None
    # Time it adds to the threads of B, ns, with its interval; None where time is not its measure.
    added_ns: float | None = None
    added_low: float | None = None
    added_high: float | None = None
    # `p` given how many comparisons were made.
    q: float | None = None
    significant: bool = False
    # More about it, in words.
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.part}" if self.part else self.subject


@dataclass
class Comparison:
    """What `iotrail diff` says."""

    a: str
    b: str
    min_effect: float
    false_discoveries: float
    overview_a: dict[str, Any]
    overview_b: dict[str, Any]
    run_time: Difference | None = None
    # Every comparison, those that are more than noise first, by what they add.
    differences: list[Difference] = field(default_factory=list)
    files: Files | None = None
    identical: bool = False
    verdict: str = ""

    @property
    def found(self) -> list[Difference]:
        """Differences that are more than noise, ranked."""
        return [d for d in self.differences if d.significant]

    @property
    def unproven(self) -> list[Difference]:
        """Large ones that may be noise, by what they would add."""
        work = max(self.overview_a["io_ns"] + self.overview_a["compute_ns"], 1)
        large = [
            d
            for d in self.differences
            if not d.significant
            and d.added_ns is not None
            and abs(d.effect) >= self.min_effect
            and abs(d.added_ns) >= WORTH_NAMING * work
        ]
        return sorted(large, key=lambda d: -abs(d.added_ns or 0))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: infinite bounds are null."""
        return {
            "a": self.a,
            "b": self.b,
            "identical": self.identical,
            "verdict": self.verdict,
            "min_effect": self.min_effect,
            "false_discoveries": self.false_discoveries,
            "run_time": _finite(self.run_time) if self.run_time else None,
            "found": [_finite(d) for d in self.found],
            "not_shown_to_be_more_than_noise": [_finite(d) for d in self.differences if not d.significant],
            "files": asdict(self.files) if self.files else None,
            "overview": {"a": self.overview_a, "b": self.overview_b},
        }


def compare(
    a: Trail,
    b: Trail,
    *,
    min_effect: float = MIN_EFFECT,
    false_discoveries: float = FALSE_DISCOVERIES,
    renamed: Iterable[tuple[str, str]] = (),
    again: Iterable[Trail] = (),
) -> Comparison:
    """Compare two trails; `renamed` are pairs (path in A, path in B) of directories that are the same, `again` other
    runs of A."""
    others = [Run(trail) for trail in again]
    return compare_runs(Run(a), Run(b), min_effect, false_discoveries, tuple(renamed), others)


def compare_runs(
    a: Run,
    b: Run,
    min_effect: float = MIN_EFFECT,
    false_discoveries: float = FALSE_DISCOVERIES,
    renamed: tuple[tuple[str, str], ...] = (),
    again: Sequence[Run] = (),
) -> Comparison:
    """As `compare`, of runs whose slices may have been read already."""
    result = Comparison(
        str(a.trail.path), str(b.trail.path), min_effect, false_discoveries, a.overview, b.overview
    )
    if a.empty or b.empty:
        which = "both trails are" if a.empty and b.empty else f"{(a if a.empty else b).trail.path} is"
        result.verdict = f"{which} empty: no call was recorded, so there is nothing to compare"
        return result
    if identical(a.trail, b.trail):
        result.identical = True
        result.verdict = "identical: both trails hold the same calls with the same times"
        return result
    result.files = match_files(a.files, b.files, renamed)
    common = sorted(a.latencies.keys() & b.latencies.keys() - {"(compute)"})
    if not common and not result.files.both:
        result.verdict = (
            "nothing in common: no call and no file of one is in the other; these are two different programs"
        )
        return result

    result.run_time = _run_time(a, b)
    judge = _Judge(min_effect, false_discoveries, MIN_ADDED * a.work)
    judge.others = [
        result.run_time,
        *_counts(a, b),
        *_tails(a, b),
        *_access(a, b),
        *_throughput(a, b),
        *_file_counts(a, b, result.files),
    ]
    judge.settle(lambda apart: _bodies(a, b, apart))
    if again:
        _hold_against(judge.all, [compare_runs(a, other, min_effect, false_discoveries) for other in again])
    rest = [d for d in judge.all if d is not result.run_time]
    slower = result.run_time.effect >= 0 or not result.run_time.significant
    rest.sort(key=lambda d: _rank(d, slower))
    result.differences = rest
    for difference in result.found[:5]:
        if difference.metric == "latency" and difference.kind not in ("compute", "wait", "all"):
            path = b.busiest(difference.subject)
            difference.note = f"most in {path}" if path else ""
    result.verdict = _verdict(result)
    return result


def _hold_against(differences: Iterable[Difference], own: Sequence[Comparison]) -> None:
    """What runs of A differ by among themselves is no difference of B's, however steady it is within each run.

    Of n runs besides A, a difference by chance is larger than all of theirs in one of n + 1 cases.
    """
    largest: dict[tuple[str, str, str], float] = {}
    for comparison in own:
        for d in filter(None, (*comparison.differences, comparison.run_time)):
            key = (d.metric, d.subject, d.part)
            largest[key] = max(largest.get(key, 0.0), abs(d.effect))
    for d in differences:
        among = largest.get((d.metric, d.subject, d.part), 0.0)
        if d.significant and abs(d.effect) <= among:
            d.significant = False
            d.note = f"runs of A differ by up to {among:.1%}"


def identical(a: Trail, b: Trail) -> bool:
    """Whether two trails hold the same calls. The same folder is; a copy is found by hashes of its rows."""
    if os.path.realpath(a.path) == os.path.realpath(b.path):
        return True
    columns = {
        "file_op": "ts, dur, thread, call, file, pos, length, result, errno",
        "sync_op": "ts, dur, thread, call, object, length, result, errno",
    }
    if any(a.rows.get(table) != b.rows.get(table) for table in columns):
        return False
    sums = [
        [trail.rows_of(f"SELECT bit_xor(hash({of})) AS h FROM {table}") for table, of in columns.items()]
        for trail in (a, b)
    ]
    return sums[0] == sums[1]


class _Judge:
    """Adjusts for the number of comparisons and says which are more than noise."""

    def __init__(self, min_effect: float, false_discoveries: float, min_added: float) -> None:
        self.min_effect = min_effect
        self.false_discoveries = false_discoveries
        self.min_added = min_added
        self.others: list[Difference] = []
        self.bodies: list[Difference] = []

    @property
    def all(self) -> list[Difference]:
        return self.others + self.bodies

    def settle(self, bodies: Callable[[frozenset[str]], list[Difference]]) -> None:
        """Judge until no further call is found that must not speak for the others."""
        apart: frozenset[str] = frozenset()
        while True:
            self.bodies = bodies(apart)
            self._judge()
            found = [d for d in self.bodies if d.significant and d.subject not in (*apart, EVERY_CALL)]
            if not found:
                return
            apart |= {min(found, key=lambda d: d.p or 0.0).subject}

    def _judge(self) -> None:
        tested = [d for d in self.all if d.p is not None]
        for difference, q in zip(tested, noise.discoveries([d.p or 0.0 for d in tested]), strict=True):
            difference.q = q
            difference.significant = (
                q <= self.false_discoveries
                and abs(difference.effect) >= self.min_effect
                and (difference.metric != "latency" or abs(difference.added_ns or 0) >= self.min_added)
            )


def _rank(difference: Difference, slower: bool) -> tuple[bool, int, float, float]:
    """Proven ones first; causes before waiting, which mostly is for another's cause; what has no time last."""
    added = difference.added_ns
    group = 2 if added is None else 1 if difference.kind == "wait" else 0
    return (
        not difference.significant,
        group,
        -(added or 0) if slower else (added or 0),
        -abs(difference.effect),
    )


def _run_time(a: Run, b: Run) -> Difference:
    slices = min(len(a.clock), len(b.clock)) - 1
    estimate = noise.mean(_steps(b.clock, slices) - _steps(a.clock, slices)).scaled(slices)
    return _relative("run time", "run time", "", "", "ns", a.duration, b.duration, estimate)


def _steps(clock: Series, slices: int) -> Series:
    """How long each of so many slices of the work took."""
    return np.diff(clock[:: (len(clock) - 1) // slices])


def _changes(a: Run, b: Run) -> dict[str, Series]:
    """Call -> logarithmic change of its body in each slice."""
    found = {}
    for call in a.latencies.keys() & b.latencies.keys():
        first, second = _body(a.latencies[call]), _body(b.latencies[call])
        slices = min(len(first), len(second))
        found[call] = np.log(noise.merged(second, slices) / noise.merged(first, slices))
    return found


def _body(latency: Latency) -> Series:
    # a call can be shorter than the clock's tick
    return np.maximum(latency.body, 1.0)


def _bodies(a: Run, b: Run, apart: frozenset[str]) -> list[Difference]:
    """How long all but the slowest calls take, and the change common to them."""
    changes = _changes(a, b)
    frequent = {
        call: change
        for call, change in changes.items()
        if len(change) == SLICES and a.latencies[call].kind != "wait"
    }
    found = []
    for call, change in sorted(changes.items()):
        first, second = a.latencies[call], b.latencies[call]
        others = [series for other, series in frequent.items() if other != call and other not in apart]
        estimate, beside = noise.mean(change), 0.0
        if len(others) >= LEAST_REFERENCES and len(change) > 1:
            shared = noise.merged(np.median(others, axis=0), len(change))
            if noise.wander(change - shared) < noise.wander(change):
                estimate, beside = noise.mean(change - shared), float(shared.mean())
        # of as many calls as both made; the rest is the difference in number
        time = min(first.n, second.n) * float(first.body.mean())
        part = "" if not (first.tail.any() or second.tail.any()) else "all but the slowest 5 %"
        found.append(
            Difference(
                "latency",
                call,
                part,
                first.kind,
                "ns",
                float(first.body.mean()),
                float(second.body.mean()),
                effect=_grown(estimate.value),
                low=_grown(estimate.low),
                high=_grown(estimate.high),
                p=estimate.p,
                added_ns=time * _grown(estimate.value),
                added_low=time * _grown(estimate.low),
                added_high=time * _grown(estimate.high),
                note=f"beside {_grown(beside):+.1%} in every call" if abs(beside) >= 0.01 else "",
            )
        )
    speaking = [call for call in frequent if call not in apart]
    if len(speaking) > LEAST_REFERENCES:
        estimate = noise.mean(np.median([frequent[call] for call in speaking], axis=0))
        before, after = (
            sum(float(run.latencies[call].body.mean()) * b.latencies[call].n for call in speaking)
            for run in (a, b)
        )
        calls = sum(b.latencies[call].n for call in speaking)
        found.append(
            Difference(
                "latency",
                EVERY_CALL,
                "the machine or what all calls share",
                "all",
                "ns",
                before / calls,
                after / calls,
                _grown(estimate.value),
                _grown(estimate.low),
                _grown(estimate.high),
                estimate.p,
                before * _grown(estimate.value),
                before * _grown(estimate.low),
                before * _grown(estimate.high),
            )
        )
    return found


def _grown(logarithm: float) -> float:
    """A logarithmic change as a relative one."""
    return math.expm1(min(logarithm, 700.0))


def _tails(a: Run, b: Run) -> list[Difference]:
    """What the slowest of each slice add to a call's mean."""
    found = []
    for call in sorted(a.latencies.keys() & b.latencies.keys()):
        first, second = a.latencies[call], b.latencies[call]
        slices = min(first.slices, second.slices)
        before, after = noise.merged(first.tail, slices), noise.merged(second.tail, slices)
        if not before.any() and not after.any():
            continue
        estimate = noise.mean(after - before)
        difference = _relative(
            "latency", call, "the slowest 5 %", first.kind, "ns", first.mean, second.mean, estimate
        )
        # shown are the slowest calls' own times, the effect is on the mean of all
        difference.a, difference.b = float(before.mean()) / 0.05, float(after.mean()) / 0.05
        added = estimate.scaled(min(first.n, second.n))
        difference.added_ns, difference.added_low, difference.added_high = added.value, added.low, added.high
        if _in_one_slice(after - before):
            difference.note = "one stretch of the run, no trend"
        found.append(difference)
    return found


def _in_one_slice(differences: Series) -> bool:
    """Whether one slice in sixteen makes most of a difference."""
    total = float(differences.sum())
    few = max(1, len(differences) // 16)
    most = np.sort(differences * np.sign(total))[-few:]
    return len(differences) >= 16 and float(most.sum()) > 0.8 * abs(total) > 0


def _counts(a: Run, b: Run) -> list[Difference]:
    """How often each call was made and failed, what it moved."""
    found = []
    nothing = np.zeros(SLICES)
    for call in sorted(a.counts.keys() | b.counts.keys()):
        before, after = a.counts.get(call), b.counts.get(call)
        kind = (before or after).kind  # type: ignore[union-attr]
        n, bytes, errors = (
            (
                coarse(getattr(before, name)) if before else nothing,
                coarse(getattr(after, name)) if after else nothing,
            )
            for name in ("n", "bytes", "errors")
        )
        if n[0].sum() != n[1].sum():
            difference = _total("count", call, "calls", kind, "ops", *n)
            # calls that came cost what they take in B, calls that went what they took in A
            latency = (b if n[1].sum() > n[0].sum() else a).latencies.get(call)
            if latency is not None:
                difference.added_ns = (n[1].sum() - n[0].sum()) * latency.mean
                if n[0].any():
                    scale = latency.mean * n[0].sum()
                    difference.added_low, difference.added_high = (
                        difference.low * scale,
                        difference.high * scale,
                    )
            found.append(difference)
        # bytes follow the calls: only what a call moves is news
        if bytes[0].any() and bytes[1].any() and bytes[0].sum() != bytes[1].sum():
            found.append(
                _shares("bytes", call, "bytes a call", kind, "bytes", bytes[0], n[0], bytes[1], n[1])
            )
        if errors[0].sum() != errors[1].sum():
            found.append(_total("errors", call, "failed", kind, "ops", *errors))
    return found


def _total(metric: str, subject: str, part: str, kind: str, unit: str, a: Series, b: Series) -> Difference:
    return _relative(metric, subject, part, kind, unit, float(a.sum()), float(b.sum()), noise.count(a, b))


def _shares(
    metric: str,
    subject: str,
    part: str,
    kind: str,
    unit: str,
    a: Series,
    of_a: Series,
    b: Series,
    of_b: Series,
) -> Difference:
    """The difference of two ratios. Of shares it is told in points, of others relative to A's."""
    before, after = float(a.sum() / of_a.sum()), float(b.sum() / of_b.sum())
    estimate = noise.share(a, of_a, b, of_b)
    if unit == "share":
        return Difference(
            metric,
            subject,
            part,
            kind,
            unit,
            before,
            after,
            estimate.value,
            estimate.low,
            estimate.high,
            estimate.p,
        )
    return _relative(metric, subject, part, kind, unit, before, after, estimate)


def _relative(
    metric: str, subject: str, part: str, kind: str, unit: str, a: float, b: float, estimate: Estimate
) -> Difference:
    """A difference told relative to A; without anything in A it is infinite."""
    base = a or math.inf
    effect = estimate.value / base if a else math.inf
    return Difference(
        metric, subject, part, kind, unit, a, b, effect, estimate.low / base, estimate.high / base, estimate.p
    )


def _access(a: Run, b: Run) -> list[Difference]:
    """Sizes of reads and writes, and how they follow each other: shares of their number."""
    found = []
    for kind in sorted(a.access.keys() & b.access.keys()):
        for metric in ("size", "pattern"):
            first, second = a.access[kind][metric], b.access[kind][metric]
            nothing = np.zeros(SLICES)
            of_a, of_b = sum(first.values(), nothing), sum(second.values(), nothing)
            if not of_a.any() or not of_b.any():
                continue
            for name in sorted(first.keys() | second.keys(), key=lambda n: (len(n), n)):
                part, other = first.get(name, nothing), second.get(name, nothing)
                if part.sum() * of_b.sum() == other.sum() * of_a.sum():
                    continue
                words = f"of {human(int(name), 'bytes')} and more" if metric == "size" else name
                found.append(_shares(metric, f"{kind}s", words, kind, "share", part, of_a, other, of_b))
    return found


def _throughput(a: Run, b: Run) -> list[Difference]:
    """Operations and bytes a second, by the time that each slice of the work took for them. Where both did the
    same, it says what the run time says and is no comparison of its own."""
    found: list[Difference] = []
    slices = min(len(a.clock), len(b.clock)) - 1
    for name, unit, kind in (
        ("operations", "1/s", ""),
        ("read", "bytes/s", "read"),
        ("written", "bytes/s", "write"),
    ):
        before, after = (np.diff(run.done(kind)[:: (len(run.clock) - 1) // slices]) for run in (a, b))
        if not before.any() or not after.any() or abs(after.sum() - before.sum()) <= ALIKE * before.sum():
            continue
        rates = [float(done.sum()) * 1e9 / max(run.duration, 1) for done, run in ((before, a), (after, b))]
        estimate = noise.share(_steps(a.clock, slices), before, _steps(b.clock, slices), after)
        difference = _relative("throughput", name, "a second", kind, unit, rates[0], rates[1], estimate)
        # a rate is the inverse of the time an operation takes
        scale = a.duration / float(before.sum())
        times = (scale + estimate.high, scale + estimate.low)
        difference.effect = rates[1] / rates[0] - 1
        difference.low, difference.high = (scale / time - 1 if time > 0 else math.inf for time in times)
        found.append(difference)
    return found


def _file_counts(a: Run, b: Run, files: Files) -> list[Difference]:
    """Operations on each file of both trails, where their number differs; and what files of one only have."""
    changed = [pair for pair in files.both if pair.ops_a != pair.ops_b]
    changed.sort(key=lambda pair: -abs(pair.ops_b - pair.ops_a))
    changed = changed[:MOST_FILES]
    before = a.file_counts([a.files[pair.a]["file"] for pair in changed])
    after = b.file_counts([b.files[pair.b]["file"] for pair in changed])
    nothing = (np.zeros(SLICES), np.zeros(SLICES))
    found = []
    for pair in changed:
        n_a = before.get(a.files[pair.a]["file"], nothing)[0]
        n_b = after.get(b.files[pair.b]["file"], nothing)[0]
        if n_a.any() and n_b.any():
            found.append(_total("files", pair.name, "operations", "", "ops", n_a, n_b))
    ops_a, ops_b = (max(run.overview["ops"], 1) for run in (a, b))
    for part, alone, ops in (("only in A", files.only_a, ops_a), ("only in B", files.only_b, ops_b)):
        done = sum(file.ops for file in alone)
        if done:
            # not a matter of chance: these files are there or not
            share = done / ops
            effect = share if part == "only in B" else -share
            difference = Difference(
                "files",
                f"{len(alone):,} file{'s' * (len(alone) > 1)}",
                part,
                "",
                "share",
                max(-effect, 0.0),
                max(effect, 0.0),
                effect,
                effect,
                effect,
                p=0.0,
            )
            difference.note = f"share of operations; most in {max(alone, key=lambda file: file.ops).name}"
            found.append(difference)
    return found


def _verdict(result: Comparison) -> str:
    found, run = result.found, result.run_time
    assert run is not None
    times = f"{duration(run.b)}, {PurePosixPath(result.a).name} {duration(run.a)}"
    if run.significant:
        text = f"B is {abs(run.effect):.1%} {'slower' if run.effect > 0 else 'faster'} than A ({times})"
    else:
        text = f"run time: no difference beyond noise ({run.effect:+.1%}; B {duration(run.b)}, A {duration(run.a)})"
    compared = len([d for d in result.differences if d.p is not None]) + 1
    if not found:
        return text if run.significant else (
            f"no difference beyond noise in {compared} comparisons (run time {run.effect:+.1%})"
        )  # fmt: skip
    first = found[0]
    return f"{text}; {len(found)} difference{'s' * (len(found) > 1)} beyond noise, first {describe(first)}"


def describe(difference: Difference) -> str:
    """A difference in a few words."""
    change = (
        f"{difference.effect * 100:+.1f} points"
        if difference.unit == "share"
        else "new"
        if math.isinf(difference.effect)
        else f"{difference.effect:+.1%}"
    )
    added = "" if difference.added_ns is None else f" ({signed(difference.added_ns)})"
    return f"{difference.name}: {change}{added}"


def signed(ns: float) -> str:
    """A time with its sign."""
    return f"+{duration(ns)}" if ns >= 0 else duration(ns)


def _finite(difference: Difference) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(difference).items()
    }
