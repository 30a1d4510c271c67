"""An emulated device while a `with` lasts: what the examples here run on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

IOTRAIL = Path(sys.executable).with_name("iotrail")


@contextmanager
def served(device: object, folder: Path, *options: object, before: Sequence[str] = ()) -> Iterator[str]:
    """The path of a device that `iotrail emudisk` serves, run behind the words of `before`."""
    command = [*before, IOTRAIL, "emudisk", device, folder, *options, "--json"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"error: iotrail emudisk {device} did not start")
        yield json.loads(line)["target"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
