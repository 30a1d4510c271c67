"""Stores on this machine, as examples/store/up.sh starts them."""

import os
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "store"


class Store:
    """A store in a directory; what a test starts, the fixture ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mount = directory / "mnt"
        self.addresses: dict[str, str] = {}

    def up(self, *options: str) -> None:
        """Start it, or those of its daemons that don't run."""
        done = subprocess.run(
            [EXAMPLE / "up.sh", *options, self.directory], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        for name, address in re.findall(r"^([\w-]+): pid \d+, (\S+)$", done.stdout, re.MULTILINE):
            self.addresses[name] = address

    def down(self) -> subprocess.CompletedProcess[str]:
        """End it and merge its trails."""
        return subprocess.run(
            [EXAMPLE / "down.sh", self.directory], check=False, capture_output=True, text=True
        )

    def pids(self, name: str) -> list[int]:
        """The processes of a daemon: its recorder, if it has one, and itself, last."""
        file = self.directory / f"{name}.pid"
        if not file.exists():
            return []
        pid = int(file.read_text())
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [pid, *map(int, children)]

    def kill(self, name: str) -> None:
        """End a daemon, and its recorder, as a crash of its machine would."""
        pids = self.pids(name)
        fds = [os.pidfd_open(pid) for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for fd in fds:
            # Readable when the process has ended.
            select.select([fd], [], [])
            os.close(fd)

    def log(self, name: str) -> str:
        """What a daemon said."""
        return (self.directory / f"{name}.log").read_text()

    def clean(self) -> None:
        """End all that is left of it."""
        names = [file.stem for file in self.directory.glob("*.pid")]
        subprocess.run(["umount", "-l", self.mount], check=False, capture_output=True)
        for name in names:
            for pid in self.pids(name):
                os.kill(pid, signal.SIGKILL)
        for disk in self.directory.glob("node-*/disk"):
            disk.unlink()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that isn't started yet."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting the store needs root and /dev/fuse")
    store = Store(tmp_path / "store")
    yield store
    store.clean()
