"""An emulated device while a `with` lasts: what the examples here run on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

IOTRAIL = Path(sys.executable).with_name("iotrail")


@dataclass
class Served:
    """A device that is served."""

    target: str
    # what it said at its end: how late its answers were; empty before
    counts: dict[str, int] = field(default_factory=dict)


@contextmanager
def served(device: object, folder: Path, *options: object, before: Sequence[str] = ()) -> Iterator[Served]:
    """A device that `iotrail emudisk` serves, run behind the words of `before`."""
    command = [*before, IOTRAIL, "emudisk", device, folder, *options, "--json"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"error: iotrail emudisk {device} did not start")
        disk = Served(json.loads(line)["target"])
        yield disk
    finally:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate()
    disk.counts = json.loads(said)
