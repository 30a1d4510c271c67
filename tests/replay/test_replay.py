"""A replay does what was recorded: each thread's operations, in their order, on other storage and nowhere else."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrail.trail import Trail

Replay = Callable[..., tuple[Path, dict[str, Any]]]
Row = tuple[str, str | None, int | None, int | None, int | None, int]


def operations(trail: Path, below: Path, threads_by: str = "thread") -> dict[str, list[Row]]:
    """The operations of each thread on files below a directory: call, path in it, pos, length, bytes moved, errno."""
    rows = Trail(trail).rows_of(f"""
        SELECT CAST({threads_by} AS VARCHAR) AS thread, o.call, o.path, o.pos, o.length,
            CASE WHEN o.kind IN ('read', 'write') THEN o.result END AS moved, o.errno
        FROM op AS o JOIN thread AS t USING (node, thread)
        WHERE o.path LIKE '{below}/%' ORDER BY o.thread, o.ts""")
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        path = row["path"].removeprefix(f"{below}/")
        found[row["thread"]].append(
            (row["call"], path, row["pos"], row["length"], row["moved"], row["errno"])
        )
    return found


def differed(outcome: dict[str, Any]) -> int:
    """Operations that came out otherwise than recorded."""
    return outcome["failed_differently"] + outcome["returned_differently"]


@pytest.mark.parametrize("mode", ["afap", "think", "timed"])
def test_each_thread_does_what_it_did(
    recorded: tuple[Path, Path], replay: Replay, tmp_path: Path, mode: str
) -> None:
    trail, work = recorded
    root = tmp_path / "root"
    output, outcome = replay(trail, "--root", root, "--mode", mode)
    before = operations(trail, work)
    after = operations(output, Path(f"{root}{work}"), "t.name")
    assert sum(map(len, before.values())) > 140 and len(before) == 6
    assert after == before
    # what Python itself looks for outside the directory
    assert differed(outcome) <= 3, outcome["differences"]
    assert (outcome["out_of_order"] == 0 or mode == "afap") and outcome["mode"] == mode
    # The files are those the program left; how large one is that it only looked at, no call tells.
    left = [
        {p.name: p.stat().st_size for p in place.rglob("*") if p.is_file() and p.name != "lines"}
        for place in (work, Path(f"{root}{work}"))
    ]
    assert left[0] == left[1] and (root / str(work)[1:] / "lines").is_file()


def test_think_times_are_kept(recorded: tuple[Path, Path], replay: Replay, tmp_path: Path) -> None:
    """The two threads think 40 ms each; twice as long when stretched."""
    trail, _ = recorded
    once = replay(trail, "--root", tmp_path / "a", "--mode", "think")[1]["run_time_b"]
    twice = replay(trail, "--root", tmp_path / "b", "--mode", "think", "--scale", "2")[1]["run_time_b"]
    assert once >= 40_000_000 and twice >= 80_000_000


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_twenty_minutes_keep_their_mix(
    made: Callable[..., Path], replay: Replay, tmp_path: Path, engine: str
) -> None:
    """20 minutes of reads and writes by five threads: operations, bytes and order of each are the trace's."""
    drawn = random.Random(11)
    n = 40_000
    ts = sorted(drawn.sample(range(20 * 60 * 1_000_000_000), n))
    call = [drawn.choice(["pread", "pread", "pwrite"]) for _ in range(n)]
    pos = [512 * drawn.randrange(40_000) for _ in range(n)]
    length = [512 * drawn.randint(1, 64) for _ in range(n)]
    thread = [drawn.randint(1, 5) for _ in range(n)]
    trail = made(ts=ts, call=call, pos=pos, length=length, result=length, thread=thread)
    target = tmp_path / "disk"
    with target.open("wb") as file:
        file.truncate(64 << 20)
    output, outcome = replay(trail, "--target", target, "--mode", "afap", "--engine", engine)
    assert outcome["matched"] == outcome["operations_b"] == n and differed(outcome) == 0
    # as fast as possible leaves the waiting out
    assert outcome["run_time_b"] < outcome["run_time_a"] / 4
    names = {row["thread"]: row["name"] for row in Trail(output).rows_of("SELECT thread, name FROM thread")}
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for row in Trail(output).rows_of("SELECT thread, call, pos, result FROM file_op ORDER BY thread, ts"):
        found[names[row["thread"]]].append((row["call"], row["pos"], row["result"]))
    for number in range(1, 6):
        expected = [(call[i], pos[i], length[i]) for i in range(n) if thread[i] == number]
        assert found[str(number)] == expected


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_timed_holds_each_operation_to_its_time(
    made: Callable[..., Path], replay: Replay, tmp_path: Path, engine: str
) -> None:
    """2,000 reads, a millisecond apart: each begins at its time or after it."""
    n = 2_000
    trail = made(
        ts=range(0, n * 1_000_000, 1_000_000),
        pos=[4096 * i for i in range(n)],
        length=[4096] * n,
        result=[4096] * n,
    )
    target = tmp_path / "disk"
    target.write_bytes(bytes(n * 4096))
    output, outcome = replay(trail, "--target", target, "--mode", "timed", "--engine", engine)
    rows = Trail(output).rows_of("SELECT ts, pos FROM file_op ORDER BY pos")
    first = rows[0]["ts"]
    # a worker may be late, never early: relative to the earliest, which is late itself
    assert all(row["ts"] - first > row["pos"] // 4096 * 1_000_000 - 100_000_000 for row in rows)
    assert outcome["run_time_b"] > (n - 1) * 1_000_000 - 100_000_000


def test_nothing_outside_the_root_is_touched(
    recorded: tuple[Path, Path], replay: Replay, tmp_path: Path
) -> None:
    trail, work = recorded
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    replay(trail, "--root", tmp_path / "root")
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


def test_a_replay_goes_again_where_one_was(
    recorded: tuple[Path, Path], replay: Replay, tmp_path: Path
) -> None:
    trail, _ = recorded
    outcomes = [replay(trail, "--root", tmp_path / "root", "--mode", "afap")[1] for _ in range(2)]
    assert outcomes[0]["matched"] == outcomes[1]["matched"] and differed(outcomes[1]) == differed(outcomes[0])


def blocks(made: Callable[..., Path], call: str = "pread") -> Path:
    return made(call=[call] * 3, pos=[0, 8192, 1 << 20], length=[4096] * 3, result=[4096] * 3)


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.stderr.startswith("iotrail: error: ") and len(done.stderr.splitlines()) <= 3, done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def test_bad_places_are_refused(
    recorded: tuple[Path, Path], made: Callable[..., Path], iotrail: Callable[..., Any], tmp_path: Path
) -> None:
    """Each with what is wrong, nothing overwritten and no trail left behind."""
    several, _ = recorded
    one = blocks(made)
    writing = tmp_path / "writing.trail"
    output = tmp_path / "out.trail"

    def fails(*arguments: object) -> subprocess.CompletedProcess[str]:
        done = iotrail("replay", *arguments, "-o", output, fails=True)
        assert not output.exists()
        return done

    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("kept")
    refused(fails(several, "--root", full), "is not empty", "empty directory")
    refused(fails(several, "--root", "/"), "is the root of the file system")
    refused(fails(several, "--root", Path.home()), "is a home directory")
    refused(fails(several, "--root", Path.cwd().parent), "holds the working directory")
    around = tmp_path / "around"
    around.mkdir()
    (around / ".iotrail-replay").touch()
    inner = around / "inner.trail"
    shutil.copytree(several, inner)
    refused(fails(inner, "--root", around), f"holds {inner}")
    refused(fails(several, "--root", full / "mine"), "is not a directory")
    assert (full / "mine").read_text() == "kept"
    small = tmp_path / "small"
    small.write_bytes(bytes(8192))
    refused(fails(one, "--target", small), "has 8192 bytes", "reaches up to byte 1052672", "--fold")
    refused(fails(several, "--target", small), "calls on files", "--root")
    refused(fails(one, "--target", tmp_path / "none"), "No such file")
    refused(fails(one, "--target", tmp_path), "neither a file nor a block device")
    refused(fails(tmp_path / "no.trail", "--root", tmp_path / "r"), "no trail at")
    one.rename(writing)
    one = blocks(made, "pwrite")
    data = tmp_path / "data"
    data.write_bytes(b"precious" * 200_000)
    refused(fails(one, "--target", data), "holds data", "--overwrite")
    assert data.read_bytes() == b"precious" * 200_000
    # one byte in a gigabyte of holes; zeros that were written are no data
    with data.open("r+b") as file:
        file.truncate(0)
        file.truncate(1 << 30)
        file.write(bytes(8 << 20))
        file.seek(777_777_777)
        file.write(b"x")
    refused(fails(one, "--target", data), "holds data (at byte 777777777)", "--overwrite")
    (tmp_path / "closed").write_bytes(bytes(2 << 20))
    (tmp_path / "closed").chmod(0o444)
    if os.geteuid() != 0:
        refused(fails(one, "--target", tmp_path / "closed"), "is read-only", "chmod")
    iotrail("replay", one, "--target", data, "--overwrite", "-o", output)
    assert data.read_bytes()[:4096] != bytes(4096)


def test_folded_offsets_stay_on_the_target(made: Callable[..., Path], replay: Replay, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(bytes(65536))
    output, outcome = replay(blocks(made), "--target", small, "--fold")
    assert differed(outcome) == 0
    assert Trail(output).rows_of("SELECT MAX(pos + result) AS reach FROM file_op")[0]["reach"] <= 65536


def test_io_uring_is_for_block_traces(
    recorded: tuple[Path, Path], made: Callable[..., Path], iotrail: Callable[..., Any], tmp_path: Path
) -> None:
    def fails(*arguments: object) -> subprocess.CompletedProcess[str]:
        return iotrail("replay", *arguments, "--engine", "io_uring", "-o", tmp_path / "o.trail", fails=True)

    refused(fails(recorded[0], "--root", tmp_path / "r", "--mode", "afap"), "replays block traces", "psync")
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(2 << 20))
    refused(fails(blocks(made), "--target", disk), "think times", "--mode timed")


def test_no_times_no_timed(made: Callable[..., Path], iotrail: Callable[..., Any], tmp_path: Path) -> None:
    trail = made(ts=[5] * 3, dur=[0] * 3, pos=[0] * 3, length=[512] * 3, result=[512] * 3)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(4096))
    done = iotrail(
        "replay", trail, "--target", disk, "--mode", "timed", "-o", tmp_path / "o.trail", fails=True
    )
    refused(done, "has no times", "--mode afap")


def test_what_is_written_does_not_compress(made: Callable[..., Path], replay: Replay, tmp_path: Path) -> None:
    import zlib

    trail = made(
        call=["pwrite"] * 16, pos=[65536 * i for i in range(16)], length=[65536] * 16, result=[65536] * 16
    )
    for option, compresses in (([], False), (["--zeros"], True)):
        disk = tmp_path / "disk"
        disk.write_bytes(bytes(1 << 20))
        replay(trail, "--target", disk, "--overwrite", *option)
        packed = len(zlib.compress(disk.read_bytes()))
        assert (packed < 1 << 19) == compresses


def test_what_was_only_looked_at_may_be_a_directory(
    native: Path, replay: Replay, iotrail: Callable[..., Any], tmp_path: Path
) -> None:
    """A name below it was looked for and missing: it comes out the same, not as "Not a directory"."""
    folder = tmp_path / "folder"
    folder.mkdir()
    trail = tmp_path / "look.trail"
    program = f"import os\nos.stat({str(folder)!r})\ntry: os.stat({str(folder / 'missing')!r})\nexcept OSError: pass"
    iotrail("record", "-o", trail, "--", sys.executable, "-S", "-c", program)
    _, outcome = replay(trail, "--root", tmp_path / "root")
    assert not [row for row in outcome["differences"] if str(folder) in row["path"]], outcome["differences"]


needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root for loop devices, mounts and other users"
)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """A loop device of 32 MiB of zeros."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    name = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


@needs_root
def test_devices_in_use_are_refused(
    made: Callable[..., Path], iotrail: Callable[..., Any], replay: Replay, device: str, tmp_path: Path
) -> None:
    trail, output = blocks(made, "pwrite"), tmp_path / "o.trail"

    def fails() -> subprocess.CompletedProcess[str]:
        return iotrail("replay", trail, "--target", device, "--overwrite", "-o", output, fails=True)

    held = os.open(device, os.O_RDONLY | os.O_EXCL)
    refused(fails(), "is in use by the system", "lsblk")
    os.close(held)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", device, mounted], check=True)
    try:
        refused(fails(), f"is mounted on {mounted}", "unmount")
    finally:
        subprocess.run(["umount", mounted], check=True)
    refused(iotrail("replay", trail, "--target", device, "-o", output, fails=True), "holds data (ext4)")
    subprocess.run(["blockdev", "--setro", device], check=True)
    refused(fails(), "is read-only", "blockdev --setrw")
    subprocess.run(["blockdev", "--setrw", device], check=True)
    image = subprocess.check_output(["losetup", "-nO", "BACK-FILE", device], text=True).strip()
    refused(iotrail("replay", trail, "--target", image, "-o", output, fails=True), f"the disk of {device}")
    _, outcome = replay(trail, "--target", device, "--overwrite")
    assert outcome["matched"] == 3 and differed(outcome) == 0
    with Path(device).open("rb") as file:
        assert file.read(4096) != bytes(4096)


@needs_root
def test_a_mount_point_is_no_root(
    recorded: tuple[Path, Path], iotrail: Callable[..., Any], tmp_path: Path
) -> None:
    """Nor what holds one: it is emptied before the next replay. A directory in it is one."""
    trail, _ = recorded
    mounted = tmp_path / "outer" / "mounted"
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", mounted], check=True)
    try:
        for root, said in ((mounted, "is a mount point"), (mounted.parent, "holds a mount point")):
            done = iotrail("replay", trail, "--root", root, "-o", tmp_path / "o.trail", fails=True)
            refused(done, said, "--root DIR/replay")
        iotrail("replay", trail, "--root", mounted / "replay", "--mode", "afap", "-o", tmp_path / "o.trail")
    finally:
        subprocess.run(["umount", mounted], check=True)


@needs_root
def test_a_full_or_forbidden_place_is_said_beforehand(
    made: Callable[..., Path], native: Path, iotrail: Callable[..., Any], tmp_path: Path
) -> None:
    large = made("/data/large", call=["pread"], pos=[64 << 20], length=[4096], result=[4096])
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", small], check=True)
    try:
        done = iotrail("replay", large, "--root", small / "r", "-o", tmp_path / "o.trail", fails=True)
        refused(done, "room for 8388608 bytes", "take 67112960")
    finally:
        subprocess.run(["umount", small], check=True)
    # a user of the system, with a trail of its own, who may not write everywhere
    with tempfile.TemporaryDirectory(prefix="iotrail-") as folder:
        closed = Path(folder)
        closed.chmod(0o755)
        shutil.copy(native, closed / "native")
        trail = shutil.copytree(large, closed / "large.trail")
        for path in (trail, *trail.rglob("*")):
            os.chown(path, 65534, 65534)
        (closed / "open").mkdir()
        (closed / "open").chmod(0o777)
        output = closed / "open" / "o.trail"
        done = subprocess.run(
            [closed / "native", "replay", trail, "--root", closed / "r", "-o", output],
            capture_output=True, text=True, user=65534, group=65534, extra_groups=[], cwd="/",
        )  # fmt: skip
        refused(done, "cannot make", str(closed / "r"), "ermission denied")
        assert done.returncode != 0 and not output.exists()


def is_replaying(group: int) -> bool:
    """Whether the process that does the operations runs: the second of the binary in this process group."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and b"--worker" in (stat.parent / "cmdline").read_bytes():
                return True
    return False


def interrupted(
    made: Callable[..., Path], native: Path, tmp_path: Path, signals: int
) -> tuple[subprocess.Popen[str], str, str, Path]:
    """A read a millisecond for a minute, interrupted by Ctrl-C when some are done."""
    n = 60_000
    trail = made(ts=range(0, n * 1_000_000, 1_000_000), pos=[0] * n, length=[512] * n, result=[512] * n)
    disk, output = tmp_path / "disk", tmp_path / "o.trail"
    disk.write_bytes(bytes(4096))
    command = [
        sys.executable,
        "-m",
        "iotrail",
        "replay",
        trail,
        "--target",
        disk,
        "--mode",
        "timed",
        "-o",
        output,
    ]
    running = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    while not is_replaying(running.pid):
        assert running.poll() is None
        time.sleep(0.1)
    time.sleep(2)
    for _ in range(signals):
        os.killpg(running.pid, signal.SIGINT)
        time.sleep(0.001)
    out, said = running.communicate(timeout=60)
    return running, out, said, output


def test_an_interrupted_replay_says_what_it_did(
    made: Callable[..., Path], native: Path, tmp_path: Path
) -> None:
    running, out, said, output = interrupted(made, native, tmp_path, 1)
    assert running.returncode == 130, said
    done = Trail(output).rows["file_op"]
    assert 0 < done < 60_000
    words = " ".join(out.split())
    assert "Fidelity of the replay" in words and f"operations {done:,} of 60,000" in words
    assert "interrupted" in words and f"{60_000 - done:,} operations not reached" in words


def test_the_second_interrupt_ends_it_at_once(
    made: Callable[..., Path], native: Path, tmp_path: Path
) -> None:
    running, _, said, output = interrupted(made, native, tmp_path, 3)
    assert running.returncode == 130 and "Traceback" not in said
    assert 0 < Trail(output).rows["file_op"] < 60_000


def test_nobody_has_to_read_all_of_the_table(made: Callable[..., Path], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(2 << 20))
    replay = [
        sys.executable,
        "-m",
        "iotrail",
        "replay",
        blocks(made),
        "--target",
        disk,
        "-o",
        tmp_path / "o.trail",
    ]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", '"$@" | head -1', "bash", *map(str, replay)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (
        done.stdout.startswith("Fidelity") and "Traceback" not in done.stderr and "Error" not in done.stderr
    )


def test_each_device_goes_to_its_target(
    native: Path, iotrail: Callable[..., Any], replay: Replay, tmp_path: Path
) -> None:
    """Three devices of two machines, two of which have the same name."""
    import pyarrow as pa

    n = 300
    devices = [("a", 7, "/dev/sda"), ("a", 8, "/dev/sdb"), ("b", 8, "/dev/sdb")]
    mine = [devices[i % 3] for i in range(n)]
    tables = {
        "file_op": pa.table({
            "ts": list(range(0, n * 1000, 1000)), "dur": [500] * n, "node": [d[0] for d in mine],
            "thread": [1 if d[0] == "a" else 2 for d in mine], "crumb": [0] * n,
            "call": ["pwrite" if i % 2 else "pread" for i in range(n)], "file": [d[1] for d in mine],
            "pos": [4096 * (i // 3) for i in range(n)], "length": [4096] * n, "result": [4096] * n,
            "errno": [0] * n, "calls": [1] * n,
        }),
        "file": pa.table({"node": [d[0] for d in devices], "file": [d[1] for d in devices], "path": [d[2] for d in devices]}),
    }  # fmt: skip
    streams = []
    for name, table in tables.items():
        with pa.ipc.new_stream(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
        streams.append(f"{name}={tmp_path / name}.arrow")
    trail = tmp_path / "three.trail"
    iotrail("ingest", "-o", trail, *streams)
    disks = [tmp_path / f"disk{i}" for i in range(3)]
    for disk in disks:
        disk.write_bytes(bytes(1 << 20))

    def fails(*arguments: object) -> subprocess.CompletedProcess[str]:
        return iotrail("replay", trail, *arguments, "-o", tmp_path / "o.trail", fails=True)

    a, b, c = (
        f"{device}={disk}"
        for device, disk in zip(("/dev/sda", "a:/dev/sdb", "b:/dev/sdb"), disks, strict=True)
    )
    refused(fails("--target", disks[0]), "of 3 devices", "--map")
    refused(fails("--map", a, "--map", b), "no target for b:/dev/sdb", "--map b:/dev/sdb=FILE")
    refused(fails("--map", f"/dev/sdb={disks[0]}"), "2 machines have a device /dev/sdb")
    refused(fails("--map", f"/dev/sdc={disks[0]}"), "no device /dev/sdc", "/dev/sda, a:/dev/sdb, b:/dev/sdb")
    refused(fails("--map", a, "--map", b, "--map", f"b:/dev/sdb={disks[1]}"), "the target of two devices")
    _, outcome = replay(trail, "--map", a, "--map", b, "--map", c, "--mode", "afap")
    assert outcome["matched"] == n and differed(outcome) == 0
    for disk, device in zip(disks, devices, strict=True):
        written = {4096 * (i // 3) for i in range(n) if mine[i] == device and i % 2}
        content = disk.read_bytes()
        found = {pos for pos in range(0, len(content), 4096) if any(content[pos : pos + 4096])}
        assert found == written
