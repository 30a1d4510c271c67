"""The page of `iotrail whatif cache`: miss-ratio curves of all policies, of reads and of writes."""

import math
from collections.abc import Iterable
from typing import Any

from iotrail import units
from iotrail.page import Html, colours, document, figures, table, tag
from iotrail.page.plot import Axis, Drawing, Plot, linear
from iotrail.whatif.cache import VERB, Accesses, describe, describe_sample

# In the order of policies: those of machines, and the same dashed.
_COLOURS = colours.MACHINES
# The curve of LRU at all sizes is drawn from this share of its largest on: below there is nothing to compare it with.
_SMALLEST = 1 / 256


def draw(name: str, chosen: Accesses, found: dict[str, Any], note: str) -> bytes:
    """The page for an answer of the simulator; `note` says what else it rests on, or is empty."""
    uses = (("read", found["reads"]), ("write", found["writes"]))
    used = [(kind, count) for kind, count in uses if count]
    parts: list[str] = [
        tag("p", f"{name}: {describe(found, chosen)}."),
        tag("p", describe_sample(found), of="dim") if found["sample"] else Html(),
        _legend(found["policies"]),
        figures(_curves(kind, count, found) for kind, count in used),
        *(
            part
            for kind, count in used
            for part in (tag("h2", f"{kind}s missed"), _table(kind, count, found))
        ),
    ]
    if chosen.left_out:
        parts.append(tag("p", f"Left out: {chosen.left_out:,} without a known place.", of="note"))
    if note:
        parts.append(tag("p", note, of="note"))
    return document(VERB, name, parts)


def _style(at: int) -> tuple[str, bool]:
    return _COLOURS[at % len(_COLOURS)], at >= len(_COLOURS)


def _legend(policies: Iterable[dict[str, Any]]) -> Html:
    marks = []
    for at, policy in enumerate(policies):
        colour, dashed = _style(at)
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        line = f'<svg viewBox="0 0 28 8" style="width:28px;height:8px"><line x1="0" x2="28" y1="4" y2="4" stroke="{colour}" stroke-width="2.5"{dash}/></svg>'
        marks.append(Html(f'<span style="margin-right:1.2rem">{line} {policy["policy"]}</span>'))
    return tag("p", *marks)


def _curves(kind: str, count: int, found: dict[str, Any]) -> Drawing:
    block = found["block_bytes"]
    largest = max(max(policy["size"]) for policy in found["policies"])
    least = max(min(min(policy["size"]) for policy in found["policies"]), largest * _SMALLEST)
    low, high = math.log2(least * block), math.log2(max(largest, least * 2) * block)
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    marks = tuple((float(power), units.size(2**power)) for power in powers[:: max(1, len(powers) // 6)])
    plot = Plot(
        Axis(low, high, marks),
        linear(0, 1, lambda share: f"{share * 100:.0f} %"),
        width=560,
        height=300,
    )
    for at, policy in enumerate(found["policies"]):
        # the curve has LRU at more sizes
        lines = [policy, found["curve"]] if policy["policy"] == found["curve"]["policy"] else [policy]
        points = sorted(
            (math.log2(size * block), misses / count)
            for line in lines
            for size, misses in zip(line["size"], line[kind], strict=True)
            if least <= size <= largest
        )
        colour, dashed = _style(at)
        plot.line((x for x, _ in points), (y for _, y in points), colour, dashed=dashed)
    return plot.drawing(f"{kind}s missed, by the size of the cache", f"of {count:,}")


def _table(kind: str, count: int, found: dict[str, Any]) -> Html:
    rows = []
    for at, size in enumerate(found["policies"][0]["size"]):
        cells = []
        for policy in found["policies"]:
            share = units.human(policy[kind][at] / count, "share")
            bound = f" ±{min(100.0, 100 * policy['bounds'][kind][at] / count):.1f}" if found["sample"] else ""
            cells.append(share + bound)
        rows.append([units.size(size * found["block_bytes"]), *cells])
    return table(["cache", *(policy["policy"] for policy in found["policies"])], rows)
