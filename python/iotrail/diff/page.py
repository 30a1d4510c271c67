"""`iotrail diff --html`: the comparison as one page without scripts, its drawings inline SVG; light and dark.

Colours of the two runs are the first two of the palette by Okabe and Ito, told apart by the colour-blind too; B is
dashed besides.
"""

import html
import math
from collections.abc import Sequence

import numpy as np

from iotrail.diff.compare import Comparison, Difference, signed
from iotrail.diff.noise import Series
from iotrail.diff.run import SLICES, Run, coarse
from iotrail.diff.show import OVERVIEW, change, effect, figure, interval
from iotrail.native import package_version
from iotrail.units import decimal, duration, size

# How the page is recognised, so that writing it again over itself needs no --force.
GENERATOR = b'<meta name="generator" content="iotrail diff"'
# Calls whose distributions are drawn.
MOST_DRAWN = 8
# Calls that make a distribution.
LEAST_DRAWN = 30
WIDTH, HEIGHT, LEFT, BOTTOM = 560, 150, 58, 20

STYLE = """
:root { color-scheme: light dark; --a: light-dark(#0072b2, #56b4e9); --b: light-dark(#d55e00, #e69f00);
  --dim: light-dark(#5c6166, #9aa0a6); --line: light-dark(#d9dce0, #3a3f44); --back: light-dark(#fff, #16181b);
  --worse: light-dark(#b3261e, #f28b82); --better: light-dark(#146c2e, #81c995); }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
  background: var(--back); color: light-dark(#1c1e21, #e8eaed); }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.verdict { font-size: 1.1rem; padding: .8rem 1rem; border-left: 4px solid var(--b); background: light-dark(#f6f7f8, #202327); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; color: var(--dim); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
td:first-child { white-space: normal; overflow-wrap: anywhere; } .note, .dim { color: var(--dim); }
.worse { color: var(--worse); } .better { color: var(--better); } .scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 11px; } .grid { stroke: var(--line); }
.run-a { stroke: var(--a); } .run-b { stroke: var(--b); stroke-dasharray: 5 3; } .run-a, .run-b { fill: none; stroke-width: 1.8; }
.key-a { color: var(--a); font-weight: 700; } .key-b { color: var(--b); font-weight: 700; }
"""


def render(result: Comparison, a: Run, b: Run) -> bytes:
    """The page."""
    parts = [f"<h1>iotrail diff</h1>{_keys(result)}<p class='verdict'>{_text(result.verdict)}</p>"]
    if result.run_time is not None:
        parts += [
            _found(result),
            _unproven(result),
            _overview(result),
            _over_time(a, b),
            _latencies(result, a, b),
            _files(result),
        ]
    body = "\n".join(part for part in parts if part)
    made_by = f"iotrail {package_version() or ''}"
    name = f"{result.a.rsplit('/', 1)[-1]} and {result.b.rsplit('/', 1)[-1]}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"{GENERATOR.decode()}>"
        '<meta name="viewport" content="width=device-width">'
        f"<title>iotrail diff: {_text(name)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}<p class='dim'>{made_by}</p></main></body></html>\n"
    ).encode()


def _text(value: str) -> str:
    return html.escape(value, quote=True)


def _keys(result: Comparison) -> str:
    return (
        f"<p><span class='key-a'>A ──</span> {_text(result.a)}<br>"
        f"<span class='key-b'>B ╌╌</span> {_text(result.b)}</p>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th scope='col'>{_text(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _found(result: Comparison) -> str:
    if not result.found:
        return ""
    rows = []
    for difference in result.found:
        note = f"<br><span class='note'>{_text(difference.note)}</span>" if difference.note else ""
        rows.append(
            (
                f"<b>{_text(difference.name)}</b>{note}",
                figure(difference.a, difference.unit),
                figure(difference.b, difference.unit),
                effect(difference),
                interval(difference),
                _added(difference),
                f"{difference.q:.0e}" if difference.q else "exact",
            )
        )
    names = ("what", "A", "B", "change", "95 % interval", "adds", "q")
    return f"<h2>Beyond noise, by the time it adds</h2>{_table(names, rows)}"


def _added(difference: Difference) -> str:
    if difference.added_ns is None:
        return ""
    return f"<span class='{'worse' if difference.added_ns > 0 else 'better'}'>{signed(difference.added_ns)}</span>"


def _unproven(result: Comparison) -> str:
    rows = [
        (
            _text(d.name) + (f" <span class='note'>{_text(d.note)}</span>" if d.note else ""),
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
    return f"<h2>Large, but not shown to be more than noise</h2><div class='dim'>{_table(names, rows)}</div>"


def _overview(result: Comparison) -> str:
    rows = []
    for name, column, unit in OVERVIEW:
        a, b = result.overview_a[column] or 0, result.overview_b[column] or 0
        if a or b:
            rows.append((name, figure(a, unit), figure(b, unit), change(a, b)))
    return f"<h2>Both runs</h2>{_table(('', 'A', 'B', 'change'), rows)}"


def _over_time(a: Run, b: Run) -> str:
    def rate(run: Run, kind: str) -> Series:
        wanted = [c for c in run.counts.values() if (c.kind == kind if kind else c.kind != "wait")]
        series = sum((coarse(c.bytes if kind else c.n) for c in wanted), np.zeros(SLICES))
        return np.asarray(series * (SLICES * 1e9 / max(run.duration, 1)))

    def moments(run: Run) -> Series:
        return np.asarray((np.arange(SLICES) + 0.5) * (run.duration / SLICES), dtype=float)

    plots = []
    for title, kind in (
        ("Operations a second", ""),
        ("Bytes read a second", "read"),
        ("Bytes written a second", "write"),
    ):
        lines = [(moments(run), rate(run, kind)) for run in (a, b)]
        if any(y.any() for _, y in lines):
            plots.append(
                _plot(
                    title,
                    lines,
                    0.0,
                    float(max(a.duration, b.duration, 1)),
                    size if kind else decimal,
                    duration,
                )
            )
    return f"<h2>Over time</h2><div class='plots'>{''.join(plots)}</div>" if plots else ""


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
            plots.append(
                _plot(
                    f"{call}{mark}", lines, low, high,
                    lambda y: f"{y:.0%}", lambda x: duration(2.0**x),
                )
            )  # fmt: skip
    return f"<h2>Latencies, share of calls</h2><div class='plots'>{''.join(plots)}</div>" if plots else ""


def _plot(title, lines, low, high, y_text, x_text) -> str:  # type: ignore[no-untyped-def]
    top = max(float(y.max()) for _, y in lines) or 1.0
    span = (high - low) or 1.0

    def place(x: float, y: float) -> str:
        return f"{LEFT + (x - low) / span * (WIDTH - LEFT - 12):.1f},{(HEIGHT - BOTTOM) - y / top * (HEIGHT - BOTTOM - 10):.1f}"

    drawn = []
    for share in (0.0, 0.5, 1.0):
        height = place(low, top * share).split(",")[1]
        drawn.append(f"<line class='grid' x1='{LEFT}' x2='{WIDTH - 12}' y1='{height}' y2='{height}'/>")
        drawn.append(
            f"<text x='{LEFT - 6}' y='{float(height) + 4}' text-anchor='end'>{_text(y_text(top * share))}</text>"
        )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = place(low + span * share, 0).split(",")[0]
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        drawn.append(
            f"<text x='{x}' y='{HEIGHT - 4}' text-anchor='{anchor}'>{_text(x_text(low + span * share))}</text>"
        )
    for name, (xs, ys) in zip("ab", lines, strict=True):
        points = " ".join(place(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if math.isfinite(y))
        drawn.append(f"<polyline class='run-{name}' points='{points}'/>")
    return (
        f"<figure><figcaption>{_text(title)}</figcaption><svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='{_text(title)}: A solid, B dashed'>{''.join(drawn)}</svg></figure>"
    )


def _files(result: Comparison) -> str:
    files = result.files
    if files is None:
        return ""
    rows = [
        *((_text(f.name), "only in A", f"{f.ops:,}", "", size(f.bytes), "") for f in sorted(files.only_a, key=lambda f: -f.ops)[:20]),
        *((_text(f.name), "only in B", "", f"{f.ops:,}", "", size(f.bytes)) for f in sorted(files.only_b, key=lambda f: -f.ops)[:20]),
        *(
            (_text(p.name), "changed", f"{p.ops_a:,}", f"{p.ops_b:,}", size(p.bytes_a), size(p.bytes_b))
            for p in sorted(files.changed, key=lambda p: -abs(p.ops_b - p.ops_a))[:20]
        ),
    ]  # fmt: skip
    if not rows:
        return ""
    names = ("file", "", "operations A", "B", "bytes A", "B")
    return f"<h2>Files</h2>{_table(names, rows)}"
