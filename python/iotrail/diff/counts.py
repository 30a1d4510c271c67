"""What two sides did, counted: calls, bytes, failures, files, the mix of sizes and patterns.

The same program with the same input makes the same calls, so counts are compared exactly. What a difference is:

- One run each: any other number, unless timing decides it (`timed` of module `tally`: waiting calls, retries). Whether
  the number varies from run to run isn't known, so there is no probability.
- Several runs: where the runs of each side agree, any other number. Where they vary, a number outside of the range of
  the other side, by more than the runs' own variance explains (Student's t of the means, pooled variance). Where timing
  decides the number, its variance is at least that of events that come by chance (Poisson), whatever the runs show.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from iotrail.diff.between import Sample, compare_means
from iotrail.diff.difference import ALIKE, UNKNOWN, Difference
from iotrail.diff.files import Files
from iotrail.diff.noise import CONFIDENCE, Estimate, Series
from iotrail.diff.run import MOST_FILES, Run, Sides, Tally
from iotrail.units import counted, human


@dataclass(frozen=True)
class Options:
    """What counts are judged by."""

    # smallest relative change of what varies from run to run, and of a share
    min_effect: float
    # no run has lost records
    complete: bool


def compare_counts(sides: Sides, options: Options) -> list[Difference]:
    """How often each call was made and failed, what it moved."""
    found = []
    keys = sorted({key for run in sides.runs for key in run.tally})
    nothing = Tally("", 0, 0, 0)
    for key in keys:
        subject, timed = key
        rows = [run.tally.get(key, nothing) for run in sides.runs]
        kind = next(row.kind for row in rows if row.kind)
        unsure = timed or not options.complete
        words = ", retried" if timed and kind != "wait" else ""
        calls = _compare(
            sides, options, ("count", subject, f"calls{words}", kind, "ops"), [row.n for row in rows], unsure
        )
        if calls:
            _add_time(calls, sides)
            found.append(calls)
        bytes = _compare(
            sides,
            options,
            ("bytes", subject, f"bytes moved{words}", kind, "bytes"),
            [row.bytes for row in rows],
            unsure,
        )
        if bytes and not _follows(bytes, calls, options.min_effect):
            found.append(bytes)
        errors = _compare(
            sides,
            options,
            ("errors", subject, f"failed{words}", kind, "ops"),
            [row.errors for row in rows],
            unsure,
        )
        if errors:
            found.append(errors)
    return found


def _follows(bytes: Difference, calls: Difference | None, least: float) -> bool:
    """Whether another number of calls that move as much each is all there is to it."""
    if calls is None or not (calls.a and calls.b and bytes.a and bytes.b):
        return calls is not None and bytes.significant <= calls.significant
    return abs(bytes.b / bytes.a * calls.a / calls.b - 1) < least


def _add_time(calls: Difference, sides: Sides) -> None:
    """Calls that came cost what they take in B, calls that went what they took in A."""
    more = calls.b > calls.a
    means = [
        run.latencies[calls.subject].mean
        for run in (sides.b if more else sides.a)
        if calls.subject in run.latencies
    ]
    if means:
        each = float(np.mean(means))
        calls.added_ns = (calls.b - calls.a) * each
        if calls.p is not None and calls.a:
            calls.added_low, calls.added_high = calls.low * calls.a * each, calls.high * calls.a * each


def compare_files(sides: Sides, files: Files, options: Options) -> list[Difference]:
    """Operations on each file of both sides, where their number differs; and files that only one side has."""
    found = []
    for row in sorted(files.changed, key=lambda row: -abs(row.mean_b - row.mean_a))[:MOST_FILES]:
        difference = _compare(
            sides, options, ("files", row.name, "operations", "", "ops"), row.ops, not options.complete
        )
        if difference:
            found.append(difference)
    for part, alone, runs in (("only in A", files.only_a, sides.a), ("only in B", files.only_b, sides.b)):
        done = sum(row.mean_a + row.mean_b for row in alone)
        if not done:
            continue
        share = done / max(float(np.mean([run.overview["ops"] for run in runs])), 1.0)
        effect = share if part == "only in B" else -share
        difference = Difference(
            "files", counted(len(alone), "file"), part, "", "share",
            max(-effect, 0.0), max(effect, 0.0), effect, effect, effect, None,
        )  # fmt: skip
        # such a file is in every run of a side and in none of the other
        difference.exact = difference.significant = options.complete
        difference.answer = ALIKE if options.complete else UNKNOWN
        difference.note = (
            f"share of operations; most in {max(alone, key=lambda row: row.mean_a + row.mean_b).name}"
        )
        found.append(difference)
    return found


def compare_access(sides: Sides, options: Options) -> list[Difference]:
    """Sizes of reads and writes, and how they follow each other: shares of their number."""
    found = []
    for kind in sorted(set.intersection(*(set(run.access) for run in sides.runs))):
        for metric in ("size", "pattern"):
            classes = [run.access[kind][metric] for run in sides.runs]
            wholes = [sum(each.values()) for each in classes]
            if not all(wholes):
                continue
            for name in sorted({name for each in classes for name in each}, key=lambda n: (len(n), n)):
                shares = [each.get(name, 0.0) / whole for each, whole in zip(classes, wholes, strict=True)]
                words = f"of {human(int(name), 'bytes')} and more" if metric == "size" else name
                difference = _compare(
                    sides, options, (metric, f"{kind}s", words, kind, "share"), shares, not options.complete
                )
                if difference and abs(difference.effect) >= options.min_effect:
                    found.append(difference)
    return found


def _compare(
    sides: Sides,
    options: Options,
    names: tuple[str, str, str, str, str],
    figures: Sequence[float],
    unsure: bool,
) -> Difference | None:
    """A count or share of each run; None if all are the same. `unsure`: timing decides it, or records were lost."""
    a, b = (np.array(part, dtype=float) for part in (figures[: len(sides.a)], figures[len(sides.a) :]))
    if (a == a[0]).all() and (b == a[0]).all():
        return None
    mean_a, mean_b = float(a.mean()), float(b.mean())
    is_share = names[4] == "share"
    base = 1.0 if is_share else mean_a or math.inf
    effect = math.inf if not is_share and not mean_a else (mean_b - mean_a) / base
    difference = Difference(
        *names, mean_a, mean_b, effect, effect, effect, None, runs_a=list(a), runs_b=list(b)
    )
    steady = (a == a[0]).all() and (b == b[0]).all()
    apart = a.max() < b.min() or b.max() < a.min()
    if not sides.several:
        difference.exact = difference.significant = not unsure
        if unsure:
            difference.answer = UNKNOWN
    elif not apart:
        difference.note = "within what runs of one side differ by"
    elif steady and not unsure:
        difference.exact = difference.significant = True
    else:
        estimate = _compare_varying(a, b, chance=unsure and not is_share)
        difference.p = estimate.p
        difference.low, difference.high = estimate.low / base, estimate.high / base
    return difference


def _compare_varying(a: Series, b: Series, *, chance: bool) -> Estimate:
    """The difference of two means of counts that vary from run to run."""
    estimate = compare_means(Sample(a, b, None), None)
    if not chance or estimate.p is None:
        return estimate
    # events that come by chance vary at least this much (Poisson), however alike these few runs are
    least = math.sqrt(float(a.mean() / len(a) + b.mean() / len(b)))
    margin = float(ndtri((1 + CONFIDENCE) / 2)) * least
    value = estimate.value
    return Estimate(
        value,
        min(estimate.low, value - margin),
        max(estimate.high, value + margin),
        max(estimate.p, 2 * float(ndtr(-abs(value) / least))),
    )


def lost_records(runs: Sequence[Run]) -> list[str]:
    """A sentence about each run whose counts are too low."""
    return [
        f"{run.trail.path} lost {counted(run.lost, 'record')}: its counts are too low, so counts are not compared exactly"
        for run in runs
        if run.lost
    ]
