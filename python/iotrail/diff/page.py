"""`iotrail diff --html`: the comparison as one page. A's lines are solid, B's dashed."""

from collections.abc import Callable, Iterable

import numpy as np

from iotrail.diff.compare import ADVICE, Comparison
from iotrail.diff.difference import Difference, change_of, signed
from iotrail.diff.noise import Series
from iotrail.diff.run import SLICES, Run, Sides, coarse
from iotrail.diff.show import (
    HEADINGS,
    OPEN_HEADINGS,
    by_change,
    doubt,
    figure,
    interval,
    judged,
    overview_rows,
)
from iotrail.page import Html, document, figures, table, tag
from iotrail.page.colours import FIRST, SECOND
from iotrail.page.plot import Axis, Drawing, Plot, linear, octaves
from iotrail.units import decimal, duration, size

# Calls whose distributions are drawn.
MOST_DRAWN = 8
# Differences of which each run is drawn.
MOST_DOTTED = 8
# Calls that make a distribution.
LEAST_DRAWN = 30

Line = tuple[Series, Series]


def render(result: Comparison, sides: Sides) -> bytes:
    """The page."""
    parts: list[str] = [
        keys(", ".join(result.a), ", ".join(result.b)),
        tag("p", result.verdict, of="verdict"),
    ]
    parts += [tag("p", note, of="note") for note in result.notes]
    if result.files is not None:
        if not result.several:
            parts.append(tag("p", ADVICE, of="note"))
        parts += [
            _found(result),
            _dots(result),
            _unproven(result),
            _overview(result),
            _over_time(sides.a[0], sides.b[0], result.several),
            _latencies(result, sides),
            _files(result),
        ]
    first, second = (", ".join(trail.rsplit("/", 1)[-1] for trail in side) for side in (result.a, result.b))
    return document("diff", f"{first} and {second}", parts)


def keys(a: str, b: str) -> Html:
    """Which run is which, and how each is drawn."""
    return tag(
        "p", tag("span", "A ──", of="first"), f" {a}", Html("<br>"), tag("span", "B ╌╌", of="second"), f" {b}"
    )


def lines_of_both(caption: str, x: Axis, y: Axis, lines: Iterable[Line], note: str = "") -> Drawing:
    """The lines of A and B."""
    plot = Plot(x, y)
    for (xs, ys), colour in zip(lines, (FIRST, SECOND), strict=True):
        plot.line(xs, ys, colour, dashed=colour == SECOND)
    return plot.drawing(caption, note)


def _found(result: Comparison) -> str:
    if not result.found:
        return ""
    rows = [
        (
            Html(f"{tag('b', d.name)}{_note(d, Html('<br>'))}"),
            figure(d.a, d.unit),
            figure(d.b, d.unit),
            change_of(d),
            interval(d),
            "" if d.added_ns is None else added(d.added_ns),
            judged(d),
        )
        for d in result.found
    ]
    names = ("what", "A", "B", "change", "95 % interval", "adds", "q")
    return tag("h2", HEADINGS[result.several]) + table(names, rows)


def _dots(result: Comparison) -> str:
    """What each run shows, of the run time and of the first differences: a dot a run, A's row above B's."""
    drawn = [
        d for d in (result.run_time, *result.found) if d is not None and len(d.runs_a) + len(d.runs_b) > 2
    ]
    plots = []
    for d in drawn[:MOST_DOTTED]:
        values = [*d.runs_a, *d.runs_b]
        low, high = min(values), max(values)
        room = (high - low or abs(high) or 1.0) * 0.08
        x = linear(low - room, high + room, lambda value, unit=d.unit: _worded(value, unit), most=4)  # type: ignore[misc]
        plot = Plot(x, Axis(0.0, 3.0, ((2.0, "A"), (1.0, "B"))), height=84)
        for runs, y, colour in ((d.runs_a, 2.0, FIRST), (d.runs_b, 1.0, SECOND)):
            plot.dots([(value, y) for value in runs], colour, 0.75, width=9)
        plots.append(plot.drawing(d.name, change_of(d)))
    return tag("h2", "Each run") + figures(plots) if plots else ""


def _worded(value: float, unit: str) -> str:
    return f"{value:.0%}" if unit == "share" else figure(value, unit)


def _note(difference: Difference, before: str) -> Html:
    return Html(f"{before}{tag('span', difference.note, of='note')}" if difference.note else "")


def added(ns: float) -> Html:
    """Time that was added or saved."""
    return tag("span", signed(ns), of="worse" if ns > 0 else "better")


def _unproven(result: Comparison) -> str:
    rows = [
        (
            Html(f"{tag('span', d.name)}{_note(d, ' ')}"),
            change_of(d),
            interval(d),
            signed(d.added_ns or 0),
            doubt(d),
        )
        for d in result.unproven[:10]
    ]
    if not rows:
        return ""
    names = ("what", "change", "95 % interval", "would add", "why not reported")
    shown = tag("div", table(names, rows), of="dim")
    return tag("h2", OPEN_HEADINGS[result.several]) + shown


def _overview(result: Comparison) -> str:
    return tag("h2", "Both runs") + table(("", "A", "B", "change"), overview_rows(result))


def _over_time(a: Run, b: Run, several: bool) -> str:
    """Rates of the first run of each side."""

    def rate(run: Run, kind: str) -> Series:
        wanted = [c for c in run.counts.values() if (c.kind == kind if kind else c.kind != "wait")]
        series = sum((coarse(c.bytes if kind else c.n) for c in wanted), np.zeros(SLICES))
        return np.asarray(series * (SLICES * 1e9 / max(run.duration, 1)))

    def moments(run: Run) -> Series:
        return np.asarray((np.arange(SLICES) + 0.5) * (run.duration / SLICES), dtype=float)

    time = linear(0.0, float(max(a.duration, b.duration, 1)), duration)
    plots = []
    for title, kind in (
        ("Operations a second", ""),
        ("Bytes read a second", "read"),
        ("Bytes written a second", "write"),
    ):
        lines = [(moments(run), rate(run, kind)) for run in (a, b)]
        if any(y.any() for _, y in lines):
            y = from_zero(lines, size if kind else decimal, binary=bool(kind))
            plots.append(lines_of_both(title, time, y, lines))
    title = "Over time: the first run of each side" if several else "Over time"
    return tag("h2", title) + figures(plots) if plots else ""


def from_zero(lines: Iterable[Line], words: Callable[[float], str], *, binary: bool = False) -> Axis:
    """The axis of what both lines show."""
    top = max(float(y.max()) for _, y in lines) or 1.0
    return linear(0.0, top, words, most=5 if binary else 3, binary=binary)


def _latencies(result: Comparison, sides: Sides) -> str:
    """The distributions of the calls that changed, and of those with most time besides: a line a run."""
    changed = [d.subject for d in result.found if d.metric == "latency"]
    first = sides.a[0].latencies
    rest = sorted(first, key=lambda call: -first[call].n * first[call].mean)
    common = set.intersection(*(set(run.latencies) for run in sides.runs))
    drawn = [c for c in dict.fromkeys([*changed, *rest]) if c in common and first[c].n >= LEAST_DRAWN][
        :MOST_DRAWN
    ]
    plots = []
    for call in drawn:
        lines = [_distribution(run, call) for run in sides.runs]
        if all(len(x) for x, _ in lines):
            low = min(float(x[0]) for x, _ in lines)
            high = max(float(x[-1]) for x, _ in lines)
            plot = Plot(octaves(low, high, duration), from_zero(lines, lambda share: f"{share:.0%}"))
            for number, (xs, ys) in enumerate(lines):
                of_b = number >= len(sides.a)
                plot.line(xs, ys, SECOND if of_b else FIRST, dashed=of_b)
            plots.append(plot.drawing(f"{call}{' · changed' if call in changed else ''}"))
    return tag("h2", "Latencies, share of calls") + figures(plots) if plots else ""


def _distribution(run: Run, call: str) -> Line:
    rows = run.arrays(
        "SELECT latency, SUM(n)::DOUBLE AS n FROM latency WHERE call = $call GROUP BY latency ORDER BY latency",
        {"call": call},
    )
    # eight bins an octave: 32 are more than the eye wants
    bins = np.floor(np.log2(np.maximum(rows["latency"].astype(float), 1.0)) * 8).astype(int)
    if not len(bins):
        return np.zeros(0), np.zeros(0)
    lowest = int(bins.min()) - 1
    share = np.bincount(bins - lowest, weights=rows["n"].astype(float)) / float(rows["n"].sum())
    return (np.arange(len(share) + 1) + lowest) / 8, np.append(share, 0.0)


def _files(result: Comparison) -> str:
    files = result.files
    if files is None:
        return ""
    rows = [
        (row.name, said, f"{row.mean_a:,.0f}", f"{row.mean_b:,.0f}", *map(size, row.mean_bytes))
        for said, some in (
            ("only in A", files.only_a),
            ("only in B", files.only_b),
            ("changed", files.changed),
        )
        for row in by_change(some)[:20]
    ]
    if not rows:
        return ""
    names = ("file", "", "operations A", "B", "bytes A", "B")
    return tag("h2", "Files") + table(names, rows, left={1})
