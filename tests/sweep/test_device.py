"""A block device as a target: emulated ones are swept, their requests recorded, and nothing is left behind."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from iotrail.errors import SweepError, UsageError
from iotrail.sweep import device, spec
from iotrail.sweep.plan import plan
from iotrail.trail import Trail

from ..emudisk.conftest import is_root

needs_root = pytest.mark.skipif(not is_root(), reason="emulated devices need root")

DISK = """
format = 1
kind = "fixed"
name = "of a test"
[fixed]
capacity = { value = 1, unit = "GiB", source = "t" }
servers = { value = 1, unit = "count", source = "t" }
read = { value = 4, unit = "ms", source = "t" }
write = { value = 4, unit = "ms", source = "t" }
flush = { value = 0, unit = "ms", source = "t" }
trim = { value = 4, unit = "ms", source = "t" }
rate = { value = 500, unit = "MB/s", source = "t" }
"""
SPEC = """
expect = "linux"
[target]
device = "disk.toml"
seconds = 0.5
[repeat]
most = 1
[workload.concurrency]
values = [1, 8]
[workload.io]
values = ["buffered", "direct"]
[system.scheduler]
values = ["none", "mq-deadline"]
[system.readahead]
values = ["0KiB", "64KiB"]
[system.tags]
values = [4, 32]
"""


def write(folder: Path, text: str = SPEC) -> Path:
    """A specification with the device file beside it."""
    (folder / "disk.toml").write_text(DISK)
    path = folder / "spec.toml"
    path.write_text(text)
    return path


def served(folder: Path) -> list[str]:
    """Mounts and loop devices of emulations that a test in this folder has started."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    backed = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        # one of another test may go meanwhile
        with contextlib.suppress(OSError):
            backed.append(path.read_text())
    return sorted(one for one in mounts + backed if f"{folder}/" in one)


def lines_of(journal: Path) -> list[dict[str, Any]]:
    """What a journal says, line by line."""
    return [json.loads(line) for line in journal.read_text().splitlines()]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('device = "disk.toml"', 'device = "disk.toml"\ncommand = "echo 1"', "expected one of simulator, command, device"),
        ("[workload.io]", "[workload.depth]", "depth: nothing uses it"),
        ('"buffered", "direct"', '"buffered", "mapped"', "io: expected buffered or direct"),
        ("values = [4, 32]", "values = [1, 4]", "tags: expected at least 4, found 1"),
        ('expect = "linux"', 'expect = "stack"', "expect: expected FILE.py:FUNCTION, OLD.trail, linux, paper"),
        ('expect = "linux"', 'expect = "paper"', "the paper's equations need a disk with a seek curve"),
        ('device = "disk.toml"', 'device = "/dev/loop7"', "target.model: expected a device file that describes /dev/loop7"),
        ('device = "disk.toml"', 'device = "no.toml"', "no.toml"),
        ("seconds = 0.5", "seconds = 0", "target.seconds: expected a number above 0"),
    ],
)  # fmt: skip
def test_what_can_not_be_measured_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in SPEC
    path = write(tmp_path, SPEC.replace(before, after))
    with pytest.raises(UsageError) as error:
        plan(path)
    assert said in str(error.value)


def test_own_commands_know_the_device(tmp_path: Path) -> None:
    text = SPEC.replace(
        "[system.tags]\nvalues = [4, 32]",
        '[system.wait]\nvalues = [1, 2]\nset = "echo {value} > /sys/block/{device}/queue/iosched/slice_idle"\nget = "cat /{device}"',
    )
    one = spec.read(write(tmp_path, text))
    device.check(one)
    made = device.controls(one, Path("/dev/sdx"), tmp_path / "mounted")
    assert made["wait"].set == "echo {value} > /sys/block/sdx/queue/iosched/slice_idle"
    assert made["wait"].get == "cat /sdx"
    assert made["scheduler"].set == "echo {value} > /sys/block/sdx/queue/scheduler"


@needs_root
def test_an_emulated_device_is_swept(tmp_path: Path) -> None:
    planned = plan(write(tmp_path), samples=12)
    output = tmp_path / "x.trail"
    sweep = planned.run(output, command=["iotrail"])
    assert served(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk.toml", "spec.toml", "x.trail"]
    assert all(sweep.sampled(code).state != "failed" for code in sweep.measurements)
    trail = Trail(output)
    rows = trail.rows_of(
        "SELECT m.layer, m.metric, m.value, e.value AS expected FROM measured m JOIN expected e "
        "ON e.setting = m.setting AND e.layer = m.layer AND e.metric = m.metric"
    )
    of = {(row["layer"], row["metric"]) for row in rows}
    assert {layer for layer, _ in of} == {"application", "readahead", "scheduler", "device"}
    # a request takes 4 ms, whatever the settings; the emulation answers late where others have its CPU, and never early
    service = [row["value"] / row["expected"] for row in rows if row["metric"] == "service_ns"]
    assert len(service) == 12
    assert min(service) > 0.95 and statistics.median(service) < 1.3
    ratios = [row["value"] for row in rows if row["metric"] == "service_ratio"]
    assert len(ratios) == 12
    assert min(ratios) > 0.95 and statistics.median(ratios) < 1.3
    assert [row["value"] for row in rows if row["metric"] == "cut_into"] == [1.0] * 12
    # each measurement's requests lie within it
    (counted,) = trail.rows_of(
        "SELECT count(*) AS n, count(DISTINCT m.ts) AS measurements FROM disk_op d "
        "JOIN measurement m ON d.ts >= m.ts AND d.ts + d.dur <= m.ts + m.dur"
    )
    (all_rows,) = trail.rows_of("SELECT count(*) AS n FROM disk_op WHERE dur IS NOT NULL")
    assert counted["measurements"] == sum(map(len, sweep.measurements.values()))
    assert counted["n"] == all_rows["n"] > 12 * 50


FILESYSTEM = '[system.filesystem]\nvalues = ["none", "ext4"]\n'


@needs_root
def test_a_file_system_is_read_like_the_device(tmp_path: Path) -> None:
    text = SPEC.replace('["0KiB", "64KiB"]', '["64KiB"]').replace("[4, 32]", "[32]").replace("[1, 8]", "[4]")
    text = text.replace('["none", "mq-deadline"]', '["none"]')
    output = tmp_path / "x.trail"
    plan(write(tmp_path, text + FILESYSTEM), samples=4).run(output, command=["iotrail"])
    assert served(tmp_path) == []
    rows = Trail(output).rows_of(
        "SELECT s.word AS filesystem, i.word AS io, m.value / e.value AS share FROM measured m "
        "JOIN expected e ON e.setting = m.setting AND e.layer = m.layer AND e.metric = m.metric "
        "JOIN setting s ON s.setting = m.setting AND s.dimension = 'filesystem' "
        "JOIN setting i ON i.setting = m.setting AND i.dimension = 'io' WHERE m.layer = 'application'"
    )
    assert sorted((row["filesystem"], row["io"]) for row in rows) == [
        (name, io) for name in ("ext4", "none") for io in ("buffered", "direct")
    ]
    # what is expected is the device's, with a file system or without
    assert all(0.8 < row["share"] < 1.25 for row in rows), rows


@needs_root
def test_layers_are_judged_by_what_they_were_given(tmp_path: Path) -> None:
    # a disk that takes twice as long as its model, and a kernel that cuts what is read ahead
    (tmp_path / "slow.toml").write_text(DISK.replace("value = 4, unit", "value = 8, unit"))
    queue = "/sys/block/{device}/queue/max_sectors_kb"
    text = SPEC.replace('device = "disk.toml"', 'device = "slow.toml"\nmodel = "disk.toml"')
    text = text.replace('["buffered", "direct"]', '["buffered"]').replace('["0KiB", "64KiB"]', '["64KiB"]')
    text = text.replace('["none", "mq-deadline"]', '["mq-deadline"]').replace("[4, 32]", "[32]")
    text += f'[system.most]\nvalues = [16, 1280]\nset = "echo {{value}} > {queue}"\nget = "cat {queue}"\n'
    output = tmp_path / "x.trail"
    plan(write(tmp_path, text), samples=4).run(output, command=["iotrail"])
    rows = Trail(output).rows_of(
        "SELECT s.number AS most, m.metric, m.value FROM measured m "
        "JOIN setting s ON s.setting = m.setting AND s.dimension = 'most'"
    )
    ratios = [row["value"] for row in rows if row["metric"] == "service_ratio"]
    assert len(ratios) == 4
    assert all(1.8 < ratio < 2.3 for ratio in ratios)
    cut = {(row["most"], row["value"] > 1.1) for row in rows if row["metric"] == "cut_into"}
    assert cut == {(16.0, True), (1280.0, False)}


@needs_root
def test_more_requests_than_were_set_end_the_sweep(tmp_path: Path) -> None:
    # a command that sets nothing, and a file that says what it should
    text = SPEC.replace("values = [4, 32]", 'values = [4]\nset = "true"\nget = "echo 4"')
    text = text.replace("values = [1, 8]", "values = [32]")
    with pytest.raises(SweepError, match=r"tags: set to 4, but \d+ requests were in flight"):
        plan(write(tmp_path, text), samples=1).run(tmp_path / "x.trail", command=["iotrail"])


@needs_root
def test_a_device_in_use_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    found = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        (tmp_path / "mounted").mkdir()
        subprocess.run(["mount", found, tmp_path / "mounted"], check=True)
        text = SPEC.replace('device = "disk.toml"', f'device = "{found}"\nmodel = "disk.toml"')
        with pytest.raises(SweepError, match=f"{found}: mounted or in use"):
            plan(write(tmp_path, text), samples=1).run(tmp_path / "x.trail", command=["iotrail"])
        assert not (tmp_path / "x.trail.sweep").exists()
        subprocess.run(["umount", tmp_path / "mounted"], check=True)
        # nobody uses it now, but it holds data
        with pytest.raises(SweepError, match=f"{found} holds data, which a file system would replace"):
            plan(write(tmp_path, text + FILESYSTEM), samples=1).run(tmp_path / "x.trail", command=["iotrail"])
        assert not (tmp_path / "x.trail.sweep").exists()
        found_before = Path("/sys/block", Path(found).name, "queue/scheduler").read_text()
        text = text.replace("seconds = 0.5", "seconds = 0.1").replace("[workload.io]", "[workload.span]")
        text = text.replace('["buffered", "direct"]', "[1]")
        plan(write(tmp_path, text), samples=2).run(tmp_path / "x.trail", command=["iotrail"])
        assert Path("/sys/block", Path(found).name, "queue/scheduler").read_text() == found_before
    finally:
        subprocess.run(["umount", tmp_path / "mounted"], check=False, capture_output=True)
        subprocess.run(["losetup", "--detach", found], check=True)


@needs_root
def test_nothing_is_left_of_a_sweep_that_is_killed(tmp_path: Path) -> None:
    path, output = write(tmp_path, SPEC + FILESYSTEM), tmp_path / "x.trail"
    process = subprocess.Popen(
        [sys.executable, "-m", "iotrail", "sweep", path, "-o", output, "--samples", "12"],
        start_new_session=True,
    )
    journal = tmp_path / "x.trail.sweep"
    while not (journal.exists() and journal.read_text().count('"setting"') >= 3):
        assert process.poll() is None
        time.sleep(0.05)
    assert len(served(tmp_path)) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    patience = time.monotonic() + 60
    restored = {"restored": True}
    while time.monotonic() < patience and (served(tmp_path) or lines_of(journal)[-1] != restored):
        time.sleep(0.1)
    lines = lines_of(journal)
    assert served(tmp_path) == []
    assert lines[-1] == restored
    kept = [line for line in lines if "setting" in line]
    sweep = plan(path, samples=12).run(output, command=["iotrail"], resume=True)
    assert len(sweep.measurements) == 12
    first = [one.ts for measured in sweep.measurements.values() for one in measured]
    assert {line["ts"] for line in kept} <= set(first)


def test_others_than_root_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SweepError, match="a device's settings need root"):
        plan(write(tmp_path), samples=1).run(tmp_path / "x.trail", command=["iotrail"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk.toml", "spec.toml"]
