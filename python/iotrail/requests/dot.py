"""Graphs for Graphviz: the DOT text, and the picture that Graphviz's `dot` makes of it.

https://graphviz.org/doc/info/lang.html is the language. `dot` is run as a program
(docs/decisions/0008-dot-draws.md).
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from iotrail.errors import IotrailError
from iotrail.page import Html, check_drawing, tag
from iotrail.page.colours import BACK, DIM, FILLS, TEXT, WORSE
from iotrail.report import write_whole
from iotrail.visible import one_line, visible

_CRITICAL = WORSE
_PLAIN = DIM
_FILLS = tuple(FILLS)
_MISSING = "Graphviz draws the graph, and its program dot isn't there"
_SVG = "http://www.w3.org/2000/svg"
# Its time grows much faster than the graph: at random, 100 points and 200 edges took 0.2 s, 300 and 600 took 23 s.
_MOST_SECONDS = 60.0


@dataclass(frozen=True)
class DotNode:
    """A point: `head` is written above `label`; those of one `group` are coloured alike."""

    id: str
    head: str
    label: str
    group: str
    critical: bool


@dataclass(frozen=True)
class DotEdge:
    """A step; dashed where it goes to another machine; `weight` 0 to 1 makes it thick."""

    source: str
    target: str
    label: str
    dashed: bool
    weight: float
    critical: bool


@dataclass(frozen=True)
class DotGraph:
    """A graph to be drawn."""

    title: str
    nodes: Sequence[DotNode]
    edges: Sequence[DotEdge]


def text(graph: DotGraph) -> str:
    """The graph in DOT."""
    groups = {group: number for number, group in enumerate(dict.fromkeys(node.group for node in graph.nodes))}
    lines = [
        "digraph requests {",
        f"  label={quoted(graph.title)}; labelloc=t; rankdir=TB; nodesep=0.3; ranksep=0.35;",
        f'  fontname="sans-serif"; fontsize=16; fontcolor="{TEXT}"; bgcolor="{BACK}";',
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11, '
        f'fontcolor="{TEXT}", margin="0.12,0.05"];',
        '  edge [fontname="sans-serif", fontsize=9, arrowsize=0.7];',
    ]
    for node in graph.nodes:
        fill = _FILLS[groups[node.group] % len(_FILLS)]
        edge = f'color="{_CRITICAL}", penwidth=1.6' if node.critical else f'color="{_PLAIN}"'
        label = f"{one_line(node.head)}\n{one_line(node.label)}"
        lines.append(f'  {node.id} [label={quoted(label)}, fillcolor="{fill}", {edge}];')
    for step in graph.edges:
        style = ", style=dashed" if step.dashed else ""
        colour = (
            f'color="{_CRITICAL}", fontcolor="{_CRITICAL}", penwidth={1.5 + 4 * step.weight:.2f}, weight=5'
            if step.critical
            else f'color="{_PLAIN}", fontcolor="{_PLAIN}"'
        )
        lines.append(f"  {step.source} -> {step.target} [label={quoted(step.label)}, {colour}{style}];")
    return "\n".join([*lines, "}", ""])


def write(graph: DotGraph, dot: Path | None, svg: Path | None, *, force: bool) -> None:
    """Write the graph to `dot` as text, to `svg` as a picture; what is there is replaced only by force."""
    write_source(text(graph), dot, svg, force=force)


def write_source(source: str, dot: Path | None, svg: Path | None, *, force: bool) -> None:
    """Write a graph's DOT to `dot`, its picture to `svg`; what is there is replaced only by force."""
    for path in (dot, svg):
        if path is not None:
            check_drawing(path, force=force)
    if dot is not None:
        _save(dot, source)
    if svg is not None:
        _save(svg, _drawn(source))


def figure(graph: DotGraph) -> Html:
    """The graph in a page, or why it isn't there."""
    if shutil.which("dot") is None:
        return tag(
            "p", f"No picture: {_MISSING}. Install the package graphviz and write the page again.", of="note"
        )
    try:
        drawn = ElementTree.fromstring(_drawn(text(replace(graph, title=""))))
    except IotrailError as error:
        return tag("p", f"No picture: {error.message}", of="note")
    # its names of points are none for people, and there may be several graphs in the page
    for element in drawn.iter():
        element.attrib.pop("id", None)
        for title in element.findall(f"{{{_SVG}}}title"):
            element.remove(title)
    width = float(drawn.attrib.pop("width").removesuffix("pt"))
    del drawn.attrib["height"]
    # as large as it was drawn, or down to legible
    drawn.set("style", f"max-width: {width:g}pt; min-width: {0.75 * width:g}pt")
    drawn.set("role", "img")
    drawn.set("aria-label", graph.title)
    ElementTree.register_namespace("", _SVG)
    return tag("div", Html(ElementTree.tostring(drawn, encoding="unicode")), of="scroll")


def _drawn(source: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise IotrailError(
            _MISSING,
            "install the package graphviz, or write --dot FILE and draw it elsewhere",
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise IotrailError(
            f"{program} has not drawn the graph within {_MOST_SECONDS:g} s; it was stopped",
            "ask for fewer requests; or write --dot FILE and draw it elsewhere",
        ) from None
    if done.returncode != 0:
        raise IotrailError(f"{program} ended with status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def _save(path: Path, content: str) -> None:
    write_whole(path, content.encode(), "another name")
    print(path)


def quoted(value: str) -> str:
    """A string of DOT."""
    # JSON's escapes of quotes, backslashes and line ends are DOT's
    return json.dumps(visible(value), ensure_ascii=False)
