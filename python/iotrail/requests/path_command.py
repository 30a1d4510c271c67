"""`iotrail path`: find the requests asked for and show the path of each."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iotrail import page, pruned
from iotrail.errors import UsageError
from iotrail.requests import clocks, find, graph, lost, path_page, path_text
from iotrail.requests.dot import write
from iotrail.requests.path import Crumb, name, paths
from iotrail.requests.path import Path as RequestPath
from iotrail.terminal import WIDE, Console, Text
from iotrail.trail import Trail

# Paths shown of a breadcrumb that works for many requests; --json has all.
MOST_PATHS = 10


def run(
    trail: Trail,
    *,
    crumb: int | None,
    trace: str | None,
    node: str | None,
    slowest: int | None,
    client: str | None,
    op: str | None,
    component: str | None,
    since: str | None,
    until: str | None,
    through: str | None,
    timeline: bool,
    dot: Path | None,
    svg: Path | None,
    html: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show the path of a breadcrumb's requests, or of the slowest."""
    if html is not None:
        page.check(html, "path", force=force)
    options = {
        "--client": client,
        "--op": op,
        "--component": component,
        "--from": since,
        "--to": until,
        "--through": through,
    }
    given = [option for option, value in options.items() if value is not None]
    note = None
    named = "--crumb" if crumb is not None else "--trace" if trace is not None else None
    if named is not None:
        others = [
            *(["--trace"] if crumb is not None and trace is not None else []),
            *(["--slowest"] if slowest is not None else []),
            *(["--node"] if crumb is None and node is not None else []),
            *given,
        ]
        if others:
            raise UsageError(f"{named} can't be combined with {others[0]}")
    if trace is not None:
        roots = find.of_trace(trail, trace)
        if len(roots) > MOST_PATHS and not as_json:
            note = f"{len(roots):,} requests, of which {MOST_PATHS} are shown: --json has all"
    elif crumb is not None:
        key, roots = find.of_crumb(trail, crumb, node)
        if not roots:
            note = f"{name(key)} works for no request: its stitches lead in a circle"
            roots = [key]
        elif roots != [key]:
            more = f" and {len(roots) - MOST_PATHS:,} more: --json has all" if len(roots) > MOST_PATHS else ""
            note = f"{name(key)} works for request {', '.join(map(name, roots[:MOST_PATHS]))}{more}"
    else:
        if slowest is None:
            raise UsageError(
                "which request?",
                "--crumb N, --trace ID, or --slowest 10; iotrail sql X.trail request lists them",
            )
        if slowest < 1:
            raise UsageError(f"--slowest: expected 1 or more, found {slowest}")
        if node is not None:
            raise UsageError("--node says which --crumb is meant")
        chosen = find.choose(trail, client, op, component, since, until, through)
        roots = find.slowest(trail, chosen, slowest)
        note = pruned.left_out(trail, chosen.rolled)
    shown = roots if as_json or slowest is not None else roots[:MOST_PATHS]
    lost.tell(trail)
    # before the trail is narrowed to them
    bounds = clocks.of_trail(trail) if timeline or as_json or html is not None else {}
    found = paths(trail, shown)
    if html is not None:
        page.write(html, path_page.render(trail, found, bounds, note))
    if dot is not None or svg is not None:
        write(graph.drawn(graph.of_walked(trail, len(shown))), dot, svg, force=force)
    elif as_json:
        json.dump([_as_json(path, bounds) for path in found], sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        _show(found, note, bounds if timeline else None)


def _show(found: list[RequestPath], note: str | None, bounds: clocks.Bounds | None) -> None:
    """On one line of time by these bounds of clocks, or as trees."""
    timeline = bounds is not None
    console = Console(piped=120 if timeline else WIDE)
    if note is not None:
        console.print(Text(note, style="dim"))
    for number, path in enumerate(found):
        if number:
            console.print()
        if bounds is None:
            path_text.show_tree(console, path)
        else:
            path_text.show_timeline(console, path, bounds)


def _as_json(path: RequestPath, bounds: clocks.Bounds) -> dict[str, Any]:
    return {
        "node": path.root.node,
        "crumb": path.root.crumb,
        "crumbs": [_crumb(crumb) for crumb in path.crumbs],
        "holes": [
            {"node": crumb.node, "crumb": crumb.crumb, "hole": hole}
            for crumb in path.crumbs
            for hole in crumb.holes
        ],
        "clocks": {
            node: {"shift_ns": offset.shift, "error_ns": offset.error}
            for node, offset in clocks.offsets(path, bounds).items()
        },
    }


def _crumb(crumb: Crumb) -> dict[str, Any]:
    return {
        "node": crumb.node,
        "crumb": crumb.crumb,
        "stitched": crumb.stitched,
        "records": [asdict(record) for record in crumb.records],
        "children": [
            {
                "node": child.node,
                "crumb": child.crumb,
                "stitched": child.stitched,
                # of 2^30
                "part": child.part,
            }
            for child in crumb.children
        ],
    }
