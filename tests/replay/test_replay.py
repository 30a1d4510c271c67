"""A replay does what was recorded: each thread's operations, in their order, on other storage and nowhere else."""

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
    assert outcome["out_of_order"] == 0 and outcome["mode"] == mode
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
    assert (
        outcome["matched"] == outcome["operations_b"] == n
        and differed(outcome) == outcome["out_of_order"] == 0
    )
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
    assert (full / "mine").read_text() == "kept"
    small = tmp_path / "small"
    small.write_bytes(bytes(8192))
    refused(fails(one, "--target", small), "has 8192 bytes", "reaches up to byte 1052672", "--fold")
    refused(fails(several, "--target", small), "several files", "--root")
    refused(fails(one, "--target", tmp_path / "none"), "No such file")
    refused(fails(one, "--target", tmp_path), "neither a file nor a block device")
    refused(fails(tmp_path / "no.trail", "--root", tmp_path / "r"), "no trail at")
    one.rename(writing)
    one = blocks(made, "pwrite")
    data = tmp_path / "data"
    data.write_bytes(b"precious" * 200_000)
    refused(fails(one, "--target", data), "holds data", "--overwrite")
    assert data.read_bytes() == b"precious" * 200_000
    iotrail("replay", one, "--target", data, "--overwrite", "-o", output)
    assert data.read_bytes() != b"precious" * 200_000


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

    refused(fails(recorded[0], "--root", tmp_path / "r", "--mode", "afap"), "one file or device", "psync")
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
    refused(done, "has no times to keep", "--mode afap")


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
    refused(iotrail("replay", trail, "--target", device, "-o", output, fails=True), "holds data")
    _, outcome = replay(trail, "--target", device, "--overwrite")
    assert outcome["matched"] == 3 and differed(outcome) == 0
    with Path(device).open("rb") as file:
        assert file.read(4096) != bytes(4096)


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
    # where everybody may read, somebody may not write
    with tempfile.TemporaryDirectory(prefix="iotrail-") as folder:
        closed = Path(folder)
        closed.chmod(0o755)
        shutil.copy(native, closed / "native")
        shutil.copytree(large, closed / "large.trail")
        (closed / "open").mkdir()
        (closed / "open").chmod(0o777)
        output = closed / "open" / "o.trail"
        done = subprocess.run(
            [closed / "native", "replay", closed / "large.trail", "--root", closed / "r", "-o", output],
            capture_output=True, text=True, user=65534, group=65534, extra_groups=[], cwd="/",
        )  # fmt: skip
        refused(done, "cannot make", str(closed / "r"), "ermission denied")
        assert done.returncode != 0 and not output.exists()


def test_an_interrupted_replay_keeps_what_it_did(
    made: Callable[..., Path], native: Path, tmp_path: Path
) -> None:
    """A read a millisecond for a minute, interrupted when some are done."""
    n = 60_000
    trail = made(ts=range(0, n * 1_000_000, 1_000_000), pos=[0] * n, length=[512] * n, result=[512] * n)
    disk, output = tmp_path / "disk", tmp_path / "o.trail"
    disk.write_bytes(bytes(4096))
    running = subprocess.Popen(
        [native, "replay", trail, "--target", disk, "--mode", "timed", "-o", output],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    time.sleep(3)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert (
        running.returncode != 0 and "the replay ended early" in said and f"{output} holds what it did" in said
    )
    assert 0 < Trail(output).rows["file_op"] < n
