"""OSDs on BlueStore that are killed and ended under the agent, again and again: each comes up."""

import json
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster

from .conftest import Observed, expect_ceph

OSDS, ROUNDS = 5, 8
# Seconds until an OSD that was started is up: some on an idle machine. One that hangs is never.
PATIENCE = 90


@pytest.fixture
def disks() -> Iterator[Cluster]:
    """OSDs on BlueStore, each with a loop device."""
    expect_ceph()
    with (
        tempfile.TemporaryDirectory(prefix="itr-", dir="/tmp") as folder,
        Cluster(
            Path(folder) / "c",
            osds=OSDS,
            mdss=0,
            store="bluestore",
            replicas=3,
            net="127.0.13",
            gigabytes=2,
        ) as cluster,
    ):
        yield cluster


def boots(cluster: Cluster) -> dict[int, int]:
    """Of each OSD that is up the epoch since which it is: another one after each start."""
    dump = json.loads(cluster.ceph("osd", "dump", "--format", "json"))
    return {osd["osd"]: osd["up_from"] for osd in dump["osds"] if osd["up"]}


def test_no_osd_hangs_at_its_start_beside_the_agent(disks: Cluster, tmp_path: Path) -> None:
    """40 restarts, half of them after SIGKILL, as systemd does them: at once."""
    observed = Observed(disks, tmp_path)
    observed.start_collector()
    observed.start_agent()
    try:
        for turn in range(ROUNDS):
            before = boots(disks)
            for number in range(OSDS):
                how = signal.SIGKILL if (turn + number) % 2 else signal.SIGTERM
                disks.stop(f"osd.{number}", how)
                disks.start(f"osd.{number}")
            end = time.monotonic() + PATIENCE
            missing = set(range(OSDS))
            while missing and time.monotonic() < end:
                time.sleep(0.5)
                missing -= {number for number, since in boots(disks).items() if since > before.get(number, 0)}
            assert not missing, f"round {turn}: OSDs {sorted(missing)} did not come up within {PATIENCE} s"
        observed.end_all()
    finally:
        for process in observed.running.values():
            process.kill()
            process.wait()
    # What a daemon refuses while it starts is asked rarely: each time is a line in its log.
    log = "".join(path.read_text() for path in (disks.folder / "log").glob("osd.*.log"))
    refused = len(re.findall(r"AdminSocket: request .* not defined", log))
    assert refused <= 4 * OSDS * ROUNDS
