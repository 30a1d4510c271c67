"""Notices of the cluster's page: how often they are wrong on quiet members, and how soon they are right of faulty ones.

The detector of the page itself runs in node, over members made up (web/bench/notices.ts says how) and over a few minutes
of this machine's agent. No peer: what else notices is set up for a system, not for a member's own last minutes.
"""

import json
import subprocess
import time
from pathlib import Path

from iotrail.serve import frames
from iotrail.serve.children import Children
from iotrail.trail import Trail
from measure import ROOT, console, keep, scratch, table

NODE_HOURS = 3_000
FAULTS = 48
REAL_SECONDS = 600
# Limit in variations, seconds in a row; the last is what the page has.
RULES = ("4,24", "5,30")


def here(folder: Path) -> str:
    """What the page would be told of this machine over ten minutes."""
    with Children(folder / "here.trail", ["--node", "here", "--state", str(folder / "agent")]):
        time.sleep(REAL_SECONDS)
    return of(folder / "here.trail")


def of(path: Path) -> str:
    """All frames of a trail, as JSON."""
    trail = Trail(path)
    found = json.loads(frames.span(trail))
    span = frames.Span(found["start_ms"], found["end_ms"] + 1000, 1000, "member", None, None)
    return frames.frames(trail, span)


def bench() -> None:
    """Print a row a rule."""
    shape = table(
        "Notices: false ones, and faults of 60 s that were found, after how many seconds (median)",
        ["rule", "false in 1,000 node-hours", "disk 3 × as slow", "stuck OSD", "load doubled", "here"],
    )
    command = ["node", str(ROOT / "web/bench/run.mjs"), str(NODE_HOURS), str(FAULTS), *RULES]
    with scratch() as folder:
        ran = subprocess.run(
            command, input=here(folder), capture_output=True, text=True, check=True, cwd=ROOT / "web"
        )
    kept = [json.loads(line) for line in ran.stdout.splitlines()]
    for row in kept:
        wrong, hours = sum(row["quiet"]["found"].values()), row["quiet"]["hours"]
        shape.add_row(
            f"{row['limit']:g} × variation, {row['begins']} s",
            f"{1000 * wrong / hours:.2f} ({wrong} in {hours:,})",
            *(f"{each['found']} of {each['of']}, {each['median']} s" for each in row["faults"]),
            f"{len(row['recorded']['found'])} in {row['recorded']['seconds'] / 60:.0f} min",
        )
    console.print(shape)
    keep("notices", rules=kept)
