"""`iotrail diff --requests`: request flows of two trails compared, printed, judged."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from iotrail import page, pruned
from iotrail.diff import flow, flow_compare, gate
from iotrail.diff.difference import change_of, signed
from iotrail.diff.flow_compare import FlowComparison, FlowDifference, Kind
from iotrail.diff.show import MOST_ROWS, change
from iotrail.requests import find
from iotrail.requests.find import Chosen
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail
from iotrail.units import counted, duration
from iotrail.visible import one_line

# How sure a difference is, by the adjusted probability that it is noise.
_SURE = ((1e-6, "sure"), (1e-4, "very likely"), (1.0, "likely"))


def compare_flows(
    a: Trail,
    b: Trail,
    chosen: Chosen,
    chosen_b: Chosen | None = None,
    *,
    only: Collection[tuple[str, str]] | None = None,
    by_node: bool = False,
    min_effect: float = 0.05,
    false_discoveries: float = 0.001,
) -> FlowComparison:
    """Compare the requests that `chosen` leaves of A with those that `chosen_b` (None: the same) leaves of B; `only`
    those of these kinds: (component, op); `by_node`: steps of each machine by themselves, which both have by one name."""
    chosen_b = chosen_b or chosen
    (chosen, seconds_a), (chosen_b, seconds_b) = flow.in_sample(a, chosen), flow.in_sample(b, chosen_b)
    of_a, of_b = flow.kinds(a, chosen), flow.kinds(b, chosen_b)
    time_a = sum(row["time_ns"] for row in of_a.values())
    result = FlowComparison(
        str(a.path), str(b.path), min_effect, false_discoveries, time_a, (seconds_a, seconds_b)
    )
    compared = []
    for key in dict.fromkeys((*of_a, *of_b)):
        if only is not None and key not in only:
            continue
        kind = Kind(
            *key,
            *(of[key]["n"] if key in of else 0 for of in (of_a, of_b)),
            *map(_mean, (of_a.get(key), of_b.get(key))),
        )
        result.kinds.append(kind)
        if kind.a and kind.b:
            flows = [
                flow.Flow(trail.path, _of_kind(which, key), by_node=by_node)
                for trail, which in ((a, chosen), (b, chosen_b))
            ]
            compared.append(flow_compare.compare_kind(kind.name, *flows))
            result.differences += compared[-1].differences
    flow_compare.judge(result)
    for each in compared:
        flow_compare.fold(each)
    # what was folded follows what is found
    result.differences.sort(key=lambda d: not d.significant)
    return result


def _of_kind(chosen: Chosen, key: tuple[str, str]) -> Chosen:
    return replace(chosen, component=key[0], op=key[1])


def _mean(row: Mapping[str, Any] | None) -> float | None:
    return row["time_ns"] / row["replies"] if row and row["replies"] else None


def run(
    a: Path,
    b: Path,
    *,
    client: str | None,
    op: str | None,
    component: str | None,
    since: str | None,
    until: str | None,
    against: tuple[str | None, str | None],
    by_node: bool,
    as_json: bool,
    html: Path | None,
    fail_on: Sequence[str],
    min_effect: str,
    fdr: str,
    limit: int | None,
    force: bool,
) -> None:
    """Compare, print, judge. `against` is B's --from and --to; if it names neither, they are A's."""
    if html is not None:
        page.check(html, "diff", force=force)
    smallest = gate.percent(min_effect, "--min-effect")
    gates = [gate.parse(text, smallest, gate.REQUEST_METRICS) for text in fail_on]
    first, second = Trail(a), Trail(b)
    for trail in (first, second):
        # DuckDB would draw it over stdout after two seconds
        trail.connection.execute("SET enable_progress_bar = false")
    spans = ((first, (since, until)), (second, against if any(against) else (since, until)))
    chosen = [find.choose(trail, client, op, component, *span) for trail, span in spans]
    for (trail, _), left in zip(spans, chosen, strict=True):
        pruned.expect_raw(trail, "request flows", left.where)
    result = compare_flows(
        first,
        second,
        *chosen,
        by_node=by_node,
        min_effect=smallest,
        false_discoveries=gate.percent(fdr, "--fdr"),
    )
    if html is not None:
        # it draws what is said here
        from iotrail.diff import flow_page

        page.write(html, flow_page.render(result, *(each.words for each in chosen)))
    if as_json:
        json.dump(result.as_dict(), sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        show(result, MOST_ROWS if limit is None else limit)
    refused = [(each, difference) for each in gates if (difference := each.first(result.found))]
    for each, difference in refused:
        print(one_line(f"--fail-on {each.text}: {sentence(difference)}"), file=sys.stderr)
    if refused:
        raise typer.Exit(1)


def show(result: FlowComparison, most: int) -> None:
    """Print a comparison: the kinds of requests, what differs in sentences, the figures of its steps."""
    console = Console(piped=WIDE)
    console.print(Text(f"A  {result.a}\nB  {result.b}\n"))
    table = _table(*KINDS)
    for kind in result.kinds:
        table.add_row(*kind_row(kind))
    console.print(table)
    for line in samples(result):
        console.print(Text(line, style="yellow"))
    if not result.found:
        console.print(Text(f"\n{nothing(result)}", style="bold"))
        return
    console.print(Text(f"\n{RANKED}", style="bold underline"))
    for number, difference in enumerate(result.found[:most], start=1):
        style = "red" if (difference.added_ns or 0) > 0 else "green" if difference.added_ns else ""
        console.print(Text(f"{number:3}. "), Text(one_line(sentence(difference)), style=style), sep="")
        for line in notes(result, difference):
            console.print(Text(one_line(f"     {line}"), style="dim"))
    if len(result.found) > most:
        console.print(Text(f"… and {len(result.found) - most} more: --limit, --json", style="dim"))
    steps = [d for d in result.found[:most] if d.figures]
    if steps:
        console.print()
        table = _table(*STEPS)
        for difference in steps:
            table.add_row(*step_row(difference))
        console.print(table)


def samples(result: FlowComparison) -> list[str]:
    """What is said of trails of which a sample was compared."""
    return [
        f"{name} is a sample: its requests of {counted(seconds, 'second')} are compared, not other slow ones or bursts"
        for name, seconds in zip("AB", result.sampled_seconds, strict=True)
        if seconds
    ]


KINDS = ("requests", "A", "B", "mean A", "mean B", "change")
RANKED = "Beyond noise, by what it adds to the time of all requests"
STEPS = ("step", "mean A", "mean B", "p50 A", "p50 B", "p99 A", "p99 B")


def kind_row(kind: Kind) -> tuple[str, ...]:
    """The figures of a kind of requests under KINDS."""
    if kind.mean_a is not None and kind.mean_b is not None:
        changed = change(kind.mean_a, kind.mean_b)
    else:
        changed = "only in A" if kind.a and not kind.b else "only in B" if not kind.a else "–"
    means = ("–" if ns is None else duration(ns) for ns in (kind.mean_a, kind.mean_b))
    return kind.name, f"{kind.a:,}", f"{kind.b:,}", *means, changed


def step_row(difference: FlowDifference) -> tuple[str, ...]:
    """The figures of a step under STEPS."""
    assert difference.figures
    pairs = zip(*difference.figures, strict=True)
    return difference.part, *("–" if ns is None else duration(ns) for pair in pairs for ns in pair)


def nothing(result: FlowComparison) -> str:
    """What is said if nothing differs."""
    tests = len([d for d in result.differences if d.p is not None])
    return f"no difference beyond noise in {tests:,} comparisons"


def sure(difference: FlowDifference) -> str:
    """How sure it is that a difference found is no noise."""
    return next(word for bound, word in _SURE if (difference.q or 0.0) <= bound)


def sentence(difference: FlowDifference) -> str:
    """A difference in words."""
    requests, each = f"{difference.subject} requests", signed(difference.each_ns)
    in_all = (
        "no reply waited for it" if not difference.awaited else f"{signed(difference.added_ns or 0)} in all"
    )
    match difference.metric:
        case "request":
            return f"{difference.subject}: {each} on each of {counted(difference.times, 'request')}, {in_all}, {sure(difference)}"
        case "step":
            return f"{difference.subject}: {difference.part}: {each} on each of {difference.times:,}, {in_all}, {sure(difference)}"
        case "part":
            what = f"{difference.a:.3g} → {difference.b:.3g} a request"
            took = f", {duration(difference.each_ns)} each" if difference.each_ns else ""
            in_all = f", {in_all}" if difference.added_ns or not difference.awaited else ""
            return f"{difference.subject}: {difference.part}: {what}{took}{in_all}, {sure(difference)}"
        case _:
            came = "new" if not difference.a else "gone" if not difference.b else change_of(difference)
            return (
                f"{difference.subject}: path {difference.part}: {came}, "
                f"{difference.a:.1%} → {difference.b:.1%} of {requests}, {sure(difference)}"
            )


def notes(result: FlowComparison, difference: FlowDifference) -> list[str]:
    """More about a difference: with what it came, how many waited, a request that shows it."""
    notes = [difference.note] if difference.note else []
    if difference.metric in ("step", "part") and 0 < difference.awaited < 0.995:
        notes.append(f"replies waited for {difference.awaited:.1%} of them")
    if difference.metric in ("step", "part") and difference.awaited > 1.005:
        notes.append(f"for each of them {difference.awaited:.3g} requests waited")
    if difference.example:
        side, node, crumb = difference.example
        notes.append(f"iotrail path {result.a if side == 'a' else result.b} --crumb {crumb} --node {node}")
    return notes


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table
