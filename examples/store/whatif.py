"""`make demo-whatif`: what `iotrail whatif` says of a store that was recorded, beside the store really changed.

Two users, each with a load of its own, on a store of four nodes whose disks take 10 ms longer than this machine's. Each change
is predicted from the recording before it, and then made: the same loads run on a new store. Prints one table.

    whatif.py [--seed N] [--operations N] [--slow MS] [CHANGE…]     of ram, move, merge, encode
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.box
from rich.table import Table

from iotrail.terminal import Console

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "examples" / "store"
IOTRAIL = Path(sys.executable).with_name("iotrail")
# Of Debian: other users may run it.
PYTHON = "/usr/bin/python3"
USERS = ("daemon", "games")


@dataclass(frozen=True)
class Setup:
    """How a store is configured: where users' files are, and sizes of caches."""

    place: dict[str, str]
    head: str = "4M"
    node: str = "2M"


APART = Setup({"daemon": "node-1,node-2", "games": "node-3,node-4"})


@dataclass(frozen=True)
class Change:
    """A change: of which store, what is asked, and the store after it."""

    name: str
    before: Setup
    asked: list[str]
    after: Setup


def changes() -> dict[str, list[Change]]:
    """All changes, by their verb."""
    ram = [
        Change(
            f"head {APART.head} → {size}",
            APART,
            ["ram", "--cache", "head", "--size", size],
            Setup(APART.place, head=size),
        )
        for size in ("1M", "16M")
    ]
    ram += [
        Change(
            f"nodes {APART.node} → {size}",
            APART,
            ["ram", "--cache", "node", "--size", size],
            Setup(APART.place, node=size),
        )
        for size in ("1M", "8M")
    ]
    spread = Setup({"daemon": "node-1", "games": "node-2"})
    return {
        "ram": ram,
        "move": [
            Change(
                "games: node-2 → node-1",
                spread,
                ["move", "--client", "games", "--from", "node-2", "--to", "node-1"],
                Setup({"daemon": "node-1", "games": "node-1"}),
            ),
        ],
        "merge": [
            Change(
                "games onto daemon's",
                APART,
                ["merge", "--client", "daemon", "--with", "games"],
                Setup({"daemon": "node-1,node-2", "games": "node-1,node-2"}),
            )
        ],
        "encode": [
            Change(
                "daemon: 2 → 1 copies",
                APART,
                ["encode", "--client", "daemon", "--copies", "1"],
                Setup({"daemon": "node-1", "games": "node-3,node-4"}),
            ),
            Change(
                "daemon: 2 → 3 copies",
                APART,
                ["encode", "--client", "daemon", "--copies", "3"],
                Setup({"daemon": "node-1,node-2,node-3", "games": "node-3,node-4"}),
            ),
        ],
    }


def record(setup: Setup, options: argparse.Namespace, kept: Path) -> Path:
    """Run both loads on a new store: its trail."""
    places = "-".join(
        f"{user}-{nodes.replace('node-', '').replace(',', '')}" for user, nodes in setup.place.items()
    )
    trail = kept / f"{places}-{setup.head}-{setup.node}.trail"
    if trail.exists():
        return trail
    folder = Path(tempfile.mkdtemp(prefix="iotrail-store-", dir="/var/tmp"))
    folder.chmod(0o755)
    script = folder / "load.py"
    shutil.copy(HERE / "load.py", script)
    arguments = ["--nodes", "4", "--head", f"--cache={setup.head}", "--node", f"--cache={setup.node}"]
    if options.slow:
        arguments += ["--node", f"--fault=slow-disk={options.slow}"]
    for user, nodes in setup.place.items():
        arguments += ["--mds", f"--place={user}={nodes}"]
    quiet = {"stdout": subprocess.DEVNULL}
    try:
        subprocess.run([HERE / "up.sh", *arguments, folder], check=True, **quiet)
        try:
            running = []
            for number, user in enumerate(USERS):
                home = folder / "mnt" / user
                home.mkdir()
                home.chmod(0o777)
                load = [PYTHON, script, home, str(options.seed + number), "8", str(48 - 16 * number)]
                running.append(
                    subprocess.Popen([*load, str(options.operations), str(10 + 20 * number)], user=user)
                )
            statuses = [process.wait() for process in running]
        finally:
            subprocess.run([HERE / "down.sh", folder], check=True, **quiet)
        if any(statuses):
            sys.exit(f"whatif: error: the loads ended with {statuses}, expected 0")
        shutil.move(folder / "store.trail", trail)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return trail


def ask(trail: Path, words: list[str]) -> dict[str, Any]:
    """What `iotrail whatif` says."""
    verb, *options = words
    command = [IOTRAIL, "whatif", verb, trail, *options, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def row(found: dict[str, Any], case: str, client: str) -> dict[str, Any]:
    """A client in a case."""
    [only] = [each for each in found["clients"] if each["case"] == case and each["client"] == client]
    return dict(only)


def hits(found: dict[str, Any], case: str, component: str) -> float | None:
    """Share of the bytes read through a component's caches that they held, of all machines together.

    Reads go to the copy on the least busy machine: which machine's cache has what differs from run to run. None if nothing was read.
    """
    caches = [
        each for each in found["caches"] if each["case"] == case and each["cache"].split("/")[1] == component
    ]
    read, missed = (sum(each[key] for each in caches) for key in ("read_bytes", "missed_bytes"))
    return 1 - missed / read if read else None


def compare(change: Change, options: argparse.Namespace, kept: Path, table: Table) -> None:
    """Predict, change, and add rows."""
    said = ask(record(change.before, options, kept), change.asked)
    after = record(change.after, options, kept)
    # all that this is asked for is what was recorded
    truth = ask(after, ["ram", "--cache", "head", "--size", change.after.head])
    predicted = said["clients"][-1]["case"]

    def add(what: str, unit: float, values: tuple[float, float, float], points: bool = False) -> None:
        was, now, real = (value / unit for value in values)
        off = (
            f"{(now - real) * 100:+.1f} points"
            if points
            else f"{(now / real - 1) * 100:+.1f} %"
            if real
            else "–"
        )
        cells = [f"{value * 100:.1f} %" if points else f"{value:,.2f}" for value in (was, now, real)]
        table.add_row(change.name, what, *cells, off)

    for client in USERS:
        was, now, real = (
            row(said, "as recorded", client),
            row(said, predicted, client),
            row(truth, "as recorded", client),
        )
        for key, what, unit in (
            ("mean_ns", "response, ms", 1e6),
            ("disk_requests", "disk requests, thousand", 1e3),
            ("disk_bytes", "disk, MiB", 2**20),
            ("network_bytes", "network, MiB", 2**20),
        ):
            add(f"{client}: {what}", unit, (was[key], now[key], real[key]))
    for component in ("head", "node"):
        was, now, real = (
            hits(said, "as recorded", component),
            hits(said, predicted, component),
            hits(truth, "as recorded", component),
        )
        if was is not None and now is not None and real is not None:
            add(
                "hits of the head" if component == "head" else "hits of nodes",
                1,
                (was, now, real),
                points=True,
            )
    table.add_section()


def main() -> int:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=1500)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("changes", nargs="*", default=[])
    options = parser.parse_args()
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        print("whatif: error: mounting the store needs root and /dev/fuse", file=sys.stderr)
        return 1
    table = Table(box=rich.box.SIMPLE_HEAD)
    for name in ("change", "", "before", "predicted", "changed", "off by"):
        table.add_column(name, justify="left" if name in ("change", "") else "right")
    with tempfile.TemporaryDirectory(prefix="iotrail-whatif-", dir="/var/tmp") as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(exist_ok=True)
        for verb, each in changes().items():
            if not options.changes or verb in options.changes:
                for change in each:
                    compare(change, options, kept, table)
    Console(piped=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
