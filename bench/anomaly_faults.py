"""Whether the layer that is at fault is named: faults planted in an emulated disk and in settings of the kernel, and none.

Each is a sweep of BENCH_SAMPLES (24) settings of mq-deadline on examples/anomaly/disk.toml, compared with what Linux is designed to reach on that
disk. The layer named first for the cluster of most samples is compared with that of the fault. So many handlers read that the fewest requests that
the driver can be set to, four, are no fault of their own: the disk takes one at a time. Needs root.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import ROOT, console, keep, scratch, table

SAMPLES = os.environ.get("BENCH_SAMPLES", "24")
SECONDS = os.environ.get("BENCH_SECONDS", "2")
QUEUE = "/sys/block/{device}/queue"
DISK = ROOT / "examples" / "anomaly" / "disk.toml"
TAGS = "[system.tags]\nvalues = [4]\n"
READAHEAD = '[system.readahead]\nvalues = ["0KiB", "128KiB"]\n'
SPECIFICATION = """
expect = "linux"
constraints = ["run <= stream"]
[target]
device = "served.toml"
model = "disk.toml"
seconds = {seconds}
[repeat]
most = 3
[workload.concurrency]
values = [16, 32, 64, 128]
[workload.stream]
values = ["128KiB", "1MiB"]
[workload.run]
values = ["32KiB", "128KiB", "1MiB"]
[workload.think]
values = ["1ms", "8ms"]
[system.scheduler]
values = ["mq-deadline"]
"""


@dataclass(frozen=True)
class Fault:
    """What is wrong, in which layer (None: nowhere), and how: dimensions of the specification, and values of the disk with
    those in their place."""

    name: str
    layer: str | None
    system: str = READAHEAD + TAGS
    disk: tuple[tuple[str, str], ...] = ()


def fixed(name: str, value: str, file: str, otherwise: str) -> str:
    """A dimension of one value: a file of the device's queue, which is there with the scheduler only."""
    return (
        f'[system.{name}]\nvalues = [{value}]\nset = "echo {{value}} > {QUEUE}/{file} 2> /dev/null || true"\n'
        f'get = "cat {QUEUE}/{file} 2> /dev/null || echo {otherwise}"\n'
    )


FAULTS = (
    Fault("none", None),
    Fault(
        "read-ahead is a quarter of what was set",
        "readahead",
        '[system.readahead]\nvalues = ["128KiB"]\n'
        f'set = "echo $(({{value}} / 4096)) > {QUEUE}/read_ahead_kb"\n'
        f'get = "echo $(($(cat {QUEUE}/read_ahead_kb) * 4096))"\n' + TAGS,
    ),
    Fault(
        "requests of at most 16 KiB",
        "scheduler",
        READAHEAD + TAGS + fixed("most", "16", "max_sectors_kb", "1280"),
    ),
    Fault("requests don't join", "scheduler", READAHEAD + TAGS + fixed("nomerges", "2", "nomerges", "0")),
    Fault(
        "reads expire after 4 ms",
        "scheduler",
        READAHEAD + TAGS + fixed("expire", "4", "iosched/read_expire", "500"),
    ),
    Fault("the driver takes 128 requests", "scheduler", READAHEAD),
    Fault("seeks take 1.8 times", "device", disk=(("value = 6.9555", "value = 12.52"), ("value = 1.0546", "value = 1.898"), ("value = 2.7539", "value = 4.957"), ("value = 6.8867", "value = 12.396"))),
    Fault("6,000 turns a minute", "device", disk=(("value = 10000, unit = \"rpm\"", "value = 6000, unit = \"rpm\""),)),
    Fault("each read takes 3 ms more", "device", disk=(("\nread = { value = 0.1", "\nread = { value = 3.1"),)),
)  # fmt: skip


def run(fault: Fault, folder: Path) -> dict[str, Any]:
    """What is said of a sweep with a fault."""
    text = DISK.read_text()
    (folder / "disk.toml").write_text(text)
    for before, after in fault.disk:
        if before not in text:
            raise SystemExit(f"{DISK}: expected {before!r}")
        text = text.replace(before, after)
    (folder / "served.toml").write_text(text)
    (folder / "spec.toml").write_text(SPECIFICATION.replace("{seconds}", SECONDS) + fault.system)
    iotrail = [sys.executable, "-m", "iotrail"]
    trail = folder / "x.trail"
    sweep = ["sweep", folder / "spec.toml", "-o", trail, "--samples", SAMPLES, "--force"]
    subprocess.run([*iotrail, *sweep], check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(
        [*iotrail, "anomalies", trail, "--json"], check=True, capture_output=True, text=True
    )
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def bench() -> None:
    """Print the table."""
    if os.geteuid() != 0:
        console.print("anomaly_faults: emulated disks need root")
        return
    kept: dict[str, Any] = {}
    shown = table(
        f"Faults in one layer: sweeps of {SAMPLES} settings, {SECONDS} s each",
        ["fault", "layer at fault", "layer named first", "its metric", "samples in the cluster", "loss"],
    )
    right = 0
    for fault in FAULTS:
        with scratch() as folder:
            answer = run(fault, Path(folder))
        clusters = sorted(answer["clusters"], key=lambda one: -one["samples"])
        first = clusters[0] if clusters else None
        layers = first["layers"] if first else []
        named = layers[0]["layer"] if layers else None
        right += named == fault.layer
        kept[fault.name] = {"layer": fault.layer, "named": named, "clusters": clusters}
        shown.add_row(
            fault.name,
            fault.layer or "–",
            named or "–",
            layers[0]["metric"] if layers else "–",
            f"{first['samples']} of {answer['samples']}" if first else "none",
            f"{first['loss']:.0%}" if first else "–",
        )
    console.print(shown)
    console.print(f"The right answer: {right} of {len(FAULTS)}.")
    keep("anomaly_faults", faults=kept)
