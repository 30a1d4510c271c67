"""Emulated devices are measured, and what is known of them is found again; targets that must not be written are refused.

They run alone: what else the machine does makes answers late.
"""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from iotrail import native
from iotrail.device.estimates import Draft
from iotrail.device.measure import measure
from iotrail.device.measure_volume import VolumeProbes, _Line
from iotrail.device.probe import Prober
from iotrail.errors import DeviceError

from ..emudisk.conftest import MIB, Emulate, device_file, emulate, is_root
from .written import is_judged

__all__ = ["emulate"]

needs_root = pytest.mark.skipif(not is_root(), reason="mounts and loop devices need root")

DISK = """
format = 1
kind = "disk"
name = "of a test"
[disk]
capacity = { value = 20, unit = "GB", source = "t" }
sector = { value = 512, unit = "B", source = "t" }
heads = { value = 4, unit = "count", source = "t" }
revolution = { value = 10000, unit = "rpm", source = "t" }
track_skew = { value = 0.9, unit = "ms", source = "t" }
cylinder_skew = { value = 0.9, unit = "ms", source = "t" }
head_switch = { value = 0.9, unit = "ms", source = "t" }
cylinder_switch = { value = 0.9, unit = "ms", source = "t" }
write_settle = { value = 0.5, unit = "ms", source = "t" }
zero_latency = { value = false, source = "t" }
queue_depth = { value = 1, unit = "count", source = "t" }
scheduler = { value = "fcfs", source = "t" }
[disk.zones]
value = [{ cylinders = 7000, sectors_per_track = 800 }, { cylinders = 7000, sectors_per_track = 600 }]
unit = { cylinders = "count", sectors_per_track = "count" }
source = "t"
[disk.seek.curve]
a = { value = 1.5, unit = "ms", source = "t" }
b = { value = 12, unit = "ms", source = "t" }
c = { value = 4.764, unit = "ms", source = "t" }
d = { value = 9.6, unit = "ms", source = "t" }
e = { value = 0.16, unit = "ratio", source = "t" }
[disk.bus]
rate = { value = 100, unit = "MB/s", source = "t" }
read_overlap = { value = true, source = "t" }
read = { value = 1.2, unit = "ms", source = "t" }
write = { value = 1.2, unit = "ms", source = "t" }
read_hit = { value = 0.8, unit = "ms", source = "t" }
write_hit = { value = 0.8, unit = "ms", source = "t" }
[disk.read_cache]
segments = { value = 5, unit = "count", source = "t" }
segment = { value = 256, unit = "KiB", source = "t" }
read_ahead = { value = 64, unit = "KiB", source = "t" }
read_ahead_on_hit = { value = true, source = "t" }
track_buffer = { value = false, source = "t" }
"""


def show(path: Path) -> dict[str, dict[str, Any]]:
    """The values of a device file."""
    ran = subprocess.run(
        [native.binary(), "device", "show", path], capture_output=True, text=True, check=True
    )
    return {each["key"]: each for each in json.loads(ran.stdout)["values"]}


# A measurement beside other work can be off: of so many, one must be right in all that it says.
TRIES = 3


def off(pairs: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Those of (measured, expected) that differ."""
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@needs_root
def test_a_disk_is_found_again(emulate: Emulate, tmp_path: Path) -> None:
    truth = tmp_path / "disk.toml"
    truth.write_text(DISK)
    disk = emulate(truth, tmp_path / "d")
    written = tmp_path / "measured.toml"
    for seed in range(TRIES):
        found = measure(disk.target, seconds=18, seed=seed)
        assert found.kind == "disk"
        written.write_text(found.text)
        values = show(written)
        wrong = off(compare_disk(values))
        if not wrong:
            break
    disk.stop()
    assert not wrong
    assert is_judged(written, "measured-disk.toml")
    assert values["disk.revolution"]["error"] < 0.06
    assert values["disk.heads"]["source"].startswith("assumed: not measured")


def compare_disk(values: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Measured and expected values of `DISK`."""

    def value(key: str) -> float:
        return float(values[f"disk.{key}"]["value"])

    def seek(distance: float) -> float:
        a, b, c, d, e = (value(f"seek.curve.{key}") for key in "abcde")
        return a + b * distance**0.5 if distance <= e else c + d * distance

    def true_seek(distance: float) -> float:
        return 1.5 + 12 * distance**0.5 if distance <= 0.16 else 4.764 + 9.6 * distance

    # 7000 cylinders of 800 sectors hold 57 % of the bytes
    tracks = [zone["sectors_per_track"] for zone in values["disk.zones"]["value"]]
    return {
        "revolution": (value("revolution"), pytest.approx(6.0, rel=0.005)),
        "bus.read_hit": (value("bus.read_hit"), pytest.approx(0.8, rel=0.1)),
        # the emulation sees requests late after it was idle (docs/devices.md, limits)
        "bus.read": (value("bus.read"), pytest.approx(1.25, abs=0.2)),
        "bus.rate": (value("bus.rate"), pytest.approx(100, rel=0.1)),
        "head_switch": (value("head_switch"), pytest.approx(0.9, rel=0.2)),
        "track_skew": (value("track_skew"), pytest.approx(0.9, rel=0.15)),
        "outer tracks": (np.median(tracks[:8]), pytest.approx(800, rel=0.03)),
        "inner tracks": (np.median(tracks[-6:]), pytest.approx(600, rel=0.03)),
        **{
            f"seek over {distance}": (seek(distance), pytest.approx(true_seek(distance), rel=0.05))
            for distance in (0.01, 0.1, 0.3, 0.6, 0.9)
        },
        "read_cache.segments": (value("read_cache.segments"), 5),
        "read_cache.read_ahead": (value("read_cache.read_ahead"), pytest.approx(65536, rel=0.05)),
        "read_cache.segment": (value("read_cache.segment"), pytest.approx(262144, rel=0.05)),
    }


@needs_root
def test_a_volume_is_found_again(emulate: Emulate, tmp_path: Path) -> None:
    rate = "100 MB/s"
    device = device_file(tmp_path, servers="5 count", rate=rate)
    volume = emulate(device, tmp_path / "d", "--size", "256M", "--loop")
    output = tmp_path / "measured.toml"
    command = [sys.executable, "-m", "iotrail", "device", "measure", volume.target, "-o", output, "--write"]
    for _ in range(TRIES):
        narrow = {**os.environ, "COLUMNS": "40"}
        ran = subprocess.run(
            [*command, "--force", "--seconds", "12"], capture_output=True, text=True, check=False, env=narrow
        )
        if "measure again on an idle machine" in ran.stderr:
            wrong = {"refused": (ran.stderr, "")}
            continue
        assert ran.returncode == 0, ran.stderr
        assert "fixed: reads follow no period" in ran.stdout and not ran.stderr
        values = show(output)
        expected = {"read": 3.0, "write": 5.0, "flush": 11.0, "rate": 100.0}
        wrong = off(
            {
                key: (values[f"fixed.{key}"]["value"], pytest.approx(true, rel=0.15))
                for key, true in expected.items()
            }
            | {"servers": (values["fixed.servers"]["value"], 5)}
        )
        if not wrong:
            break
    volume.stop()
    assert not wrong
    assert is_judged(output, "measured-volume.toml")
    assert all(values[f"fixed.{key}"]["source"].startswith("measured") for key in expected)
    # The file that is there is kept, and the page shows what was measured.
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "exists" in again.stderr
    page = tmp_path / "page.html"
    shown = [sys.executable, "-m", "iotrail", "device", "show", output, "--html", page]
    subprocess.run(shown, check=True, capture_output=True)
    assert "Reads per second by queue depth" in page.read_text()


def test_times_that_can_not_be_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short requests that took no longer than nothing: a disturbed measurement."""
    probes = VolumeProbes.__new__(VolumeProbes)
    probes.prober = SimpleNamespace(left=10.0, write=False)  # type: ignore[assignment]
    probes.size, probes.draft = 1 << 30, Draft(1 << 30)
    disturbed = _Line(base=-40_000.0, slope=1.0, base_error=1.0, slope_error=0.1, count=9)
    monkeypatch.setattr(probes, "_time_sizes", lambda *_: disturbed)
    with pytest.raises(DeviceError, match="expected a time above 0 without the transfer, found -40000 ns"):
        probes.measure()
    assert "read" not in probes.draft.estimates


def refusal(target: Path, **options: Any) -> str:
    """Why a target isn't measured."""
    with pytest.raises(DeviceError) as refused:
        measure(target, **options)
    return str(refused.value)


def blank(path: Path, size: int = 32 * MIB) -> Path:
    """A file of zeros, without holes."""
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path


def test_what_is_no_target_is_refused(tmp_path: Path) -> None:
    assert "cannot look at" in refusal(tmp_path / "none")
    assert "neither a file nor a block device" in refusal(tmp_path)
    assert "neither a file nor a block device" in refusal(Path("/dev/null"))
    assert "expected at least 16777216" in refusal(blank(tmp_path / "small", MIB))
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(64 * MIB)
    assert "has holes" in refusal(sparse)
    target = blank(tmp_path / "x")
    assert "--seconds: expected 5 to" in refusal(target, seconds=1)
    assert "--kind: expected auto" in refusal(target, kind="tape")


def test_data_is_not_overwritten(tmp_path: Path) -> None:
    target = blank(tmp_path / "x")
    with target.open("r+b") as file:
        file.seek(5 * MIB)
        file.write(b"precious")
    before = target.read_bytes()
    assert f"holds data (at byte {5 * MIB})" in refusal(target, write=True)
    assert target.read_bytes() == before
    with Prober(target) as prober, pytest.raises(DeviceError, match="reads only without --write"):
        prober.run(1, 0, 4096)
    assert target.read_bytes() == before
    with Prober(target, write=True, overwrite=True) as prober:
        prober.run(1, 0, 4096)
    assert target.read_bytes() != before


def words(pos: int, count: int, length: int = 4096) -> bytes:
    """A batch of writes for the prober."""
    requests = [(1, pos + at * length, length, 0) for at in range(count)]
    return struct.pack("<QQ", count, 1) + b"".join(struct.pack("<QQQQ", *request) for request in requests)


def test_zeros_are_written_back(tmp_path: Path) -> None:
    target = blank(tmp_path / "x")
    with Prober(target, write=True) as prober:
        prober.run(1, np.array([0, 4096, 3 * MIB, 9 * MIB]), 4096)
        prober.run(1, np.array([2048, MIB]), 8192)
        prober.run([1, 3], [5 * MIB, 5 * MIB], 4096)
        # a second write of a place is not taken for data that was there before
        prober.run(1, 9 * MIB, 65536, depth=4)
        assert any(target.read_bytes())
    assert target.read_bytes() == bytes(32 * MIB)


def test_data_between_the_places_looked_at_first_is_kept(tmp_path: Path) -> None:
    target = blank(tmp_path / "x")
    with target.open("r+b") as file:
        file.seek(7 * MIB + 77_777)
        file.write(b"precious")
    before = target.read_bytes()
    message = (
        f"holds data \\(at byte {7 * MIB + 77_777}\\), which the writes of the measurement would replace"
    )
    with Prober(target, write=True) as prober, pytest.raises(DeviceError, match=message):
        prober.run(1, 2 * MIB, 65536)
        prober.run(1, np.array([3 * MIB, 7 * MIB + 65536]), 65536)
    assert target.read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_zeros_are_written_back_when_the_measurement_is_ended(tmp_path: Path, number: int) -> None:
    target = blank(tmp_path / "x")
    command = [native.binary(), "device", "probe", "--write", "--", target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as prober:
        assert prober.stdin is not None and prober.stdout is not None
        assert prober.stdout.readline()
        prober.stdin.write(words(MIB, 20))
        prober.stdin.flush()
        assert len(prober.stdout.read(20 * 24)) == 20 * 24
        assert any(target.read_bytes())
        # what ends the measurement ends its prober by the end of stdin only
        prober.send_signal(number)
        prober.stdin.write(words(9 * MIB, 20))
        prober.stdin.flush()
        # nobody reads the answers any more
        prober.stdout.close()
        prober.stdin.close()
        prober.wait(timeout=60)
    assert target.read_bytes() == bytes(32 * MIB)


@needs_root
def test_a_loop_device_in_use_or_read_only_is_refused(tmp_path: Path) -> None:
    file = blank(tmp_path / "x")
    made = subprocess.run(["losetup", "--find", "--show", file], check=True, capture_output=True, text=True)
    device, mount = Path(made.stdout.strip()), tmp_path / "m"
    try:
        assert "it is the disk of /dev/loop" in refusal(file, write=True)
        subprocess.run(["blockdev", "--setro", device], check=True)
        assert "is read-only, and the measurement writes" in refusal(device, write=True)
        subprocess.run(["blockdev", "--setrw", device], check=True)
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        assert "holds data (ext4)" in refusal(device, write=True)
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        try:
            assert f"is mounted on {mount}" in refusal(device, write=True, overwrite=True)
        finally:
            subprocess.run(["umount", mount], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
