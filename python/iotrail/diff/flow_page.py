"""`iotrail diff --requests --html`: how the requests of two runs differ, as one page. A's lines are solid, B's dashed."""

from collections.abc import Callable, Iterable

import numpy as np

from iotrail.diff.flow_command import (
    KINDS,
    RANKED,
    STEPS,
    kind_row,
    notes,
    nothing,
    samples,
    sentence,
    step_row,
)
from iotrail.diff.flow_compare import FlowComparison, FlowDifference
from iotrail.diff.page import from_zero, keys, lines_of_both
from iotrail.page import Html, document, figures, table, tag
from iotrail.page.plot import Drawing, linear
from iotrail.units import duration

# Differences that are drawn.
MOST_DRAWN = 8

_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "request": ("time until the reply", duration),
    "step": ("time it takes", duration),
    "part": ("how many a request", "{:.3g}".format),
    "shape": ("share of the requests", "{:.0%}".format),
}


def render(result: FlowComparison, of_a: str, of_b: str) -> bytes:
    """The page; `of_a` and `of_b` say which requests were chosen."""
    names = [", ".join(filter(None, (path, words))) for path, words in ((result.a, of_a), (result.b, of_b))]
    parts: list[Html] = [keys(*names), table(KINDS, map(kind_row, result.kinds))]
    parts += [tag("p", line, of="note") for line in samples(result)]
    if not result.found:
        parts.append(tag("p", nothing(result), of="verdict"))
    else:
        parts += [tag("h2", RANKED), tag("ol", *(_difference(result, d) for d in result.found))]
        steps = [d for d in result.found if d.figures]
        if steps:
            parts += [tag("h2", "Times of steps"), table(STEPS, map(step_row, steps))]
        parts += drawn(result.found)
    return document("diff", " and ".join(name.rsplit("/", 1)[-1] for name in names), parts)


def _difference(result: FlowComparison, difference: FlowDifference) -> Html:
    added = difference.added_ns
    lines = [tag("span", sentence(difference), of="" if not added else "worse" if added > 0 else "better")]
    lines += [Html("<br>") + tag("span", line, of="note") for line in notes(result, difference)]
    return tag("li", *lines)


def drawn(found: Iterable[FlowDifference]) -> list[Html]:
    """Both runs, of the first differences."""
    drawings = [_drawing(d) for d in found if d.series is not None][:MOST_DRAWN]
    if not drawings:
        return []
    meaning = "from the first to the last request, in slices of equal numbers"
    return [tag("h2", "Over the run"), figures(drawings), tag("p", meaning, of="note")]


def _drawing(difference: FlowDifference) -> Drawing:
    assert difference.series is not None
    what, words = _FIGURES[difference.metric]
    lines = [((np.arange(len(each)) + 0.5) / len(each), each) for each in difference.series]
    name = f"{difference.subject}: {difference.part}" if difference.part else difference.subject
    return lines_of_both(name, linear(0, 1, "{:.0%}".format), from_zero(lines, words), lines, what)
