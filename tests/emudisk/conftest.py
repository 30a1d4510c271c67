"""An emulated disk that is started for a test and ended after it."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrail import native

MIB = 1 << 20


def device_file(folder: Path, name: str = "of a test", **changes: str) -> Path:
    """A device file of kind `fixed`; `changes` replaces values, as read="50 us"."""
    values = {
        "capacity": "10 GiB",
        "servers": "1 count",
        "read": "3 ms",
        "write": "5 ms",
        "flush": "11 ms",
        "trim": "1 ms",
        "rate": "1 GB/s",
        **changes,
    }
    lines = [f"format = 1\nkind = 'fixed'\nname = '{name}'\n[fixed]"]
    for key, (value, unit) in ((key, text.split()) for key, text in values.items()):
        lines.append(f"{key} = {{ value = {value}, unit = '{unit}', source = 'test' }}")
    path = folder / "device.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass
class Emulated:
    """A running `iotrail emudisk`."""

    process: subprocess.Popen[str]
    # what it said when it was ready
    ready: dict[str, Any]

    @property
    def target(self) -> Path:
        """The file or block device."""
        return Path(self.ready["target"])

    def stop(self) -> dict[str, Any]:
        """End it by SIGTERM: what it says at its end."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        said: dict[str, Any] = json.loads(out)
        return said

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()
        self.process.wait()


Emulate = Callable[..., Emulated]


@pytest.fixture
def emulate(tmp_path: Path) -> Iterator[Emulate]:
    """Starts `iotrail-native emudisk DEVICE DIR …` and waits until it serves."""
    started: list[Emulated] = []

    def start(device: Path | str, directory: Path, *options: str) -> Emulated:
        process = subprocess.Popen(
            [native.binary(), "emudisk", device, directory, "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stderr is not None
        assert select.select([process.stdout], [], [], 60)[0], "no word from emudisk"
        line = process.stdout.readline()
        if not line:
            process.wait()
            pytest.fail(process.stderr.read())
        started.append(Emulated(process, json.loads(line)))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            # twice: a disk in use is detached at the second
            for _ in range(2):
                each.process.send_signal(signal.SIGTERM)
                try:
                    each.process.wait(timeout=20)
                    break
                except subprocess.TimeoutExpired:
                    continue
            each.kill()
    for mount in served(tmp_path):
        subprocess.run(["umount", "--lazy", mount], check=False)


def served(folder: Path) -> list[str]:
    """Mount points of emulated disks below a folder; others are somebody else's."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines if " iotrail-emudisk " in line]
    return [point for point in points if Path(point).is_relative_to(folder)]


def attached(directory: Path) -> list[str]:
    """Loop devices over the emulated disk of a directory."""
    found = []
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        if Path(device.read_text().strip()) == directory / "disk":
            found.append(f"/dev/{device.parent.parent.name}")
    return found


def is_root() -> bool:
    """Whether mounts and loop devices can be made."""
    return os.geteuid() == 0
