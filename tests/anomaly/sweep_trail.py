"""The trail of a sweep of a command that is slow in a known cluster, with requests as a recorded device has them."""

import subprocess
import sys
from pathlib import Path

import pytest

from iotrail.importers.base import Output
from iotrail.trail import Trail

# A command whose answer is 1,000, half of that from depth 8 on under bfq.
_SPEC = """
samples = 50
expect = "expect.py:rate"

[target]
command = "test {depth} -ge 8 -a {scheduler} = bfq && echo 500 || echo 1000 # {stream}"
unit = "bytes/s"

[workload.depth]
values = [1, 2, 4, 8, 16, 32]

[workload.stream]
values = ["64KiB", "256KiB", "1MiB"]

[workload.scheduler]
values = ["none", "bfq", "kyber"]
"""
# Requests of a measurement, and bytes of each.
REQUESTS, LENGTH = 7, 4096
# Under this scheduler there are none.
WITHOUT = "kyber"
_TABLES = ("setting", "measurement", "measured", "expected", "recording", "clock")


# Made once: tests only read it.
_made: list[Path] = []


def with_requests(factory: pytest.TempPathFactory) -> Path:
    """The trail, in a folder whose name a shell would take apart."""
    if not _made:
        trail = _sweep(factory.mktemp("a sweep"))
        _add_requests(trail)
        _made.append(trail)
    return _made[0]


def _sweep(folder: Path) -> Path:
    (folder / "expect.py").write_text("def rate(setting):\n    return 1000\n")
    (folder / "x.toml").write_text(_SPEC)
    trail = folder / "x.trail"
    subprocess.run(
        [sys.executable, "-m", "iotrail", "sweep", "x.toml", "-o", trail],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return trail


def _add_requests(trail: Path) -> None:
    """Puts `REQUESTS` reads into each measurement, but for those `WITHOUT`: a trail in its place."""
    opened = Trail(trail)
    tables = {table: opened.rows_of(f"SELECT * FROM {table}") for table in _TABLES}
    without = {row["setting"] for row in tables["setting"] if row["word"] == WITHOUT}
    reads = [
        (one["ts"] + (at * one["dur"]) // REQUESTS, one["dur"] // (2 * REQUESTS), at * LENGTH, one["node"])
        for one in tables["measurement"]
        if one["setting"] not in without
        for at in range(REQUESTS)
    ]
    with Output(trail, force=True) as out:
        for table, rows in tables.items():
            out.add(table, {name: [row[name] for row in rows] for name in rows[0]}, len(rows))
        columns = {
            "ts": [ts for ts, _, _, _ in reads],
            "dur": [dur for _, dur, _, _ in reads],
            "pos": [pos for _, _, pos, _ in reads],
            "node": [node for _, _, _, node in reads],
            "length": [LENGTH] * len(reads),
            "merged": [0] * len(reads),
            "thread": [0] * len(reads),
            "crumb": [0] * len(reads),
            "kind": "kernel",
            "dev": "sdz",
            "op": "read",
        }
        out.add("disk_op", columns, len(reads))
