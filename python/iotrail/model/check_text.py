"""The comparison of a model with its trail, or with another model, on a terminal, and how its figures are shown."""

from itertools import groupby

from rich.table import Table

from iotrail import units
from iotrail.model.check import ALLOWED, Check, Figure
from iotrail.terminal import Console, Text

UNKNOWN = "unknown"
# From so many times the original on, times are shown instead of per cent.
_TIMES = 10
# Columns of a terminal from which on all columns fit.
_WIDE = 110
LEGEND = f"* beyond the noise floor and {ALLOWED:.0%}; pp: percentage points"
NOISE = "The noise floor is how far the halves of the trail are from each other."
NO_NOISE = "Fewer than 100 requests: there is no noise floor, and nothing is marked."
FURTHER_DRAWS = "The noise floor is how far the furthest of four further draws of A, with other seeds, is from the first one."
BASELINE = (
    "The baseline has the trail's aggregates only: independent requests of its mix and sizes at random addresses, exponential "
    "times between them."
)


def show(result: Check) -> None:
    """Print the table: of two models without a baseline, and with their letters."""
    console = Console(piped=160)
    several = any(each.deviation_range for each in result.figures)
    # where there is no room for all columns, how far the baseline is off says more than what it is
    is_wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2 if is_wide else 1, 0, 0))
    table.add_column("", overflow="fold", min_width=20)
    has_baseline = result.baseline is not None
    sides = ["original", "synthetic", "deviation"] if has_baseline else ["A", "B", "B from A"]
    names = [*sides, *(["over seeds"] if several else []), "noise floor"]
    if has_baseline:
        names += ["baseline", "deviation"] if is_wide else ["baseline"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for section, figures in groupby(result.figures, lambda each: each.section):
        table.add_row(Text(section, style="bold"))
        for each in figures:
            mark = "*" if each.beyond else " "
            table.add_row(
                f"  {each.name}",
                value(each.original, each),
                value(each.synthetic, each),
                Text(deviation(each.deviation, each) + mark, style="red" if each.beyond else ""),
                *([spread(each)] if several else []),
                noise(each),
                *([value(each.baseline, each)] if is_wide and has_baseline else []),
                *([deviation(each.baseline_deviation, each)] if has_baseline else []),
            )
    console.print(table)
    for line in notes(result):
        console.print(Text(line, style="dim"))


def notes(result: Check) -> list[str]:
    """What the columns mean."""
    if result.baseline is None:
        return [f"{LEGEND}. {FURTHER_DRAWS}" if result.has_noise else NO_NOISE]
    return [*([f"{LEGEND}. {NOISE}"] if result.has_noise else [NO_NOISE]), BASELINE]


def value(number: float | None, figure: Figure) -> str:
    """A figure of one workload; nothing where it has none of its own."""
    if figure.kind == "distance":
        return ""
    if number is None:
        return UNKNOWN
    # three digits of what is small too
    if figure.unit == "share" and 0 < number < 0.01:
        return f"{number * 100:.3g} %"
    if figure.unit == "1/s" and 0 < number < 1:
        return f"{number:.3g}/s"
    if figure.unit:
        return units.human(number, figure.unit)
    return f"{number:,.0f}" if float(number).is_integer() or number >= 1000 else f"{number:,.3g}"


def deviation(number: float | None, figure: Figure) -> str:
    """How far it is off, with its sign where it has one."""
    if number is None:
        return UNKNOWN
    match figure.kind:
        case "points" if not figure.unit:
            return f"{number + 0.0:+.2f}"
        case "points":
            return f"{number * 100 + 0.0:+.2f} pp"
        case "distance":
            return f"{number:.2%}"
        case _ if number < _TIMES - 1:
            return f"{number + 0.0:+.1%}"
    times = number + 1
    return f"×{times:,.0f}" if times >= 100 else f"×{times:.1f}"


def noise(figure: Figure) -> str:
    """The noise floor."""
    return deviation(figure.noise, figure).removeprefix("+")


def spread(figure: Figure) -> str:
    """Deviations of all seeds, from the least to the most."""
    if figure.deviation_range is None:
        return UNKNOWN
    low, high = (deviation(each, figure) for each in figure.deviation_range)
    return f"{low.removesuffix(' pp')} … {high}"
