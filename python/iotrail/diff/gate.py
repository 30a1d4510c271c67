"""`--fail-on METRIC:THRESHOLD`: which differences a pipeline refuses."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from iotrail.diff.compare import Comparison
from iotrail.diff.difference import Difference, describe
from iotrail.errors import UsageError

# Status of the command: a gate refuses; none does, but one can't be judged.
REFUSED, UNDECIDED = 1, 3
METRICS = {
    "any": "any difference beyond noise",
    "slower": "B's run time is longer",
    "latency": "a call takes longer (latency.pread: that call)",
    "calls": "a call is made more or less often (calls.fsync: that call)",
    "bytes": "a call moves more or fewer bytes (bytes.pwrite: that call)",
    "errors": "a call fails more or less often",
    "throughput": "B does less a second of the same",
    "size": "the mix of sizes changed",
    "pattern": "the shares of consecutive, strided and irregular accesses changed",
    "files": "files are only in one, or are used more or less",
}
# Of --requests.
REQUEST_METRICS = {
    "any": "any difference beyond noise",
    "slower": "requests of a kind take longer until their reply",
    "step": "a step takes longer",
    "part": "something is done more or less often a request",
    "shape": "a path is new, gone, or another share of the requests takes it",
}
_Found = TypeVar("_Found", bound=Difference)
_OF_METRIC = {"calls": "count"}
# Compared exactly: without a threshold any difference that is reported refuses.
_COUNTS = ("calls", "bytes", "errors", "files")
_WORSE = {"slower": 1, "latency": 1, "step": 1, "throughput": -1}


@dataclass(frozen=True)
class Gate:
    """One --fail-on."""

    text: str
    metric: str
    call: str | None
    # Smallest relative change (of shares: in points) that fails; None: any that is reported.
    threshold: float | None

    def refuses(self, result: Comparison) -> Difference | None:
        """The first difference beyond noise that fails, None if all may pass."""
        run_time = [result.run_time] if result.run_time is not None and result.run_time.significant else []
        return self.first(run_time + result.found)

    def undecided(self, result: Comparison) -> str | None:
        """Why nothing refused says nothing: the runs can't tell of a difference that would refuse."""
        if result.nothing:
            return result.verdict
        open_one = self.first(result.undecided(self.call))
        return None if open_one is None else f"{open_one.metric}: {describe(open_one)}"

    def first(self, found: Iterable[_Found]) -> _Found | None:
        """The first of these that fails, None if all may pass."""
        return next((d for d in found if self._matches(d)), None)

    def _matches(self, difference: Difference) -> bool:
        if self.metric == "slower":
            of_metric = difference.metric in ("run time", "request")
        elif self.metric == "any":
            of_metric = True
        else:
            of_metric = difference.metric == _OF_METRIC.get(self.metric, self.metric)
        if self.threshold is None and self.metric not in _WORSE:
            return of_metric and self.call in (None, difference.subject)
        threshold = self.threshold or 0.0
        change = difference.effect * _WORSE[self.metric] if self.metric in _WORSE else abs(difference.effect)
        return of_metric and self.call in (None, difference.subject) and change >= threshold


def parse(text: str, default: float, metrics: Mapping[str, str] = METRICS) -> Gate:
    """`METRIC`, `METRIC:5%`, `METRIC.CALL:5%`."""
    name, separator, number = text.partition(":")
    metric, _, call = name.partition(".")
    if metric not in metrics:
        raise UsageError(
            f"--fail-on {text}: no metric {metric!r}",
            "\n".join(f"{known}: {meaning}" for known, meaning in metrics.items()),
        )
    threshold = default if separator == "" and metric not in (*_COUNTS, "any") else None
    if separator:
        threshold = percent(number, f"--fail-on {text}")
    return Gate(text, metric, call or None, threshold)


def percent(text: str, option: str) -> float:
    """5% or 0.05 as a share."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if not found or (not found[2] and float(found[1]) >= 1):
        raise UsageError(f"{option}: expected a share, found {text!r}", "5% or 0.05")
    return float(found[1]) / (100 if found[2] else 1)


def line(gate: Gate, difference: Difference) -> str:
    """What is said when a gate fails."""
    return f"--fail-on {gate.text}: {difference.metric}: {describe(difference)}"
