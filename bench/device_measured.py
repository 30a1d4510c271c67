"""How well `iotrail device measure` gives back the disk that an emulated one was started with: each value beside the true one.

BENCH_SECONDS (60) for each measurement. The disks are one with small caches and two zones, and those of examples/anomaly. Needs root.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from iotrail import native
from iotrail.expected.linux import device_values
from measure import ROOT, console, keep, scratch, table

sys.path.insert(0, str(ROOT))
from tests.device.test_measure import DISK

SECONDS = os.environ.get("BENCH_SECONDS", "60")
# Values that are compared as they are.
SINGLE = (
    "revolution",
    "track_skew",
    "head_switch",
    "bus.read_hit",
    "bus.read",
    "bus.rate",
    "read_cache.segments",
    "read_cache.segment",
    "read_cache.read_ahead",
)
# Places of the disk, and distances of seeks, that curves are compared at.
PLACES, DISTANCES = (0.05, 0.5, 0.95), (0.001, 0.01, 0.1, 0.3, 0.6, 0.9)
GOAL = 0.05


def track_sectors(values: Mapping[str, Any], place: float) -> float:
    """Sectors of the tracks at a place, a share of the bytes."""
    zones = values["zones"]
    bytes_ = np.cumsum([zone["cylinders"] * zone["sectors_per_track"] for zone in zones])
    return float(
        zones[int(np.searchsorted(bytes_, place * min(values.get("capacity", np.inf) / values["heads"] / values["sector"], bytes_[-1])))][
            "sectors_per_track"
        ]
    )  # fmt: skip


def seek_ns(values: Mapping[str, Any], distance: float) -> float:
    """Time of a seek over a share of the disk."""
    a, b, c, d, e = (float(values[f"seek.curve.{name}"]) for name in "abcde")
    return a + b * distance**0.5 if distance <= e else c + d * distance


def compared(device: Path) -> dict[str, float]:
    """What is compared of a device file, by name."""
    values = {key.removeprefix("disk."): value for key, value in device_values(device).items()}
    return {
        **{name: float(values[name]) for name in SINGLE},
        **{f"sectors per track at {place:.0%}": track_sectors(values, place) for place in PLACES},
        **{f"seek over {distance:.1%}": seek_ns(values, distance) for distance in DISTANCES},
    }


@contextmanager
def emulated(device: Path, folder: Path) -> Iterator[Path]:
    """The file that an emulated disk is."""
    process = subprocess.Popen(
        [native.binary(), "emudisk", device, folder, "--json"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], 60)[0]:
            raise SystemExit(f"iotrail emudisk {device} did not start")
        yield Path(json.loads(process.stdout.readline())["target"])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def bench() -> None:
    """Print the tables."""
    if os.geteuid() != 0:
        console.print("device_measured: emulated disks need root")
        return
    kept: dict[str, Any] = {}
    with scratch() as folder:
        small = folder / "small.toml"
        small.write_text(DISK)
        for truth in (small, ROOT / "examples" / "anomaly" / "disk.toml"):
            mount = folder / truth.stem
            mount.mkdir()
            measured = folder / f"{truth.stem}-measured.toml"
            with emulated(truth, mount) as target:
                subprocess.run(
                    [sys.executable, "-m", "iotrail", "device", "measure", target, "-o", measured, "--seconds", SECONDS],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )  # fmt: skip
            true, found = compared(truth), compared(measured)
            shown = table(f"{truth.stem}: measured in {SECONDS} s", ["value", "true", "measured", "error"])
            for name, value in true.items():
                error = found[name] / value - 1 if value else found[name]
                shown.add_row(name, f"{value:,.5g}", f"{found[name]:,.5g}", f"{error:+.1%}")
            console.print(shown)
            close = sum(abs(found[name] - value) <= GOAL * abs(value) for name, value in true.items())
            console.print(f"Within {GOAL:.0%}: {close} of {len(true)} values.")
            kept[truth.stem] = {"true": true, "measured": found}
    keep("device_measured", disks=kept)
