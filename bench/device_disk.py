"""How well a disk fitted to half of a trace predicts the other half, beside DiskSim with parameters extracted from the disk.

`BENCH_DISKSIM` is a built DiskSim 4 (its folders src and valid); without it the traces of the tests are used. Its validation traces are of real disks under a
synthetic load, a request at a time: R or W, what the buffer did, first sector, sectors, service time and time until
the next request arrives after completion, both in µs. DiskSim runs the half that is predicted, with the parameters and the
tool (rms) that come with it. Each half is predicted from the other one. The demerit is as in `iotrail.device.demerit`.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from rich.table import Table

from iotrail import native
from iotrail.device.compare import compare
from iotrail.device.demerit import demerit
from iotrail.device.fit import fit
from iotrail.device.observed import Observed
from iotrail.device.simulate import Simulator
from measure import ROOT, console

DISKS = (
    "atlas10k",
    "hp_c3323a",
    "atlas_III",
    "barracuda",
    "cheetah4LP",
    "cheetah9LP",
    "ibm18es",
    "dec_rz26",
    "hp_c2247a",
    "hp_c2490a",
)
PROGRAM = [str(native.binary()), "simulate", "disk"]
# The two traces that tests have; DiskSim brings the others.
SHARED, PREFIX = ROOT.parent / "shared/traces/block", "disksim-"
SECTOR = 512


def read_trace(path: Path) -> Observed:
    """A validation trace of DiskSim."""
    words = np.array(path.read_text().split(), dtype=object).reshape(-1, 6)
    service, think = (np.rint(words[:, at].astype(float) * 1000).astype(np.int64) for at in (4, 5))
    arrival = np.concatenate(([0], np.cumsum(service + think)[:-1]))
    pos, length = (words[:, at].astype(np.int64) * SECTOR for at in (2, 3))
    return Observed(words[:, 0] == "W", pos, length, arrival, service)


def run_disksim(folder: Path, disk: str, half: int) -> float | None:
    """Demerit of DiskSim on half of a trace, in ms; None if it fails."""
    lines = (folder / "valid" / f"{disk}.trace").read_text().splitlines(keepends=True)
    middle = len(lines) // 2
    with tempfile.TemporaryDirectory() as work:
        trace, output = Path(work, "trace"), Path(work, "outv")
        trace.write_text("".join(lines[middle:] if half == 2 else lines[:middle]))
        simulate = [folder / "src/disksim", f"{disk}.parv", output, "validate", trace, "0"]
        compare_ = [folder / "src/rms", output, output, "-1", "-1", "1"]
        subprocess.run(simulate, cwd=folder / "valid", capture_output=True, check=False)
        ran = subprocess.run(compare_, cwd=folder / "valid", capture_output=True, text=True, check=False)
    return float(ran.stdout.split("=")[1]) if "=" in ran.stdout else None


def bench() -> None:
    """Print the table."""
    named = os.environ.get("BENCH_DISKSIM")
    folder = Path(named) if named else None
    traces = {
        disk: (folder / "valid" if folder else SHARED) / f"{PREFIX * (not folder)}{disk}.trace"
        for disk in DISKS
    }
    traces = {disk: path for disk, path in traces.items() if path.exists()}
    if not traces:
        console.print(
            "bench: no traces of disks: BENCH_DISKSIM names the folder of a built DiskSim, which has some"
        )
        return
    table = Table(title="Disks fitted to half of a trace, on the other half", title_justify="left")
    for name in ("disk", "half", "mean ms", "halves ms", "demerit ms", "of mean", "DiskSim ms"):
        table.add_column(name, justify="left" if name == "disk" else "right")
    for name in ("sequential reads", "other reads", "writes"):
        table.add_column(name, justify="right")
    for disk, path in traces.items():
        requests = read_trace(path)
        middle, capacity = len(requests) // 2, int((requests.pos + requests.length).max())
        halves = requests[:middle], requests[middle:]
        for half, (known, asked) in ((2, halves), (1, halves[::-1])):
            fitted = fit(known, PROGRAM, capacity_bytes=capacity)
            with Simulator(PROGRAM, asked) as simulate:
                found = compare(asked, [simulate(fitted.parameters)])
            peer = run_disksim(folder, disk, half) if folder else None
            table.add_row(
                disk,
                str(half),
                f"{found.measured_mean / 1e6:.2f}",
                f"{demerit(known.service, asked.service) / 1e6:.3f}",
                f"{found.demerit / 1e6:.3f}",
                f"{found.demerit / found.measured_mean:.1%}",
                "–" if peer is None else f"{peer:.3f}",
                *(f"{part.simulated_mean / part.measured_mean - 1:+.1%}" for part in found.classes.values()),
            )
    console.print(table)
    if not folder:
        console.print("DiskSim is left out: BENCH_DISKSIM names the folder of a built one")
