"""`iotrail diff --html`: the comparison as one page. A's lines are solid, B's dashed."""

from collections.abc import Callable, Iterable

import numpy as np

from iotrail.diff.compare import Comparison, Difference, signed
from iotrail.diff.noise import Series
from iotrail.diff.run import SLICES, Run, coarse
from iotrail.diff.show import OVERVIEW, change, effect, figure, interval
from iotrail.page import Html, document, figures, table, tag
from iotrail.page.colours import FIRST, SECOND
from iotrail.page.plot import Axis, Drawing, Plot, linear, octaves
from iotrail.units import decimal, duration, size

# Calls whose distributions are drawn.
MOST_DRAWN = 8
# Calls that make a distribution.
LEAST_DRAWN = 30

Line = tuple[Series, Series]


def render(result: Comparison, a: Run, b: Run) -> bytes:
    """The page."""
    parts: list[str] = [keys(result.a, result.b), tag("p", result.verdict, of="verdict")]
    if result.run_time is not None:
        parts += [
            _found(result),
            _unproven(result),
            _overview(result),
            _over_time(a, b),
            _latencies(result, a, b),
            _files(result),
        ]
    return document("diff", f"{result.a.rsplit('/', 1)[-1]} and {result.b.rsplit('/', 1)[-1]}", parts)


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
            effect(d),
            interval(d),
            "" if d.added_ns is None else added(d.added_ns),
            f"{d.q:.0e}" if d.q else "exact",
        )
        for d in result.found
    ]
    names = ("what", "A", "B", "change", "95 % interval", "adds", "q")
    return tag("h2", "Beyond noise, by the time it adds") + table(names, rows)


def _note(difference: Difference, before: str) -> Html:
    return Html(f"{before}{tag('span', difference.note, of='note')}" if difference.note else "")


def added(ns: float) -> Html:
    """Time that was added or saved."""
    return tag("span", signed(ns), of="worse" if ns > 0 else "better")


def _unproven(result: Comparison) -> str:
    rows = [
        (
            Html(f"{tag('span', d.name)}{_note(d, ' ')}"),
            effect(d),
            interval(d),
            signed(d.added_ns or 0),
            "too few to judge" if d.p is None else f"{d.p:.2g}",
        )
        for d in result.unproven[:10]
    ]
    if not rows:
        return ""
    names = ("what", "change", "95 % interval", "would add", "p")
    shown = tag("div", table(names, rows), of="dim")
    return tag("h2", "Large, but not shown to be more than noise") + shown


def _overview(result: Comparison) -> str:
    rows = []
    for name, column, unit in OVERVIEW:
        a, b = result.overview_a[column] or 0, result.overview_b[column] or 0
        if a or b:
            rows.append((name, figure(a, unit), figure(b, unit), change(a, b)))
    return tag("h2", "Both runs") + table(("", "A", "B", "change"), rows)


def _over_time(a: Run, b: Run) -> str:
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
    return tag("h2", "Over time") + figures(plots) if plots else ""


def from_zero(lines: Iterable[Line], words: Callable[[float], str], *, binary: bool = False) -> Axis:
    """The axis of what both lines show."""
    top = max(float(y.max()) for _, y in lines) or 1.0
    return linear(0.0, top, words, most=5 if binary else 3, binary=binary)


def _latencies(result: Comparison, a: Run, b: Run) -> str:
    """The distributions of the calls that changed, and of those with most time besides."""
    changed = [d.subject for d in result.found if d.metric == "latency"]
    rest = sorted(a.latencies, key=lambda call: -a.latencies[call].n * a.latencies[call].mean)
    both = a.latencies.keys() & b.latencies.keys()
    drawn = [c for c in dict.fromkeys([*changed, *rest]) if c in both and a.latencies[c].n >= LEAST_DRAWN][
        :MOST_DRAWN
    ]
    plots = []
    for call in drawn:
        lines = []
        for run in (a, b):
            rows = run.arrays(
                "SELECT latency, SUM(n)::DOUBLE AS n FROM latency WHERE call = $call GROUP BY latency ORDER BY latency",
                {"call": call},
            )
            # eight bins an octave: 32 are more than the eye wants
            bins = np.floor(np.log2(np.maximum(rows["latency"].astype(float), 1.0)) * 8).astype(int)
            if len(bins):
                lowest = int(bins.min()) - 1
                share = np.bincount(bins - lowest, weights=rows["n"].astype(float)) / float(rows["n"].sum())
                lines.append(((np.arange(len(share) + 1) + lowest) / 8, np.append(share, 0.0)))
        if len(lines) == 2:
            low = min(float(x[0]) for x, _ in lines)
            high = max(float(x[-1]) for x, _ in lines)
            mark = " · changed" if call in changed else ""
            shares = from_zero(lines, lambda share: f"{share:.0%}")
            plots.append(lines_of_both(f"{call}{mark}", octaves(low, high, duration), shares, lines))
    return tag("h2", "Latencies, share of calls") + figures(plots) if plots else ""


def _files(result: Comparison) -> str:
    files = result.files
    if files is None:
        return ""
    rows = [
        *((f.name, "only in A", f"{f.ops:,}", "", size(f.bytes), "") for f in sorted(files.only_a, key=lambda f: -f.ops)[:20]),
        *((f.name, "only in B", "", f"{f.ops:,}", "", size(f.bytes)) for f in sorted(files.only_b, key=lambda f: -f.ops)[:20]),
        *(
            (p.name, "changed", f"{p.ops_a:,}", f"{p.ops_b:,}", size(p.bytes_a), size(p.bytes_b))
            for p in sorted(files.changed, key=lambda p: -abs(p.ops_b - p.ops_a))[:20]
        ),
    ]  # fmt: skip
    if not rows:
        return ""
    names = ("file", "", "operations A", "B", "bytes A", "B")
    return tag("h2", "Files") + table(names, rows, left={1})
