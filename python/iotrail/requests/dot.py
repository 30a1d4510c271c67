"""Graphs for Graphviz: the DOT text, and the picture that Graphviz's `dot` makes of it.

https://graphviz.org/doc/info/lang.html is the language. `dot` is run as a program
(docs/decisions/0008-dot-draws.md).
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrail.errors import IotrailError

_CRITICAL = "#c0392b"
_PLAIN = "#7f8c8d"
# Light, and none near the colour of what is critical.
_FILLS = ("#eaf2f8", "#e9f7ef", "#fef9e7", "#f4ecf7", "#eaeded", "#e8f8f5", "#fdf2e9", "#d6eaf8")


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


def text(title: str, nodes: Sequence[DotNode], edges: Sequence[DotEdge]) -> str:
    """The graph in DOT."""
    groups = {group: number for number, group in enumerate(dict.fromkeys(node.group for node in nodes))}
    lines = [
        "digraph requests {",
        f"  label={_quoted(title)}; labelloc=t; rankdir=TB; nodesep=0.3; ranksep=0.35;",
        '  fontname="sans-serif"; fontsize=16;',
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11, margin="0.12,0.05"];',
        '  edge [fontname="sans-serif", fontsize=9, arrowsize=0.7];',
    ]
    for node in nodes:
        fill = _FILLS[groups[node.group] % len(_FILLS)]
        edge = f'color="{_CRITICAL}", penwidth=1.6' if node.critical else f'color="{_PLAIN}"'
        label = f"{node.head}\n{node.label}"
        lines.append(f'  {node.id} [label={_quoted(label)}, fillcolor="{fill}", {edge}];')
    for step in edges:
        style = ", style=dashed" if step.dashed else ""
        colour = (
            f'color="{_CRITICAL}", fontcolor="{_CRITICAL}", penwidth={1.5 + 4 * step.weight:.2f}, weight=5'
            if step.critical
            else f'color="{_PLAIN}", fontcolor="#444444"'
        )
        lines.append(f"  {step.source} -> {step.target} [label={_quoted(step.label)}, {colour}{style}];")
    return "\n".join([*lines, "}", ""])


def write(
    title: str,
    nodes: Sequence[DotNode],
    edges: Sequence[DotEdge],
    dot: Path | None,
    svg: Path | None,
    *,
    force: bool,
) -> None:
    """Write the graph to `dot` as text, to `svg` as a picture; what is there is replaced only by force."""
    source = text(title, nodes, edges)
    for path in (dot, svg):
        if path is not None and not force and path.exists():
            raise IotrailError(f"{path} exists", "--force replaces it")
    if dot is not None:
        _save(dot, source)
    if svg is not None:
        _save(svg, _drawn(source))


def _drawn(source: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise IotrailError(
            "--svg: Graphviz draws it, and its program dot isn't there",
            "install the package graphviz, or write --dot FILE and draw it elsewhere",
        )
    done = subprocess.run([program, "-Tsvg"], input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise IotrailError(f"{program} ended with status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def _save(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise IotrailError(f"{path}: {os.strerror(error.errno or 0)}") from error
    print(path)


def _quoted(value: str) -> str:
    # JSON's escapes of quotes, backslashes and line ends are DOT's
    return json.dumps(value, ensure_ascii=False)
