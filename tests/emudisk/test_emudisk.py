"""An emulated disk keeps data as a disk does, answers when its model says, and leaves nothing behind."""

import json
import os
import random
import signal
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from iotrail import native
from iotrail.trail import Trail

from .conftest import MIB, Emulate, Emulated, attached, device_file, is_root, served

pytestmark = pytest.mark.skipif(not is_root(), reason="mounts and loop devices need root")


def run(*command: object) -> str:
    """What a command prints; it must succeed."""
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def refusal(*arguments: object) -> str:
    """The message of an emulation that doesn't start."""
    done = subprocess.run(
        [native.binary(), "emudisk", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    return done.stderr


def test_a_file_keeps_its_data_and_logs_each_request(emulate: Emulate, tmp_path: Path) -> None:
    directory, trail = tmp_path / "d", tmp_path / "x.trail"
    disk = emulate(device_file(tmp_path), directory, "--size", "64M", "-o", str(trail))
    numbers = random.Random(1)
    descriptor = os.open(disk.target, os.O_RDWR)
    book: dict[int, bytes] = {}
    for _ in range(31):
        pos, data = numbers.randrange(64 * MIB - 9000), numbers.randbytes(numbers.randrange(1, 9000))
        assert os.pwrite(descriptor, data, pos) == len(data)
        book.update({pos + at: bytes([byte]) for at, byte in enumerate(data)})
    for pos in numbers.sample(sorted(book), 17):
        assert os.pread(descriptor, 1, pos) == book[pos]
    for _ in range(3):
        os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    with pytest.raises(OSError):
        os.ftruncate(descriptor, MIB)
    assert os.pread(descriptor, 100, 64 * MIB) == b""
    os.close(descriptor)
    said = disk.stop()
    assert said["requests"] == 31 + 17 + 3 and said["failed"] == 0
    # the same, without the emulation
    data = (directory / "disk").read_bytes()
    assert len(data) == 64 * MIB and all(data[pos : pos + 1] == byte for pos, byte in book.items())
    rows = Trail(trail).rows_of("FROM disk_op SELECT * ORDER BY ts")
    counts = {op: sum(row["op"] == op for row in rows) for op in ("read", "write", "flush")}
    assert counts == {"read": 17, "write": 31, "flush": 3}
    for row in rows:
        floor = {"read": 3, "write": 5, "flush": 11}[row["op"]]
        assert row["kind"] == "emulated" and row["model_dur"] >= floor * 1_000_000
        # earlier than the model by what the floor varies at most
        assert row["dur"] >= row["model_dur"] - 500_000
        assert row["issued"] >= row["ts"]
    assert (rows[-1]["pos"], rows[-1]["length"]) == (None, None)


def test_answers_come_when_the_model_says(emulate: Emulate, tmp_path: Path) -> None:
    device = device_file(tmp_path, read="20 ms")
    disk = emulate(device, tmp_path / "d", "--size", "64M")
    descriptor = os.open(disk.target, os.O_RDONLY)
    times = []
    for _ in range(21):
        start = time.perf_counter()
        os.pread(descriptor, 4096, 0)
        times.append(time.perf_counter() - start)
    os.close(descriptor)
    assert min(times) > 0.0195
    assert statistics.median(times) < 0.030
    assert disk.stop()["requests"] == 21


def test_processors_may_sleep_when_no_requests_come(emulate: Emulate, tmp_path: Path) -> None:
    disk = emulate(device_file(tmp_path), tmp_path / "d", "--size", "16M")
    descriptors = Path(f"/proc/{disk.process.pid}/fd")

    # without a driver that heeds it, threads keep the processors busy that nobody else wants
    driver = Path("/sys/devices/system/cpu/cpuidle/current_driver")
    is_heeded = driver.exists() and driver.read_text().strip() != "none"
    processors = [] if is_heeded else [{each} for each in sorted(os.sched_getaffinity(0))]

    def awake() -> bool:
        return "/dev/cpu_dma_latency" in {os.readlink(each) for each in descriptors.iterdir()}

    def kept_busy() -> list[set[int]]:
        threads = [int(path.name) for path in Path(f"/proc/{disk.process.pid}/task").iterdir()]
        idle = [thread for thread in threads if os.sched_getscheduler(thread) == os.SCHED_IDLE]
        return sorted((os.sched_getaffinity(thread) for thread in idle), key=min)

    for _ in range(2):
        run("dd", f"if={disk.target}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct")
        assert awake()
        assert kept_busy() == processors
        for _ in range(100):
            time.sleep(0.1)
            if not awake():
                break
        assert not awake()
        # they see it when they run next
        time.sleep(0.5)
        assert not kept_busy()
    disk.stop()


def test_ext4_on_a_loop_device_survives_a_kill(emulate: Emulate, tmp_path: Path) -> None:
    directory, mounted = tmp_path / "d", tmp_path / "mounted"
    mounted.mkdir()
    device = device_file(tmp_path, **dict.fromkeys(("read", "write", "flush"), "50 us"))
    disk = emulate(device, directory, "--size", "128M", "--loop")
    run("mkfs.ext4", "-q", disk.target)
    run("mount", disk.target, mounted)
    text = b"kept\n" * 10_000
    for number in range(13):
        with (mounted / f"{number}").open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    # also the names
    folder = os.open(mounted, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    disk.kill()
    again = emulate(device, directory, "--size", "128M", "--loop")
    assert served(tmp_path) == [str(directory)] and attached(directory) == [str(again.target)]
    assert not os.path.ismount(mounted)
    run("mount", again.target, mounted)
    assert sorted(path.name for path in mounted.iterdir()) == sorted([*map(str, range(13)), "lost+found"])
    assert all((mounted / f"{number}").read_bytes() == text for number in range(13))
    run("umount", mounted)
    run("e2fsck", "-f", "-n", again.target)
    again.stop()
    assert not served(tmp_path) and not attached(directory)


def test_a_mounted_disk_is_served_until_it_is_unmounted(emulate: Emulate, tmp_path: Path) -> None:
    directory, mounted = tmp_path / "d", tmp_path / "mounted"
    mounted.mkdir()
    fast = dict.fromkeys(("read", "write", "flush"), "50 us")
    disk = emulate(device_file(tmp_path, **fast), directory, "--size", "64M", "--loop")
    run("mkfs.ext4", "-q", disk.target)
    run("mount", disk.target, mounted)
    disk.process.send_signal(signal.SIGTERM)
    assert disk.process.stderr is not None
    assert f"the loop device is mounted on {mounted}" in disk.process.stderr.readline()
    (mounted / "still").write_text("here")
    run("umount", mounted)
    disk.process.wait(timeout=60)
    assert disk.process.returncode == 0 and not served(tmp_path) and not attached(directory)


def test_a_loop_device_has_nothing_of_its_last_user(emulate: Emulate, tmp_path: Path) -> None:
    def devices() -> set[str]:
        return {path.name for path in Path("/sys/block").glob("loop*")}

    def settings(disk: Emulated) -> list[str]:
        queue = Path("/sys/block", disk.target.name, "queue")
        return [
            (queue / name).read_text() for name in ("scheduler", "nr_requests", "read_ahead_kb", "nomerges")
        ]

    before, device = devices(), device_file(tmp_path)
    first = emulate(device, tmp_path / "d", "--size", "64M", "--loop")
    found = settings(first)
    for name, value in (("scheduler", "bfq"), ("read_ahead_kb", "4"), ("nomerges", "2")):
        Path("/sys/block", first.target.name, "queue", name).write_text(value)
    assert settings(first) != found
    first.stop()
    assert devices() == before
    second = emulate(device, tmp_path / "d", "--size", "64M", "--loop")
    assert second.target == first.target and settings(second) == found
    second.kill()
    emulate(device, tmp_path / "d", "--size", "64M", "--loop").stop()
    assert devices() == before


def test_fio_verifies_what_it_wrote(emulate: Emulate, tmp_path: Path) -> None:
    fast = dict.fromkeys(("read", "write", "flush", "trim"), "100 us")
    device = device_file(tmp_path, **fast, servers="8 count")
    disk = emulate(device, tmp_path / "d", "--size", "64M", "--loop")
    run(
        "fio", "--name=v", f"--filename={disk.target}", "--rw=randwrite", "--bsrange=512-128k", "--size=48M",
        "--direct=1", "--ioengine=libaio", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--randseed=3",
    )  # fmt: skip
    said = disk.stop()
    assert said["failed"] == 0 and said["requests"] > 1000


def test_full_storage_fails_writes_and_nothing_else(emulate: Emulate, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", small)
    try:
        disk = emulate(device_file(tmp_path), small / "d", "--size", "64M")
        descriptor = os.open(disk.target, os.O_RDWR)
        with pytest.raises(OSError, match="No space left"):
            for pos in range(0, 64 * MIB, MIB):
                os.pwrite(descriptor, b"x" * MIB, pos)
        assert os.pread(descriptor, 5, 0) == b"xxxxx"
        os.close(descriptor)
        disk.process.send_signal(signal.SIGTERM)
        out, err = disk.process.communicate(timeout=60)
        assert '"failed":1' in out and "needs space" in err
    finally:
        run("umount", small)


def test_full_storage_behind_a_file_system_is_an_error_of_its_files(emulate: Emulate, tmp_path: Path) -> None:
    small, mounted = tmp_path / "small", tmp_path / "mounted"
    small.mkdir()
    mounted.mkdir()
    fast = dict.fromkeys(("read", "write", "flush", "trim"), "50 us")
    device = device_file(tmp_path, **fast)
    run("mount", "-t", "tmpfs", "-o", "size=24M", "tmpfs", small)
    try:
        disk = emulate(device, small / "d", "--size", "64M", "--loop")
        run("mkfs.ext4", "-q", disk.target)
        run("mount", disk.target, mounted)
        kept = b"kept\n" * 100_000
        write = ("dd", "bs=1M", "conv=fsync", "status=none")
        subprocess.run([*write, f"of={mounted / 'kept'}"], input=kept, check=True, timeout=60)
        big = [*write, "if=/dev/urandom", f"of={mounted / 'big'}", "count=50"]
        full = subprocess.run(big, capture_output=True, text=True, timeout=60, check=False)
        assert full.returncode == 1 and "/mounted/big" in full.stderr, full
        run("umount", mounted)
        disk.process.send_signal(signal.SIGTERM)
        out, err = disk.process.communicate(timeout=60)
        assert json.loads(out)["failed"] > 0 and "needs space" in err
        # with room, the file system recovers what was durable
        run("mount", "-o", "remount,size=100M", small)
        again = emulate(device, small / "d", "--size", "64M", "--loop")
        # 1: errors were mended
        assert (
            subprocess.run(["e2fsck", "-f", "-y", again.target], capture_output=True, check=False).returncode
            <= 1
        )
        run("mount", again.target, mounted)
        assert (mounted / "kept").read_bytes() == kept
        run("umount", mounted)
        assert again.stop()["failed"] == 0
    finally:
        subprocess.run(["umount", mounted], check=False, capture_output=True)
        subprocess.run(["umount", "--lazy", small], check=False, capture_output=True)


def test_what_is_wrong_is_said_and_nothing_is_changed(emulate: Emulate, tmp_path: Path) -> None:
    device = device_file(tmp_path)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    assert 'expected an empty directory, found "mine" in it' in refusal(device, full, "--size", "64M")
    assert [path.name for path in full.iterdir()] == ["mine"]
    assert "at most 10737418240 bytes" in refusal(device, tmp_path / "d", "--size", "11G")
    assert "1048576 bytes or more" in refusal(device, tmp_path / "d", "--size", "5K")
    assert "cannot read nowhere.toml" in refusal("nowhere.toml", tmp_path / "d")
    held = tmp_path / "held"
    held.mkdir()
    (held / "disk").write_bytes(b"data" * MIB)
    assert "expected 67108864 bytes of data, found 4194304: --size 4194304" in refusal(
        device, held, "--size", "64M"
    )
    assert (held / "disk").read_bytes() == b"data" * MIB
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "disk").symlink_to(held / "disk")
    assert "cannot use" in refusal(device, linked, "--size", "64M")
    assert "cannot use" in refusal(device, held / "disk", "--size", "64M")
    running = emulate(device, tmp_path / "d", "--size", "64M")
    assert "something is mounted there: another emulation?" in refusal(
        device, tmp_path / "d", "--size", "64M"
    )
    trail = tmp_path / "x.trail"
    assert "cannot use" in refusal(device, full, "--size", "64M", "-o", trail)
    assert not trail.exists()
    running.stop()
    assert not served(tmp_path)
