"""Tables and figures of caching.py: speed-ups of an application, of its model and of the baseline beside each other."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich.box
from rich.table import Table

from iotrail import units
from iotrail.page.colours import DIM, FIRST, SECOND, TEXT
from iotrail.page.plot import Axis, Drawing, Plot, octaves, sheet, words
from iotrail.terminal import Console

if TYPE_CHECKING:
    from caching import Study

LOOPS = {
    "open": "mean response at recorded times without caches, by that with them",
    "saturated": "requests per second if all wait, by those without caches",
}
_TITLES = {"open": "At recorded times", "saturated": "Saturated"}
NOTES = (
    "Caches are LRU, write-back and empty at first. model: median (and range) of draws with several seeds. baseline: each request "
    "drawn by itself, with the application's mix, sizes and rate, anywhere below the end of its addresses.",
    "A trace that uses less than 8 GB has caches of a fifth of what it uses each.",
)
# Points from which on a model's error is named.
NAMED = 10
# Points by which two errors may differ and count as alike.
ALIKE = 1
# Drawings in a row, and their pixels.
_COLUMNS, _WIDTH, _HEIGHT = 3, 290, 165
# Opacity of the bars of one to four caches.
_SHADES = (0.25, 0.45, 0.7, 1.0)


def show(studies: Sequence["Study"]) -> None:
    """Print a table for each loop, and where models are off."""
    console = Console(piped=120)
    for loop, meaning in LOOPS.items():
        table = Table(box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("application")
        table.add_column("")
        for count in range(1, 5):
            table.add_column(f"{count} cache{'s' * (count > 1)}", justify="right")
        for study in studies:
            rows = study.compare(loop)
            facts = [f"{study.requests:,} requests", f"caches of {size(study.cache_bytes)}"]
            table.add_row(study.name, "original", *(f"{row['original']:.2f}     " for row in rows))
            for fact, name in zip(facts, ("model", "baseline"), strict=True):
                cells = []
                for row in rows:
                    low, high = row["model_range"]
                    spread = f" ({low:.2f}–{high:.2f})" if name == "model" and len(study.model) > 1 else ""
                    cells.append(f"{row[name]:.2f}{spread} {_points(row[f'{name}_error_points']):>5}")
                table.add_row(f"  {fact}", name, *cells)
            table.add_section()
        console.print(f"Speed-up: {meaning}; beside it the error in points (0.01)")
        console.print(table)
        for line in judge(studies, loop):
            console.print(line)
        console.print()
    for note in NOTES:
        console.print(note, style="dim")


def size(count: int) -> str:
    """Bytes in powers of 1000, as sizes of drives are said."""
    return f"{units.decimal(count)}B".replace(".00 ", " ").replace(".0 ", " ")


def _points(value: float) -> str:
    return f"{round(value) or 0:+d}".replace("+0", "0").replace("-", "−")


def judge(studies: Sequence["Study"], loop: str) -> list[str]:
    """How far models and baselines are off, in sentences."""
    cells = [(study, row) for study in studies for row in study.compare(loop)]
    errors = {name: [abs(row[f"{name}_error_points"]) for _, row in cells] for name in ("model", "baseline")}
    means = {name: sum(each) / len(each) for name, each in errors.items()}
    by = [baseline - model for model, baseline in zip(*errors.values(), strict=True)]
    nearer, farther = (sum(sign * each > ALIKE for each in by) for sign in (1, -1))
    lines = [
        f"Mean error: model {means['model']:.0f} points, baseline {means['baseline']:.0f}. Of {len(cells)} speed-ups, the model's is "
        f"nearer in {nearer}, the baseline's in {farther}; in the others they differ by at most {ALIKE} points."
    ]
    off: dict[str, list[str]] = {}
    for study, row in cells:
        if abs(row["model_error_points"]) > NAMED:
            worse = (
                ""
                if abs(row["model_error_points"]) < abs(row["baseline_error_points"])
                else ", no better than the baseline"
            )
            found = (
                f"{row['caches']}: {_points(row['model_error_points'])} of {100 * row['original']:.0f}{worse}"
            )
            off.setdefault(study.name, []).append(found)
    if off:
        lines.append(f"Models off by more than {NAMED} points, by the number of caches:")
        lines += [f"  {name}: {'; '.join(found)}" for name, found in off.items()]
    return lines


def draw(studies: Sequence["Study"]) -> dict[str, bytes]:
    """SVG of both figures, by name."""
    legend = _legend(
        (
            ("original", FIRST, False),
            ("model: median and range of its draws", SECOND, True),
            ("baseline: same mix and rate, any place", DIM, False),
        )
    )
    lines, bars = [], []
    for loop, meaning in LOOPS.items():
        panels = [_lines(study, loop) for study in studies]
        lines.append([Drawing(_TITLES[loop], 0, 0, "", meaning)])
        lines += [panels[at : at + _COLUMNS] for at in range(0, len(panels), _COLUMNS)]
        bars.append([_bars(studies, loop, _TITLES[loop], meaning)])
    return {
        "figure-3": sheet(
            "Speed-up by SSD caches before a disk, by the number of caches", [[legend], *lines]
        ),
        "figure-4": sheet(
            "Speed-up by one to four SSD caches before a disk, by ratio", [[_bar_legend()], *bars]
        ),
    }


def _legend(entries: Sequence[tuple[str, str, bool]]) -> Drawing:
    parts, x = [], 0.0
    for name, colour, dashed in entries:
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        parts.append(
            f'<line x1="{x:g}" x2="{x + 26:g}" y1="8" y2="8" stroke="{colour}" stroke-width="1.8"{dash}/>'
        )
        parts.append(words(x + 32, 12, name, colour=TEXT))
        x += 50 + 6.3 * len(name)
    return Drawing("", x, 16, "".join(parts))


def _bar_legend() -> Drawing:
    parts, x = [], 0.0
    for count, shade in enumerate(_SHADES):
        parts.append(
            f'<rect x="{x:g}" y="2" width="12" height="12" fill="{FIRST}" fill-opacity="{shade:g}"/>'
        )
        name = ("original: 1", "2", "3", "4 caches")[count]
        parts.append(words(x + 17, 12, name, colour=TEXT))
        x += 30 + 6.3 * len(name)
    parts.append(f'<circle cx="{x + 16:g}" cy="8" r="3" fill="{SECOND}"/>')
    parts.append(words(x + 24, 12, "model: median and range of its draws", colour=TEXT))
    return Drawing("", x + 320, 16, "".join(parts))


def _times(value: float) -> str:
    return f"{value:.3g}×"


def _by_ratio(low: float, high: float) -> Axis:
    """An axis of logarithms to the base of two, with three marks or more where digits of one place give so many."""
    inside: list[float] = []
    rounded = (
        (1.0,),
        (1.0, 2.0, 5.0),
        (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
        (1.0, 1.2, 1.4, 1.6, 1.8, *range(2, 10)),
    )
    for digits in rounded:
        values = [n * 10.0**power for power in range(-2, 4) for n in digits]
        inside = [value for value in values if low - 1e-9 <= math.log2(value) <= high + 1e-9]
        if len(inside) >= 3:
            break
    return Axis(low, high, tuple((math.log2(value), _times(value)) for value in inside))


def _lines(study: "Study", loop: str) -> Drawing:
    rows = study.compare(loop)
    values = [1.0, *(row[name] for row in rows for name in ("original", "baseline"))]
    values += [bound for row in rows for bound in row["model_range"]]
    # by ratio; an axis of less would make much of nothing
    low, high = math.log2(min(values)), max(math.log2(max(values)), math.log2(min(values)) + 0.6)
    counts = [0, *(row["caches"] for row in rows)]
    x = Axis(-0.1, counts[-1] + 0.3, tuple((float(count), str(count)) for count in counts))
    plot = Plot(x, _by_ratio(low, high), width=_WIDTH, height=_HEIGHT, left=42)
    for name, colour in (("baseline", DIM), ("original", FIRST), ("model", SECOND)):
        ys = [0.0, *(math.log2(row[name]) for row in rows)]
        plot.line(counts, ys, colour, dashed=name == "model")
        plot.dots(zip(counts[1:], ys[1:], strict=True), colour, 1, width=5)
    for row in rows:
        plot.line([row["caches"]] * 2, map(math.log2, row["model_range"]), SECOND)
    return plot.drawing(
        study.name, f"{size(study.footprint_bytes)} used, caches of {size(study.cache_bytes)}"
    )


def _bars(studies: Sequence["Study"], loop: str, caption: str, note: str) -> Drawing:
    found = [study.compare(loop) for study in studies]
    values = [value for rows in found for row in rows for value in (row["original"], *row["model_range"])]
    # by ratio: a bar begins where nothing is gained
    low, high = min(0.0, math.log2(min(values))), max(1.0, math.log2(max(values)))
    groups = len(studies)
    marks = tuple((at + 0.5, study.name.split(" (")[0]) for at, study in enumerate(studies))
    plot = Plot(
        Axis(0, groups, marks),
        octaves(low, high, _times, binary=True),
        width=max(108 * groups, 320),
        height=240,
        left=42,
    )
    wide = 0.19
    for at, rows in enumerate(found):
        for row, shade in zip(rows, _SHADES, strict=True):
            left = at + 0.5 + wide * (row["caches"] - 1 - len(rows) / 2)
            gained = math.log2(row["original"])
            plot.cells([(left, left + wide * 0.9, min(gained, 0), max(gained, 0))], FIRST, shade)
            middle = left + wide * 0.45
            plot.line([middle] * 2, map(math.log2, row["model_range"]), SECOND)
            plot.dots([(middle, math.log2(row["model"]))], SECOND, 1, width=6)
    return plot.drawing(caption, note)
