"""What is predicted beside the program really run: a recording made in memory, replayed on an emulated disk and simulated on it; a shorter
critical section."""

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrail.trail import Trail

from ..emudisk.conftest import Emulate, device_file, emulate, is_root
from .conftest import IOTRAIL, ask

__all__ = ["emulate"]

ROUNDS = 3


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A disk on which a durable write takes so many milliseconds, several at a time, that what the emulation itself costs a request (0.1 ms
    and more, where the machine is busy) is little beside it: no simulation has that in it."""
    return device_file(tmp_path, servers="8 count", read="2 ms", write="5 ms", flush="5 ms", rate="1 GB/s")


@pytest.fixture
def slow(device: Path, emulate: Emulate, tmp_path: Path) -> Iterator[Path]:
    """A file system on it."""
    disk = emulate(device, tmp_path / "d", "--size", "256M", "--loop")
    mounted = tmp_path / "slow"
    mounted.mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", disk.target], check=True)
        subprocess.run(["mount", disk.target, mounted], check=True)
        yield mounted
        subprocess.run(["umount", mounted], check=True)
    finally:
        disk.stop()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def length(trail: Trail) -> int:
    """From the first operation on a file in the folder of the program's data to the last, ns."""
    [[took]] = trail.query(
        "SELECT MAX(o.ts + o.dur) - MIN(o.ts) FROM file_op AS o INNER JOIN file AS f ON f.file = o.file WHERE f.path LIKE '%/data/%'"
    ).fetchall()
    return int(took)


@pytest.mark.skipif(not is_root(), reason="mounts and loop devices need root")
@pytest.mark.parametrize(("how", "count"), [("turns", 20), ("rounds", 30), ("shared", 30), ("one", 20)])
def test_a_program_takes_as_long_as_predicted(
    how: str,
    count: int,
    build: Callable[[str], Path],
    record: Callable[..., Trail],
    device: Path,
    slow: Path,
    memory: Path,
    tmp_path: Path,
) -> None:
    program = build("turns")
    (memory / "data").mkdir()
    (slow / "data").mkdir()
    recorded = record(program, how, 4, count, memory / "data").path.rename(tmp_path / "memory.trail")
    took: dict[str, list[int]] = {"program": [], "think": [], "causal": []}
    for number in range(ROUNDS):
        took["program"].append(length(record(program, how, 4, count, slow / "data")))
        for mode in ("think", "causal"):
            output, root = tmp_path / f"{mode}.trail", slow / f"{mode}{number}"
            words = ["replay", recorded, "--root", root, "--mode", mode, "-o", output, "--force", "--json"]
            done = subprocess.run([*IOTRAIL, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["out_of_order"] == 0
            took[mode].append(length(Trail(output)))
    medians = {name: statistics.median(times) for name, times in took.items()}
    off = {mode: medians[mode] / medians["program"] - 1 for mode in ("think", "causal")}
    assert abs(off["causal"]) < 0.1, (off, took)
    words = [
        "whatif",
        "run",
        recorded,
        "--io",
        device,
        "--no-journal",
        "--where",
        "path LIKE '%/data/%'",
        "--json",
    ]
    done = subprocess.run([*IOTRAIL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [there] = [case for case in json.loads(done.stdout)["cases"] if case["device"]]
    assert abs(there["chosen_ns"] / medians["program"] - 1) < 0.1, (there, took)
    assert there["chosen_low_ns"] <= there["chosen_ns"] <= there["chosen_high_ns"]
    # the case would prove nothing if waiting as long as recorded were right, too; whose writes never overlap, it is
    assert how == "one" or abs(off["think"]) > 0.15, (off, took)


@pytest.mark.parametrize("how", ["mutex", "semaphore", "flock", "lockf", "part", "try"])
def test_a_shorter_critical_section_is_predicted(
    how: str, build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    program = build("locked")
    took: dict[str, list[float]] = {"1": [], "0.5": []}
    for _ in range(ROUNDS):
        for ms, times in took.items():
            trail = record(program, ms, 100, how, tmp_path / "lock")
            [[run]] = trail.query("SELECT SUM(dur) FROM critical_path").fetchall()
            times.append(float(run))
            if ms == "1":
                recorded = trail.path.rename(tmp_path / f"{len(times)}.trail")
    answer = ask(recorded, "--lock", "0.5", "--by", "lock")
    unchanged = ask(recorded, "--by", "lock")
    curve = max(unchanged["curves"], key=lambda one: one["path_ns"])
    halved = {point["factor"]: point["elapsed_ns"] for point in curve["points"]}[0.5]
    [case] = answer["cases"]
    # the same question twice
    assert abs(case["elapsed_ns"] / halved - 1) < 0.01
    truth = statistics.median(took["0.5"]) / statistics.median(took["1"])
    assert abs(halved / unchanged["cases"][0]["elapsed_ns"] / truth - 1) < 0.12, (halved, took)
    name = "lock 0x" if how in ("mutex", "semaphore") else f"lock of {tmp_path / 'lock'}"
    assert curve["name"].startswith(name) and curve["path_ns"] > 0.5 * unchanged["recorded_ns"]
    assert how != "part" or curve["name"].endswith(", bytes 8 to 11")


def test_who_locks_other_parts_waits_for_nobody(
    build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    trail = record(build("locked"), "1", 60, "apart", tmp_path / "lock")
    answer = ask(trail.path, "--by", "lock", "--cores", "4")
    assert answer["curves"] == []
    # three processes of 60 times 1.2 ms, at once
    assert answer["cases"][0]["elapsed_ns"] < 1.5 * 60 * 1.2e6
    assert trail.query("SELECT COUNT(*) FROM wait WHERE kind = 'lock'").fetchall() == [(0,)]


def test_who_asks_again_and_again_waits_for_the_lock(
    build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    trail = record(build("locked"), "1", 60, "try", tmp_path / "lock")
    [[slept, waited]] = trail.query(
        "SELECT SUM(CASE WHEN kind = 'sleep' THEN dur ELSE 0 END), SUM(CASE WHEN kind = 'lock' THEN dur END) FROM wait"
    ).fetchall()
    assert slept == 0 and waited > 60e6


def test_computing_is_scaled(
    build: Callable[[str], Path], record: Callable[..., Trail], memory: Path, tmp_path: Path
) -> None:
    """Four threads in turn, of 40 times 0.3 ms each."""
    (memory / "data").mkdir()
    recorded = record(build("turns"), "turns", 4, 40, memory / "data").path.rename(
        tmp_path / "recorded.trail"
    )
    took: dict[str, list[int]] = {"1": [], "5": []}
    for number in range(ROUNDS):
        for factor, times in took.items():
            root, output = memory / f"{factor}-{number}", tmp_path / "replayed.trail"
            words = [
                "replay",
                recorded,
                "--root",
                root,
                "--mode",
                "causal",
                "--scale-compute",
                factor,
                "-o",
                output,
                "--force",
                "--json",
            ]
            done = subprocess.run([*IOTRAIL, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            times.append(length(Trail(output)))
    more = statistics.median(took["5"]) - statistics.median(took["1"])
    assert 0.8 < more / (4 * 4 * 40 * 300_000) < 1.3, took
