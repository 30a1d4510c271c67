"""A model's states and the transitions between them as a graph for Graphviz.

A state is a range of addresses. A device's addresses are divided in four, each part in four again, once for each level; a chain
counts which of the four parts of a range follows which (crates/model/src/model.rs). A box is a range, a frame is a range with
those that it is divided into. What has less than a hundredth of all requests is left out, and the title says how much that is:
a range whose parts are all left out is a box itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from iotrail import units
from iotrail.model.fit import Model
from iotrail.page.colours import BACK, DIM, FIRST, LINE, TEXT
from iotrail.requests.dot import quoted

# Share of all requests below which states and transitions are left out.
LEAST = 0.01
# What a range has four of.
_PARTS = 4


@dataclass(frozen=True)
class Range:
    """A range of a device's addresses, and its share of the requests of all devices; the device itself on level 0."""

    device: int
    level: int
    number: int
    share: float
    parts: list["Range"] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its name in DOT."""
        return f"d{self.device}_{self.level}_{self.number}"

    def box(self) -> "Range":
        """The first box in it: an arrow to a frame is one to a box that is cut at the frame."""
        return self.parts[0].box() if self.parts else self


@dataclass(frozen=True)
class Arrow:
    """Transitions between two ranges, and their share of all requests."""

    source: Range
    target: Range
    share: float


@dataclass(frozen=True)
class Diagram:
    """What is drawn, and how much isn't. `states` are those that are used."""

    model: Model
    devices: list[Range]
    arrows: list[Arrow]
    states: int
    states_drawn: int
    # share of the requests in states that aren't drawn
    states_left_out: float
    transitions: int
    transitions_left_out: int


def diagram(model: Model) -> Diagram:
    """The graph of a model."""
    levels: int = model["levels"]
    requests = _requests_of_states(model)
    total = sum(requests.values()) or 1
    ranges: dict[tuple[int, int, int], int] = {}
    for (device, number), count in requests.items():
        for level in range(levels + 1):
            at = (device, level, number >> 2 * (levels - level))
            ranges[at] = ranges.get(at, 0) + count

    def seen(device: int, level: int, number: int) -> Range:
        below = [(device, level + 1, _PARTS * number + part) for part in range(_PARTS)]
        parts = [seen(*at) for at in below if ranges.get(at, 0) / total >= LEAST]
        return Range(device, level, number, ranges.get((device, level, number), 0) / total, parts)

    devices = [
        seen(number, 0, 0)
        for number in range(len(model["devices"]))
        if ranges.get((number, 0, 0), 0) / total >= LEAST
    ]
    known = {(each.device, each.level, each.number): each for each in _walk(devices)}
    boxes = [each for each in known.values() if not each.parts]
    states = [each for each in boxes if each.level == levels]
    arrows: list[Arrow] = []
    transitions = 0
    for number, device in enumerate(model["devices"]):
        for level, node, chain in device["chains"]:
            for one, other, count, _ in chain["transitions"]:
                ends = [known.get((number, level + 1, _PARTS * node + part)) for part in (one, other)]
                # from a range that is a frame to itself: its own transitions say it
                if one == other and level + 1 < levels and not (ends[0] and not ends[0].parts):
                    continue
                transitions += 1
                if ends[0] and ends[1] and count / total >= LEAST:
                    arrows.append(Arrow(ends[0], ends[1], count / total))
    for one, other, count, _ in model["next_device"]["transitions"]:
        if one != other:
            transitions += 1
            ends = [known.get((number, 0, 0)) for number in (one, other)]
            if ends[0] and ends[1] and count / total >= LEAST:
                arrows.append(Arrow(ends[0], ends[1], count / total))
    drawn = sum(each.share for each in states)
    return Diagram(
        model, devices, arrows, len(requests), len(states), 1 - drawn, transitions, transitions - len(arrows)
    )


def text(found: Diagram) -> str:
    """The graph in DOT."""
    lines = [
        "digraph states {",
        f"  label={quoted(_title(found))}; labelloc=t; rankdir=LR; compound=true; nodesep=0.3; ranksep=0.6;",
        f'  fontname="sans-serif"; fontsize=14; fontcolor="{TEXT}"; bgcolor="{BACK}";',
        f'  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11, fontcolor="{TEXT}", '
        f'color="{DIM}", margin="0.12,0.05"];',
        f'  edge [fontname="sans-serif", fontsize=9, fontcolor="{DIM}", color="{DIM}", arrowsize=0.7];',
    ]
    for device in found.devices:
        lines += _lines_of(device, found.model, "  ")
    lines += _arrow_lines(found.arrows)
    return "\n".join([*lines, "}", ""])


def _requests_of_states(model: Model) -> dict[tuple[int, int], int]:
    """By device and number of the state."""
    requests: dict[tuple[int, int], int] = {}
    for _, part in model["states"]:
        for device, number, count in part:
            requests[device, number] = requests.get((device, number), 0) + count
    return requests


def _walk(ranges: list[Range]) -> Iterator[Range]:
    for each in ranges:
        yield each
        yield from _walk(each.parts)


def first_address(reach_bytes: int, ranges: int, number: int) -> int:
    """Where a range begins, of so many of a device: as crates/model/src/states.rs has it."""
    return -(-number * reach_bytes // ranges)


def _title(found: Diagram) -> str:
    lines = [
        "States: ranges of addresses, with their share of all requests",
        "Arrows: transitions from request to request, with their share of all requests; back: to lower addresses",
    ]
    unseen = len(found.model["devices"]) - len(found.devices)
    left_out = [
        *([units.counted(unseen, "device")] if unseen else []),
        *(
            [
                f"{units.counted(found.states - found.states_drawn, 'state')} of {found.states:,} "
                f"({found.states_left_out:.1%} of the requests)"
            ]
            if found.states_drawn < found.states
            else []
        ),
        *(
            [f"{units.counted(found.transitions_left_out, 'transition')} of {found.transitions:,}"]
            if found.transitions_left_out
            else []
        ),
    ]
    if left_out:
        lines.append(f"Left out, below {LEAST:.0%} of the requests each: {', '.join(left_out)}")
    return "\n".join(lines)


def _lines_of(each: Range, model: Model, indent: str) -> Iterator[str]:
    label = quoted(_label(each, model))
    if not each.parts:
        # the more requests, the darker: up to half of the first colour, on which the text is still legible
        shade = f"{FIRST}{round(127 * each.share):02x}"
        yield f'{indent}{each.id} [label={label}, fillcolor="{shade}"];'
        return
    yield f"{indent}subgraph cluster_{each.id} {{"
    size, colour = (13, TEXT) if each.level == 0 else (10, DIM)
    yield (
        f'{indent}  label={label}; labelloc=t; labeljust=l; style=rounded; color="{DIM if each.level == 0 else LINE}"; '
        f'fontsize={size}; fontcolor="{colour}";'
    )
    for part in each.parts:
        yield from _lines_of(part, model, indent + "  ")
    yield f"{indent}}}"


def _label(each: Range, model: Model) -> str:
    reach: int = model["devices"][each.device]["reach_bytes"]
    if each.level == 0:
        return f"device {each.device}, {units.size(reach)}: {each.share:.1%}"
    ranges = _PARTS**each.level
    first, after = (first_address(reach, ranges, number) for number in (each.number, each.number + 1))
    separator = ": " if each.parts else "\n"
    return f"{units.size(first)} to {units.size(after)}{separator}{each.share:.1%}"


def _arrow_lines(arrows: list[Arrow]) -> Iterator[str]:
    """A line for each two ranges, to the higher addresses, so that Graphviz has them in their order."""
    shares = {(each.source.id, each.target.id): each.share for each in arrows}
    ranges = {each.id: each for arrow in arrows for each in (arrow.source, arrow.target)}
    order = {each: (ranges[each].device, ranges[each].level, ranges[each].number) for each in ranges}
    for low, high in sorted({tuple(sorted(ends, key=order.__getitem__)) for ends in shares}):
        up, down = shares.get((low, high)), shares.get((high, low))
        names = [f"penwidth={0.8 + 4 * max(up or 0, down or 0):.2f}"]
        if up is None or low == high:
            names.append(f'label="{up or down:.1%}"')
        else:
            names.append(f'label="{up:.1%}"' if down is None else f'label="{up:.1%}\\nback {down:.1%}"')
        if low != high and down is not None:
            names.append("dir=both" if up is not None else "dir=back")
        names += [
            f"{end}=cluster_{name}" for end, name in (("ltail", low), ("lhead", high)) if ranges[name].parts
        ]
        yield f"  {ranges[low].box().id} -> {ranges[high].box().id} [{', '.join(names)}];"
