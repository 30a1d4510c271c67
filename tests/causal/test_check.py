"""`record --causal --check`: how far a prediction is off for this program, beside planted causes of an error and programs without any."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrail.trail import Trail

from .conftest import IOTRAIL, ask


@dataclass
class Checked:
    """A recording with a check."""

    stderr: str
    trail: Trail

    @property
    def answer(self) -> dict[str, Any] | None:
        """What `whatif run` says of the check."""
        found: dict[str, Any] | None = ask(self.trail.path, "--force")["check"]
        return found


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: nothing but the program takes time."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Checked]:
    """Records a command and checks it; `options` of record besides."""

    def check(*command: object, options: tuple[str, ...] = (), status: int = 0) -> Checked:
        path = tmp_path / "x.trail"
        words = [*IOTRAIL, "record", "--causal", "--check", *options, "-o", path, "--", *map(str, command)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == status, done.stderr
        return Checked(done.stderr, Trail(path))

    return check


@pytest.mark.parametrize(
    ("how", "threads", "writes"), [("turns", 3, 40), ("rounds", 4, 120), ("shared", 3, 40)]
)
def test_a_program_whose_waits_are_known_is_predicted(
    how: str,
    threads: int,
    writes: int,
    build: Callable[[str], Path],
    check: Callable[..., Checked],
    memory: Path,
) -> None:
    found = check(build("turns"), how, threads, writes, memory)
    answer = found.answer
    assert answer is not None, found.stderr
    # a run about twice as long, in which each of the operations of the thread with most of them took longer
    assert answer["took_longer_ns"] > 1.5 * answer["took_ns"]
    assert abs(answer["error"]) < 0.1, answer
    assert "so the program ran" in found.stderr
    said = subprocess.run(
        [*IOTRAIL, "whatif", "run", found.trail.path], capture_output=True, text=True, check=True
    ).stdout
    assert f"({100 * answer['error']:+.1f} %)" in " ".join(said.split())


def test_waits_that_nobody_saw_are_an_error_and_then_none(
    build: Callable[[str], Path], check: Callable[..., Checked], memory: Path, tmp_path: Path
) -> None:
    """Two threads take turns by a flag in memory: without that they seem to work side by side."""
    command = [build("unseen"), "pingpong", "flag", 2, 60, memory, tmp_path / "log"]
    alone = check(*command).answer
    assert alone is not None and -0.6 < alone["error"] < -0.2, alone
    shutil.rmtree(tmp_path / "x.trail")
    throttled = check(*command, options=("--throttle", "groups"))
    answer = throttled.answer
    assert answer is not None and abs(answer["error"]) < 0.1, (answer, throttled.stderr)


def test_of_many_operations_some_take_longer(check: Callable[..., Checked], memory: Path) -> None:
    """20,000 writes are none too many to be done a second time with longer ones among them."""
    found = check("dd", "if=/dev/zero", f"of={memory / 'x'}", "bs=1", "count=20000", "status=none")
    answer = found.answer
    assert answer is not None, found.stderr
    assert answer["took_longer_ns"] < 5 * max(answer["took_ns"], 500_000_000)
    assert abs(answer["error"]) < 0.1, answer


def test_a_program_that_cannot_run_twice_is_recorded_all_the_same(
    check: Callable[..., Checked], memory: Path
) -> None:
    path = memory / "made"
    found = check("sh", "-c", f"set -eC; echo once > {path}; cat {path}")
    assert "warning: the recording was not checked: the program ended with exit status: " in found.stderr
    assert "its files may have to be as they were before" in found.stderr and "cannot create" in found.stderr
    assert found.answer is None
    assert found.trail.query("SELECT COUNT(*) FROM critical_path").fetchall() != [(0,)]


def test_a_program_that_hangs_the_second_time_is_ended(check: Callable[..., Checked], memory: Path) -> None:
    path = memory / "made"
    found = check("sh", "-c", f"if test -e {path}; then cat {path}; sleep 1000; fi; echo once > {path}")
    assert "warning: the recording was not checked: the program ran for 1" in found.stderr
    left = [
        pid
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if str(path).encode() in (Path("/proc") / pid / "cmdline").read_bytes()
    ]
    assert left == [] and found.answer is None


def test_what_cannot_be_checked(check: Callable[..., Checked]) -> None:
    done = subprocess.run(
        [*IOTRAIL, "record", "--check", "--", "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "--causal" in done.stderr
    assert "warning: the recording was not checked: it has no calls on files" in check("true").stderr


def test_ctrl_c_ends_the_second_run_and_leaves_the_trail(memory: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.trail"
    program = ["sh", "-c", f"for i in 1 2 3 4; do echo x > {memory}/$i; sleep 0.1; done"]
    recorder = subprocess.Popen(
        [*IOTRAIL, "record", "--causal", "--check", "-o", path, "--", *program],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert recorder.stderr is not None
    assert "one more run of the program" in recorder.stderr.readline()
    os.killpg(recorder.pid, signal.SIGINT)
    said = recorder.stderr.read()
    assert recorder.wait() == 0 and "the recording was not checked: it was ended by signal 2" in said
    assert ask(path)["check"] is None


def test_a_causal_replay_says_it_too(
    build: Callable[[str], Path], check: Callable[..., Checked], memory: Path, tmp_path: Path
) -> None:
    (memory / "data").mkdir()
    found = check(build("turns"), "turns", 2, 10, memory / "data")
    words = [
        *IOTRAIL,
        "replay",
        found.trail.path,
        "--root",
        memory / "r",
        "-o",
        tmp_path / "r.trail",
        "--force",
    ]
    causal, think = (
        subprocess.run([*words, "--mode", mode], capture_output=True, text=True, check=True).stdout
        for mode in ("causal", "think")
    )
    assert "Checked when it was recorded" in causal and "Checked" not in think
