"""One comparison, and what is said of it in a few words."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from iotrail.units import duration

# What a comparison answers: it differs; it doesn't by more than runs of one side do, or by no more than --min-effect;
# or the runs that there are can't tell.
DIFFERS, ALIKE, UNKNOWN = "differs", "no difference", "can't tell"


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
    # Of several runs: the geometric mean of times and rates, the mean of the rest.
    a: float
    b: float
    # Relative change, or change of a share; with its confidence interval.
    effect: float
    low: float
    high: float
    # None of what is compared exactly, and where there is too little to judge by.
    p: float | None
    # Time it adds to the threads of B, ns, with its interval; None where time is not its measure.
    added_ns: float | None = None
    added_low: float | None = None
    added_high: float | None = None
    # `p` given how many comparisons were made.
    q: float | None = None
    significant: bool = False
    answer: str = ALIKE
    # Each run of a side made the same number, and the sides differ: no matter of chance.
    exact: bool = False
    # The figure of each run.
    runs_a: list[float] = field(default_factory=list)
    runs_b: list[float] = field(default_factory=list)
    # More about it, in words.
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.part}" if self.part else self.subject

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what isn't finite is null."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def describe(difference: Difference) -> str:
    """A difference in a few words."""
    added = "" if difference.added_ns is None else f" ({signed(difference.added_ns)})"
    return f"{difference.name}: {change_of(difference)}{added}"


def change_of(difference: Difference) -> str:
    """The change in words: a share's in points; of whole numbers the number too."""
    if difference.unit == "share":
        return f"{difference.effect * 100:+.1f} points"
    if math.isinf(difference.effect):
        return "new"
    if difference.exact and abs(difference.effect) < 0.0005:
        return f"{difference.b - difference.a:+,.0f}"
    return f"{difference.effect:+.1%}"


def signed(ns: float) -> str:
    """A time with its sign."""
    return f"+{duration(ns)}" if ns >= 0 else duration(ns)
