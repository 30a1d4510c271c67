"""`iotrail whatif run`: what a run would take on faster storage, beside the program really run there; and by hand."""

import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iotrail.trail import Trail

from ..command import iotrail
from ..emudisk.conftest import Emulate, device_file, emulate, is_root
from .conftest import IOTRAIL, ask

__all__ = ["emulate"]

ROUNDS = 3
TURNS = """
: > $1/b.0
for at in 1 2 3 4 5; do
    until [ -e $1/b.$((at - 1)) ]; do {sleeps}; done
    dd if=/dev/zero of=$1/data bs=4k count=12 oflag=dsync conv=notrunc status=none
    : > $1/a.$at
done &
for at in 1 2 3 4 5; do
    until [ -e $1/a.$at ]; do {sleeps}; done
    dd if=/dev/zero of=$1/data bs=4k count=12 oflag=dsync conv=notrunc status=none
    : > $1/b.$at
done
wait
"""


@contextmanager
def mounted(emulate: Emulate, folder: Path, ms: str) -> Iterator[Path]:
    """A file system on a disk each of whose requests takes so long."""
    folder.mkdir()
    device = device_file(folder, servers="8 count", read=ms, write=ms, flush=ms, rate="10 GB/s")
    disk = emulate(device, folder / "d", "--size", "256M", "--loop")
    (folder / "mounted").mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", disk.target], check=True)
        subprocess.run(["mount", disk.target, folder / "mounted"], check=True)
        yield folder / "mounted"
        subprocess.run(["umount", folder / "mounted"], check=True)
    finally:
        disk.stop()


@pytest.mark.skipif(not is_root(), reason="mounts and loop devices need root")
@pytest.mark.parametrize(("how", "count"), [("turns", 40), ("rounds", 80)])
def test_faster_storage_is_predicted(
    how: str,
    count: int,
    build: Callable[[str], Path],
    record: Callable[..., Trail],
    emulate: Emulate,
    tmp_path: Path,
) -> None:
    program = build("turns")
    took: dict[str, list[float]] = {"slow": [], "fast": []}
    for name, ms in (("slow", "4 ms"), ("fast", "1 ms")):
        with mounted(emulate, tmp_path / name, ms) as folder:
            for _ in range(ROUNDS):
                trail = record(program, how, 4, count, folder)
                [[run]] = trail.query("SELECT SUM(dur) FROM critical_path").fetchall()
                took[name].append(float(run))
            trail.path.rename(tmp_path / f"{name}.trail")
    answer = ask(tmp_path / "slow.trail", "--io", "0.25", "--where", "call = 'pwrite'")
    changed, same = answer["cases"]
    assert (changed["io"], same["io"]) == (0.25, 1.0)
    assert abs(answer["model_error"]) < 0.1, answer
    truth = statistics.median(took["fast"])
    assert abs(changed["elapsed_ns"] / truth - 1) < 0.12, (answer, took)
    assert changed["elapsed_low_ns"] <= changed["elapsed_ns"] <= changed["elapsed_high_ns"]
    # The writes are what it waits for: a quarter of their time is not a quarter of the run.
    assert 2 < changed["speed_up"] < 4


@pytest.mark.skipif(not is_root(), reason="mounts and loop devices need root")
@pytest.mark.parametrize("sleeps", ["sleep 0.002", "perl -e 'select undef, undef, undef, 0.002'"])
def test_scripts_look_for_files_as_often_as_they_have_to(
    sleeps: str, record: Callable[..., Trail], emulate: Emulate, tmp_path: Path
) -> None:
    """Two that take turns; who has it writes durably, the other one has a process sleep, and looks for its file."""
    recorded: dict[str, list[tuple[float, Path]]] = {"slow": [], "fast": []}
    with ExitStack() as mounts:
        folders = {
            name: mounts.enter_context(mounted(emulate, tmp_path / name, ms))
            for name, ms in (("slow", "4 ms"), ("fast", "1 ms"))
        }
        for number in range(ROUNDS):
            for name, folder in folders.items():
                (folder / str(number)).mkdir()
                trail = record("sh", "-c", TURNS.format(sleeps=sleeps), "sh", folder / str(number))
                [[run]] = trail.query("SELECT SUM(dur) FROM critical_path").fetchall()
                recorded[name].append((float(run), trail.path.rename(tmp_path / f"{name}-{number}.trail")))
    for of, there, factor in (("slow", "fast", "0.25"), ("fast", "slow", "4")):
        truth = statistics.median(run for run, _ in recorded[there])
        _, trail = sorted(recorded[of])[ROUNDS // 2]
        cases = ask(trail, "--io", factor, "--where", "call = 'write'")["cases"]
        [changed] = [case for case in cases if case["io"] == float(factor)]
        assert abs(changed["elapsed_ns"] / truth - 1) < 0.2, (of, changed, recorded)
        # Who waited is known, and for whom: for the other one's file, and for the ten writers.
        query = "SELECT state, COUNT(*), SUM(blocked_ns) FROM wait_state WHERE blocked_ns > 0 GROUP BY state"
        waits = {state: (count, ns) for state, count, ns in Trail(trail).query(query).fetchall()}
        known = sum(ns for _, ns in waits.values())
        assert waits["missing file"][1] > 0.3 * known, waits
        assert 10 <= waits["end"][0] <= 15, waits
        for others in waits.keys() - {"missing file", "end"}:
            assert waits[others][1] < 0.02 * known, waits


def test_known_runs(make_causal: Path) -> None:
    """Of tests/sql/causal: thread 11 computes 80, writes 200, and has computed at 80 + 200; thread 21 reads 300 after the message, and
    comes to the barrier then; thread 11 computes 280 more; thread 21 waits for a process, which takes 4 to end."""
    answer = ask(make_causal, "--io", "0.5,2", "--cores", "2", "--samples", "0")
    elapsed = {case["io"]: case["elapsed_ns"] for case in answer["cases"]}
    # 80 + 200 x F, 70, 300 x F, 280, 4
    assert elapsed == {0.5: 434 + 250, 1.0: 434 + 500, 2.0: 434 + 1000}
    [first, *_] = answer["cases"][1]["path"]["io"]
    assert (first["call"], first["path"], first["ns"]) == ("pread", "/data/a", 300)
    assert answer["simulated_ns"] == 934
    recorded, off = answer["recorded_ns"], answer["model_error"]
    assert off == pytest.approx(934 / recorded - 1)
    # what is changed is no error of the model
    answer = ask(make_causal, "--compute", "0.5", "--cores", "2", "--samples", "0")
    [case] = answer["cases"]
    assert case["elapsed_ns"] == 434 / 2 + 500
    assert case["speed_up"] == pytest.approx(934 / case["elapsed_ns"])
    assert (answer["simulated_ns"], answer["model_error"]) == (934, off)
    missing = recorded - 934
    # in 9 of 10 changes that were really made predictions were off by no more
    share = max(abs(missing) / recorded, 0.16)
    low, high = min(717 * (1 - share), 717 + missing), max(717 * (1 + share), 717 + missing)
    assert case["elapsed_low_ns"] == pytest.approx(low, abs=2)
    assert case["elapsed_high_ns"] == pytest.approx(high, abs=2)
    words = ("--compute", "0.5", "--lock", "2", "--cores", "3")
    shown = iotrail("whatif", "run", make_causal, *words, env={"COLUMNS": "160"})
    assert re.search(r"simulated +\d", shown) and "computing × 0.5, locks × 2, 3 cores" in shown
    answer = ask(make_causal, "--by", "file,call,rank,lock", "--cores", "2", "--samples", "0")
    of_name = {(curve["kind"], curve["name"]): curve for curve in answer["curves"]}
    curve = of_name["file", "/data/a"]
    points = {point["factor"]: point["elapsed_ns"] for point in curve["points"]}
    assert curve["path_ns"] == 500
    assert points == {0.75: 809, 0.5: 684, 0.25: 559, 0.0: 434}
    reads = {point["factor"]: point["elapsed_ns"] for point in of_name["call", "pread"]["points"]}
    assert reads == {0.75: 859, 0.5: 784, 0.25: 709, 0.0: 634}
    assert not [kind for kind, _ in of_name if kind == "lock"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--io", "fast"], "cannot read fast"),
        (["--io", "0.1,"], "--io: expected factors"),
        (["--io", "hdd-7200", "--volume", "moon"], "--volume: expected"),
        (["--io", "hdd-7200", "--volume", "1k"], "the volume, found"),
        (["--by", "lock,moon"], "--by: expected some of file, call, rank, lock"),
        (["--io", "-1"], "--io: expected factors"),
        (["--where", "nothing = 1"], "--where: expected a condition"),
        (["--where", "1; DROP TABLE op"], "--where: expected a condition"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], said: str, make_causal: Path) -> None:
    done = subprocess.run(
        [*IOTRAIL, "whatif", "run", make_causal, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_trail_without_causality_is_refused(tmp_path: Path) -> None:
    trail = tmp_path / "x.trail"
    subprocess.run([*IOTRAIL, "record", "-o", trail, "--", "ls", "/"], check=True, capture_output=True)
    for verb in (["whatif", "run"], ["waits"]):
        done = subprocess.run([*IOTRAIL, *verb, trail], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "record --causal" in done.stderr, done.stderr
    words = ["replay", trail, "--root", tmp_path / "r", "--mode", "causal"]
    done = subprocess.run([*IOTRAIL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "record --causal" in done.stderr, done.stderr


def test_a_duplicate_writes_as_durably_as_what_it_is_of(record: Callable[..., Trail], tmp_path: Path) -> None:
    """As `dd oflag=dsync` does, which makes the file its stdout."""
    program = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC)\n"
        "if sys.argv[2] == 'dup':\n"
        "    os.dup2(fd, 100)\n"
        "    os.close(fd)\n"
        "    fd = 100\n"
        "for _ in range(20):\n"
        "    os.write(fd, bytes(4096))\n"
    )
    device = device_file(tmp_path)
    took = {}
    for how in ("itself", "dup"):
        trail = record(sys.executable, "-c", program, tmp_path / "data", how)
        (tmp_path / "data").unlink()
        answer = ask(trail.path, "--io", str(device), "--where", "path LIKE '%/data'", "--force")
        [took[how]] = [case["chosen_ns"] for case in answer["cases"] if case["device"]]
    # a write and a flush at least, of 5 and 11 ms
    assert took["itself"] > 20 * 16e6
    assert took["dup"] == pytest.approx(took["itself"], rel=0.02)
