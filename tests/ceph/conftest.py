"""A real Ceph cluster in memory, a collector and an agent beside it: what a user has, started and ended here."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "ceph"))
from cluster import CLIENTS, DAEMONS, Cluster

NATIVE = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
LOAD = Path(__file__).parents[2] / "examples/ceph/load.py"


def expect_ceph() -> None:
    """Skip a test that can't have a cluster."""
    missing = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Ceph isn't here: {', '.join(missing) or 'its daemons need root'}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three OSDs and two active MDSs."""
    expect_ceph()
    # A short path: sockets' names are short.
    with (
        tempfile.TemporaryDirectory(prefix="itc-", dir="/tmp") as folder,
        Cluster(Path(folder) / "c", mdss=2, active=2, net="127.0.10") as cluster,
    ):
        yield cluster


class Observed:
    """A collector and an agent that may be killed and started again."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.trail = folder / "x.trail"
        self.address = "127.0.0.1:0"
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start_collector(self) -> None:
        """On the port it had before, if it had one."""
        collector = subprocess.Popen(
            [NATIVE, "collect", "-o", self.trail, "--listen", self.address],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "collect.err").open("a"),
            text=True,
        )
        self.running["collect"] = collector
        assert collector.stdout is not None
        line = collector.stdout.readline()
        found = re.match(r"collecting into .+ on ([^\s,]+)", line)
        assert found, line + (self.folder / "collect.err").read_text()
        self.address = found[1]

    def start_agent(self, requests: str = "all") -> None:
        """With the state of the one before."""
        self.running["agent"] = subprocess.Popen(
            [
                NATIVE,
                "agent",
                "--collector",
                self.address,
                "--ceph",
                self.cluster.sockets,
                "--state",
                self.folder / "agent",
                "--requests",
                requests,
            ],
            stderr=(self.folder / "agent.err").open("a"),
        )

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End one of them."""
        process = self.running.pop(name)
        process.send_signal(how)
        status = process.wait(60)
        assert status == (0 if how == signal.SIGTERM else -how), (self.folder / f"{name}.err").read_text()

    def end_all(self) -> None:
        """The agent first: it hands over what it has."""
        for name in ("agent", "collect"):
            if name in self.running:
                self.end(name)


@pytest.fixture
def observed(cluster: Cluster, tmp_path: Path) -> Iterator[Observed]:
    """Neither is started yet."""
    observed = Observed(cluster, tmp_path)
    yield observed
    for process in observed.running.values():
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
