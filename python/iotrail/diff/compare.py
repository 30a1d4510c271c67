"""Two sides of runs compared: every difference that is more than what runs of one program differ by, ranked by the
time it adds.

`compare_runs` makes a `Comparison`; `iotrail.diff.show`, `page` and `gate` print it, draw it and judge it. Counts are
compared exactly (`counts`), times by how much runs differ among themselves (`times`, `between`).
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from iotrail.diff import noise
from iotrail.diff.counts import Options, compare_access, compare_counts, compare_files, lost_records
from iotrail.diff.difference import ALIKE, DIFFERS, UNKNOWN, Difference, describe
from iotrail.diff.files import Files, match_files
from iotrail.diff.run import Run, Sides
from iotrail.diff.times import (
    BODY,
    EVERY_CALL,
    FAST,
    PLAUSIBLE,
    PLAUSIBLE_FAST,
    compare_latencies,
    compare_run_time,
    compare_throughput,
)
from iotrail.errors import UsageError
from iotrail.trail import Trail
from iotrail.units import counted, duration

# Smallest relative change that is reported.
MIN_EFFECT = 0.05
# A smaller one is too if it adds this share of A's working time.
LARGE_SHARE = 0.01
# Share of reported differences that may be noise: of several runs, whose differences among themselves are known; of one
# run each, where they aren't.
FALSE_DISCOVERIES, FALSE_DISCOVERIES_OF_ONE = 0.01, 0.001
# A slower call that adds less than this share of A's working time is not worth a line.
MIN_ADDED = 0.001
# What differs without being shown to be more than noise is named from this share of A's working time on.
WORTH_NAMING = 0.01

ADVICE = "record at least three runs of each, alternating A and B: iotrail diff A1 A2 A3 -- B1 B2 B3"


@dataclass
class Comparison:
    """What `iotrail diff` says."""

    a: list[str]
    b: list[str]
    min_effect: float
    false_discoveries: float
    overview_a: dict[str, Any]
    overview_b: dict[str, Any]
    run_time: Difference | None = None
    # Every comparison, those that are more than noise first, by what they add.
    differences: list[Difference] = field(default_factory=list)
    files: Files | None = None
    identical: bool = False
    # Nothing was compared: a trail is empty, or the sides have nothing in common.
    nothing: bool = False
    verdict: str = ""
    # What weakens the comparison, a sentence each.
    notes: list[str] = field(default_factory=list)

    @property
    def several(self) -> bool:
        """Whether a side has more than one run."""
        return len(self.a) + len(self.b) > 2

    @property
    def found(self) -> list[Difference]:
        """Differences that are more than noise, ranked."""
        return [d for d in self.differences if d.significant]

    @property
    def unproven(self) -> list[Difference]:
        """Large ones that may be noise, by what they would add."""
        a = self.overview_a
        # As module effort: of threads whose CPU time is unknown, what no call covers.
        computing = (
            ("compute_ns", "queued_ns", "fault_ns") if a["compute_ns"] is not None else ("unknown_ns",)
        )
        work = max(a["io_ns"] + sum(a[column] for column in computing), 1)
        large = [
            d
            for d in self.differences
            if not d.significant
            and d.added_ns is not None
            and abs(d.effect) >= self.min_effect
            and abs(d.added_ns) >= WORTH_NAMING * work
        ]
        return sorted(large, key=lambda d: -abs(d.added_ns or 0))

    def undecided(self, call: str | None = None) -> list[Difference]:
        """What the runs can't tell: of the call if one is named, else what is large enough to matter."""
        run = [self.run_time] if self.run_time is not None and self.run_time.answer == UNKNOWN else []
        large = {id(d) for d in self.unproven}
        return run + [
            d
            for d in self.differences
            if d.answer == UNKNOWN
            and (d.subject == call or id(d) in large or (d.metric != "latency" and d.effect))
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: infinite bounds are null."""
        return {
            "a": self.a,
            "b": self.b,
            "identical": self.identical,
            "compared": not self.nothing,
            "times_judged_by": "the differences between runs of a side" if self.several else "one run each",
            "verdict": self.verdict,
            "notes": self.notes,
            "min_effect": self.min_effect,
            "false_discoveries": self.false_discoveries,
            "run_time": self.run_time.as_dict() if self.run_time else None,
            "found": [d.as_dict() for d in self.found],
            "not_shown_to_be_more_than_noise": [d.as_dict() for d in self.differences if not d.significant],
            "files": asdict(self.files) if self.files else None,
            "overview": {"a": self.overview_a, "b": self.overview_b},
        }


def compare_runs(
    sides: Sides,
    min_effect: float = MIN_EFFECT,
    false_discoveries: float | None = None,
    renamed: tuple[tuple[str, str], ...] = (),
) -> Comparison:
    """Compare two sides of one or more runs; `renamed` are pairs (path in A, path in B) of directories that are the same.

    Raises:
        UsageError: a side has no run, or one run is there twice.
    """
    if not sides.a or not sides.b:
        raise UsageError(
            f"diff: side {'B' if sides.a else 'A'} has no trail", "iotrail diff A1 A2 A3 -- B1 B2 B3"
        )
    if false_discoveries is None:
        false_discoveries = FALSE_DISCOVERIES if sides.several else FALSE_DISCOVERIES_OF_ONE
    result = Comparison(
        [str(run.trail.path) for run in sides.a],
        [str(run.trail.path) for run in sides.b],
        min_effect,
        false_discoveries,
        sides.overview(sides.a),
        sides.overview(sides.b),
    )
    empty = [str(run.trail.path) for run in sides.runs if run.empty]
    if empty:
        result.nothing = True
        which = "both trails are" if len(empty) == len(sides.runs) == 2 else f"{', '.join(empty)} is"
        result.verdict = f"{which} empty: no call was recorded, so there is nothing to compare"
        return result
    if twice := _find_copy(sides):
        if not sides.several:
            result.identical = True
            result.verdict = "identical: both trails hold the same calls with the same times"
            return result
        raise UsageError(
            f"diff: {twice[0]} and {twice[1]} are the same run; one run counted twice would look like two that agree",
            "record the program again",
        )
    result.files = match_files([run.files for run in sides.a], [run.files for run in sides.b], renamed)
    common = set.intersection(*(set(run.tally) for run in sides.runs))
    if not common and not result.files.both:
        result.nothing = True
        result.verdict = (
            "nothing in common: no call and no file of one is in the other; these are two different programs"
        )
        return result
    result.notes = _notes(sides)
    options = Options(min_effect, complete=not any(run.lost for run in sides.runs))
    timed = all(run.duration > 0 for run in sides.runs)
    result.run_time = compare_run_time(sides) if timed else None
    work = sum(run.work for run in sides.a) / len(sides.a)
    judge = _Judge(sides.several, min_effect, false_discoveries, work)
    judge.others = [
        *([result.run_time] if result.run_time else []),
        *compare_counts(sides, options),
        *compare_access(sides, options),
        *(compare_throughput(sides) if timed else []),
    ]
    judge.files = compare_files(sides, result.files, options)
    judge.settle(lambda apart: compare_latencies(sides, apart))
    rest = [d for d in _fold(judge.all) if d is not result.run_time]
    slower = result.run_time is None or result.run_time.effect >= 0 or not result.run_time.significant
    rest.sort(key=lambda d: _rank(d, slower))
    result.differences = rest
    for difference in result.found[:5]:
        if difference.metric == "latency" and difference.kind not in ("between", "wait", "all"):
            path = sides.b[0].busiest(difference.subject)
            if path:
                difference.note = "; ".join(filter(None, [f"most in {path}", difference.note]))
    result.verdict = _verdict(result)
    return result


def _find_copy(sides: Sides) -> tuple[str, str] | None:
    """Two trails that hold the same calls at the same times."""
    seen: list[Run] = []
    for run in sides.runs:
        for other in seen:
            if identical(run.trail, other.trail):
                return str(other.trail.path), str(run.trail.path)
        seen.append(run)
    return None


def identical(a: Trail, b: Trail) -> bool:
    """Whether two trails hold the same calls. The same folder is; a copy is found by hashes of its rows."""
    if os.path.realpath(a.path) == os.path.realpath(b.path) and a.part == b.part:
        return True
    columns = {
        "file_op": "ts, dur, thread, call, file, pos, length, result, errno",
        "sync_op": "ts, dur, thread, call, object, length, result, errno",
    }
    whole = a.part is None and b.part is None
    if whole and any(a.rows.get(table) != b.rows.get(table) for table in columns):
        return False
    sums = [
        [trail.rows_of(f"SELECT bit_xor(hash({of})) AS h FROM {table}") for table, of in columns.items()]
        for trail in (a, b)
    ]
    return sums[0] == sums[1]


def _notes(sides: Sides) -> list[str]:
    """What weakens the comparison."""
    notes = lost_records(sides.runs)
    programs = [frozenset.union(*(run.programs for run in side)) for side in (sides.a, sides.b)]
    if all(programs) and not programs[0] & programs[1]:
        ran = [", ".join(sorted(each)[:4]) for each in programs]
        notes.append(f"A ran {ran[0]}, B ran {ran[1]}: different programs, not one that was changed")
    for name, side in (("A", sides.a), ("B", sides.b)):
        if all(run.programs for run in side) and not frozenset.intersection(*(run.programs for run in side)):
            ran = [", ".join(sorted(run.programs)[:4]) for run in side]
            notes.append(f"the runs of {name} are of different programs: {'; '.join(ran)}")
    starts = [[run.start for run in side] for side in (sides.a, sides.b)]
    apart = max(starts[0]) < min(starts[1]) or max(starts[1]) < min(starts[0])
    if len(sides.a) > 1 and len(sides.b) > 1 and apart:
        first = "A" if max(starts[0]) < min(starts[1]) else "B"
        notes.append(
            f"all runs of {first} were recorded before the others: a machine that changed meanwhile looks the same as a "
            "difference of the program; record A and B alternately"
        )
    untimed = [run for run in sides.runs if run.duration <= 0 or not run.latencies]
    if untimed:
        notes.append(
            f"{', '.join(str(run.trail.path) for run in untimed)}: no times of calls; only counts are compared"
        )
    if len(sides.runs) > 2 and min(len(sides.a), len(sides.b), len(sides.runs) - 3) < 2:
        notes.append(
            "fewer than three runs a side: only large differences can be told from those between runs"
        )
    return notes


class _Judge:
    """Adjusts for the number of comparisons and says which are more than noise."""

    def __init__(self, several: bool, min_effect: float, false_discoveries: float, work: float) -> None:
        self.several = several
        self.min_effect = min_effect
        self.false_discoveries = false_discoveries
        self.work = work
        self.others: list[Difference] = []
        # A family of their own: thousands of files would hide a call.
        self.files: list[Difference] = []
        self.latencies: list[Difference] = []

    @property
    def all(self) -> list[Difference]:
        return self.others + self.files + self.latencies

    def settle(self, latencies: Callable[[frozenset[str]], list[Difference]]) -> None:
        """Judge until no further call is found that must not speak for the others."""
        apart: frozenset[str] = frozenset()
        while True:
            self.latencies = latencies(apart)
            self._judge(self.others + self.latencies)
            self._judge(self.files)
            found = [d for d in self.latencies if d.significant and d.subject not in (*apart, EVERY_CALL)]
            if not found:
                return
            apart |= {min(found, key=lambda d: (d.p or 0.0, -abs(d.effect))).subject}

    def _judge(self, differences: list[Difference]) -> None:
        tested = [d for d in differences if d.p is not None]
        for difference, q in zip(tested, noise.discoveries([d.p or 0.0 for d in tested]), strict=True):
            difference.q = q
        for difference in differences:
            if difference.metric in ("latency", "run time", "throughput"):
                sure = difference.exact or (
                    difference.q is not None and difference.q <= self.false_discoveries
                )
                difference.significant = sure and self._matters(difference)
            elif not difference.exact:
                difference.significant = (
                    difference.q is not None
                    and difference.q <= self.false_discoveries
                    and abs(difference.effect) >= self.min_effect
                )
            if difference.significant:
                difference.answer = DIFFERS
            elif difference.metric in ("latency", "run time", "throughput"):
                # shown to be small, or not shown
                inside = max(abs(difference.low), abs(difference.high)) < self.min_effect
                difference.answer = ALIKE if self.several or inside else UNKNOWN
            elif self.several:
                difference.answer = ALIKE if difference.note.startswith("within") else UNKNOWN

    def _matters(self, difference: Difference) -> bool:
        if difference.metric != "latency":
            return abs(difference.effect) >= self.min_effect
        added = abs(difference.added_ns or 0)
        large = self.several and added >= LARGE_SHARE * self.work
        return added >= MIN_ADDED * self.work and (abs(difference.effect) >= self.min_effect or large)


def _fold(differences: list[Difference]) -> list[Difference]:
    """A call of which all take longer is one line: that its fastest do too goes with it."""
    whole = {
        d.subject: d for d in differences if d.metric == "latency" and d.part in (BODY, "") and d.significant
    }
    kept = []
    for d in differences:
        line = whole.get(d.subject)
        if d.metric == "latency" and d.part == FAST and d.significant and line and d.effect * line.effect > 0:
            line.note = "; ".join(filter(None, [f"{FAST} {d.effect:+.1%}", line.note]))
        else:
            kept.append(d)
    return kept


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


def _verdict(result: Comparison) -> str:
    found, run = result.found, result.run_time
    more = ""
    if found:
        counts = [d for d in found if d.metric not in ("latency", "throughput")]
        parts = [
            counted(len(counts), "count differs", "counts differ") if counts else "",
            counted(len(found) - len(counts), "difference in time", "differences in time")
            if len(found) > len(counts)
            else "",
        ]
        more = f"; {' and '.join(filter(None, parts))}, first {describe(found[0])}"
    if run is None:
        return f"no times to compare{more or '; no count differs'}"
    times = f"B {duration(run.b)}, A {duration(run.a)}"
    if run.significant:
        text = f"B is {abs(run.effect):.1%} {'slower' if run.effect > 0 else 'faster'} than A ({times})"
    elif run.answer == UNKNOWN:
        text = f"run time: can't tell from one run each ({run.effect:+.1%}; {times})"
    else:
        text = f"run time: no difference beyond that between runs ({run.effect:+.1%}; {times})"
    if found or run.significant:
        return text + more
    compared = len([d for d in result.differences if d.metric in ("latency", "throughput")]) + 1
    if not result.several:
        return (
            f"no count differs; times can't be told from one run each: none of {compared} differs by more than equal runs "
            f"may (means by a factor of {PLAUSIBLE:g}, fastest calls by {PLAUSIBLE_FAST:g}; run time "
            f"{run.effect:+.1%})"
        )
    return f"no difference beyond that between runs in {compared} comparisons of times and all counts (run time {run.effect:+.1%})"
