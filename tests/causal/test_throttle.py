"""Dependencies that no call shows, found by pausing threads, beside what programs log of them: all are found, and no others."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from iotrail.trail import Trail

from .conftest import IOTRAIL, ask
from .order import Arrow, known, missing, of_trail

# What the program counts itself, of the calls that it makes (`Call::is_operation`).
OPERATIONS = (
    "SELECT t.tid, o.ts, o.ts + o.dur AS until FROM file_op AS o INNER JOIN thread AS t ON t.thread = o.thread "
    "WHERE o.errno = 0 AND (o.call IN ('open', 'close') OR o.call = 'pwrite' AND o.result > 0) ORDER BY o.ts"
)
HIDDEN = (
    "SELECT g.tid AS giver, s.ts AS since, t.tid AS taker, w.ts + w.dur AS until, s.how, w.how AS wait_how, w.style, w.within "
    "FROM signal AS s INNER JOIN wait AS w ON w.edge = s.edge INNER JOIN thread AS g ON g.thread = s.thread "
    "INNER JOIN thread AS t ON t.thread = w.thread WHERE s.kind = 'hidden'"
)


@dataclass
class Throttled:
    """A recording with further runs."""

    done: subprocess.CompletedProcess[str]
    path: Path
    log: Path
    directory: Path

    @property
    def trail(self) -> Trail:
        return Trail(self.path)

    @property
    def runs(self) -> int:
        """How many further runs there were."""
        return sum(": run " in line and " paused " in line for line in self.done.stderr.splitlines())

    @property
    def plans(self) -> int:
        """How often the plan may be done: once more where a thread that was only slow seemed stuck, which is said."""
        return 2 if "moved that seemed stuck" in self.done.stderr else 1


@pytest.fixture
def throttle(build: Callable[[str], Path], tmp_path: Path) -> Callable[..., Throttled]:
    """Records programs/unseen.c with further runs; before `--`: options of record."""
    directory = tmp_path / "files"
    directory.mkdir()
    log, path = tmp_path / "log", tmp_path / "x.trail"

    def throttle(*words: object, options: tuple[str, ...] = ("--throttle", "groups")) -> Throttled:
        pattern, medium, workers, rounds, *odd = map(str, words)
        program = [build("unseen"), pattern, medium, workers, rounds, directory, log, *odd]
        command = [*IOTRAIL, "record", "--causal", *options, "-o", path, "--", *program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        return Throttled(done, path, log, directory)

    return throttle


def operations(trail: Trail) -> dict[int, list[tuple[int, int]]]:
    """Start and end of each operation, by thread."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in trail.rows_of(OPERATIONS):
        found.setdefault(row["tid"], []).append((row["ts"], row["until"]))
    return found


def logged(run: Throttled, *, begun: bool = False) -> list[Arrow]:
    """What the program says: until which operation the giver had come, or begun, and before which the taker waited."""
    ops = operations(run.trail)
    arrows = []
    for line in run.log.read_text().splitlines():
        giver, given, taker, took = map(int, line.split())
        arrows.append(Arrow(giver, ops[giver][given - 1][not begun], taker, ops[taker][took][0]))
    return arrows


def hidden(trail: Trail) -> list[Arrow]:
    """What was found, until the operation that waited."""
    ops = operations(trail)
    arrows = []
    for row in trail.rows_of(HIDDEN):
        assert row["how"] == row["wait_how"] == "throttled"
        later = [start for start, _ in ops[row["taker"]] if start >= row["until"]]
        until = min(later, default=row["until"])
        arrows.append(Arrow(row["giver"], row["since"], row["taker"], until))
    return arrows


@pytest.mark.parametrize(
    ("pattern", "medium", "workers", "runs"),
    [
        ("pingpong", "flag", 2, 4),
        ("pingpong", "mapping", 2, 4),
        ("pingpong", "file", 2, 4),
        ("pingpong", "open", 2, 4),
        ("chain", "flag", 3, 4),
        ("chain", "mapping", 4, 6),
        ("barrier", "flag", 4, 6),
    ],
)
def test_what_no_call_shows_is_found_and_nothing_else(
    pattern: str, medium: str, workers: int, runs: int, throttle: Callable[..., Throttled]
) -> None:
    run = throttle(pattern, medium, workers, 25)
    assert run.done.returncode == 0, run.done.stderr
    # a file is there before the call returns that makes it
    wanted = logged(run, begun=medium in ("file", "open"))
    assert len(wanted) >= 24
    assert missing(wanted, known(of_trail(run.trail))) == []
    assert missing(hidden(run.trail), known(logged(run))) == []
    assert run.runs <= runs * run.plans, run.done.stderr


@pytest.mark.parametrize("medium", ["flag", "mapping"])
def test_without_dependencies_there_are_none(medium: str, throttle: Callable[..., Throttled]) -> None:
    run = throttle("none", medium, 4, 25)
    assert run.done.returncode == 0, run.done.stderr
    assert run.runs >= 6
    assert hidden(run.trail) == []


def test_what_shares_nothing_is_paused_at_once(build: Callable[[str], Path], tmp_path: Path) -> None:
    """Two programs of three threads each: as many runs as for one of them."""
    script = "for n in 1 2; do mkdir $n; $0 pingpong flag 2 15 $n $n/log & done; wait"
    command = [*IOTRAIL, "record", "--causal", "--throttle", "groups", "-o", tmp_path / "x.trail", "--"]
    done = subprocess.run(
        [*command, "sh", "-c", script, build("unseen")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for number in ("1", "2"):
        run = Throttled(done, tmp_path / "x.trail", tmp_path / number / "log", tmp_path / number)
        assert run.runs <= 4 * run.plans, done.stderr
        assert missing(logged(run), known(of_trail(run.trail))) == []
    pairs = "SELECT COUNT(*), SUM(CASE WHEN g.process <> t.process THEN 1 ELSE 0 END) FROM signal AS s INNER JOIN wait AS w "
    pairs += "ON w.edge = s.edge INNER JOIN thread AS g ON g.thread = s.thread INNER JOIN thread AS t ON t.thread = w.thread "
    [[found, between]] = run.trail.query(pairs + "WHERE s.kind = 'hidden'").fetchall()
    assert found >= 50 and between == 0


def test_the_programs_of_a_pipeline_share_nothing(tmp_path: Path) -> None:
    """The shell and what it forks share memory until they run the programs, of which sort has hundreds of operations."""
    script = "seq 1 200000 | sort -n -S 1M -T . | gzip -1 > out"
    command = [*IOTRAIL, "record", "--causal", "--throttle", "groups", "-o", tmp_path / "x.trail", "--"]
    done = subprocess.run(
        [*command, "sh", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    pauses = re.findall(r"with about ([\d,]+) pauses", done.stderr)
    assert pauses and all(int(each.replace(",", "")) < 200 for each in pauses), done.stderr


def test_one_node_a_run_is_algorithm_1(throttle: Callable[..., Throttled]) -> None:
    run = throttle("chain", "flag", 3, 25, options=("--throttle", "all"))
    assert missing(logged(run), known(of_trail(run.trail))) == []
    assert missing(hidden(run.trail), known(logged(run))) == []
    # the main thread opens files, too
    assert run.runs in (4, 4 * run.plans)
    styles = {row["style"] for row in run.trail.rows_of(HIDDEN)}
    assert styles == {"spin"}


def test_a_period_finds_edges_at_most_so_many_operations_early(throttle: Callable[..., Throttled]) -> None:
    run = throttle("chain", "flag", 2, 60, options=("--throttle", "groups", "--period", "5"))
    ops = operations(run.trail)
    rows = run.trail.rows_of(HIDDEN)
    assert len(rows) >= 10
    for row in rows:
        done = sum(until <= row["since"] for _, until in ops[row["giver"]])
        took = sum(start < row["until"] for start, _ in ops[row["taker"]])
        # worker 1 waits before each of its writes for as many of worker 0
        assert took + 1 - 5 < done <= took + 1
        assert 0 <= row["within"] < 5


def test_one_thread_waits_for_nobody(throttle: Callable[..., Throttled]) -> None:
    run = throttle("none", "flag", 0, 25)
    assert run.done.returncode == 0
    assert "no further runs: 1 threads do operations on files" in run.done.stderr
    assert run.runs == 0


def test_explained_time_is_no_more_computing(throttle: Callable[..., Throttled]) -> None:
    run = throttle("pingpong", "flag", 2, 25)
    waits = run.trail.rows_of("SELECT state, cause_thread, blocked_ns FROM wait_state WHERE state = 'hidden'")
    assert len(waits) >= 48
    assert all(row["cause_thread"] is not None for row in waits)
    # a worker spins for as long as the other one computes, 100 and 150 us a round
    assert sum(row["blocked_ns"] for row in waits) > 25 * 100_000
    [[most]] = run.trail.query("SELECT MAX(cpu_ns - dur) FROM compute").fetchall()
    assert most <= 0
    [[overlaps]] = run.trail.query(
        "SELECT COUNT(*) FROM wait AS w INNER JOIN compute AS c ON c.thread = w.thread "
        "WHERE w.kind = 'hidden' AND c.ts < w.ts + w.dur AND c.ts + c.dur > w.ts"
    ).fetchall()
    assert overlaps == 0


def test_signals_do_not_end_a_pause(tmp_path: Path) -> None:
    """A shell's handler of SIGCHLD calls waitpid() while the shell is paused. Only the ends of its pipes are told by no call."""
    script = (
        "for n in 1 2 3; do (echo $n > f$n); done; x=$(cat f1; echo hi); cat f2 | grep 2 > f4; echo $x > f5"
    )
    command = [
        *IOTRAIL,
        "record",
        "--causal",
        "--throttle",
        "groups",
        "-o",
        tmp_path / "x.trail",
        "--",
        "bash",
        "-c",
        script,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert " further runs; " in done.stderr and "warning" not in done.stderr, done.stderr
    trail = Trail(tmp_path / "x.trail")
    ends = trail.query(
        "SELECT t.tid, o.ts + o.dur FROM sync_op AS o INNER JOIN thread AS t ON t.thread = o.thread WHERE o.call = 'read' AND o.result = 0"
    ).fetchall()
    for row in trail.rows_of(HIDDEN):
        assert any(tid == row["taker"] and until <= row["until"] for tid, until in ends), (row, ends)


def test_a_run_that_fails_is_said(throttle: Callable[..., Throttled]) -> None:
    run = throttle("pingpong", "flag", 2, 10, "fail")
    assert run.done.returncode == 0
    assert (
        "run 1 of 4 failed" in run.done.stderr
        and "exit status: 3 instead of exit status: 0" in run.done.stderr
    )
    assert_whole_and_over(run)
    assert (run.path.with_name("x.trail.throttle") / "job.json").exists()


def test_a_run_that_hangs_is_ended(throttle: Callable[..., Throttled]) -> None:
    run = throttle("none", "mapping", 3, 10, "hang")
    assert run.done.returncode == 0
    assert "nothing moved any more" in run.done.stderr
    assert_whole_and_over(run)


def test_nothing_is_said_of_who_does_other_operations(throttle: Callable[..., Throttled]) -> None:
    run = throttle("chain", "flag", 3, 25, "stray")
    assert "1 threads did other operations than before" in run.done.stderr
    assert missing(hidden(run.trail), known(logged(run))) == []
    strayed = sorted(operations(run.trail))[2]
    assert not any(strayed in (arrow.giver, arrow.taker) for arrow in hidden(run.trail))


def assert_whole_and_over(run: Throttled) -> None:
    """The trail has its matched edges and no others; nothing of the program runs."""
    kinds = {row["kind"] for row in run.trail.rows_of("SELECT DISTINCT kind FROM signal")}
    assert kinds and "hidden" not in kinds
    assert processes(run.directory) == []


def processes(directory: Path) -> list[int]:
    """Those that have it in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(directory) in words:
                found.append(int(entry.name))
    return found


def until_it_says(stream: IO[str], words: str) -> str:
    """What it says until then."""
    said = ""
    for line in stream:
        said += line
        if words in line:
            return said
    raise AssertionError(f"{words!r} was not said:\n{said}")


@pytest.mark.parametrize(
    ("how", "which"), [(signal.SIGINT, "groups"), (signal.SIGKILL, "groups"), (signal.SIGINT, "auto")]
)
def test_runs_go_on_after_the_recorder_was_ended(
    how: signal.Signals, which: str, build: Callable[[str], Path], tmp_path: Path
) -> None:
    directory, path = tmp_path / "files", tmp_path / "x.trail"
    directory.mkdir()
    program = [build("unseen"), "pingpong", "flag", "2", "40", directory, tmp_path / "log"]
    command = [*IOTRAIL, "record", "--causal", "--throttle", which, "-o", path, "--", *program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        before = until_it_says(first.stderr, "run 1 of")
        assert "further runs of the program, with about" in before, before
        time.sleep(0.1)
        first.send_signal(how)
        rest = first.stderr.read()
    if how == signal.SIGINT:
        assert "was ended by signal 2" in rest and "the same command goes on" in rest
    # paused threads go on soon after the recorder is gone
    until = time.monotonic() + 30
    while processes(directory) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes(directory) == []
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    assert "going on with the runs that are left" in second.stderr
    assert "run 1 of" not in second.stderr and "run 2 of" in second.stderr
    run = Throttled(second, path, tmp_path / "log", directory)
    assert missing(logged(run), known(of_trail(run.trail))) == []
    assert missing(hidden(run.trail), known(logged(run))) == []
    assert not path.with_name("x.trail.throttle").exists()
    check = ask(path, "--force")["check"]
    assert check is None if which == "groups" else abs(check["error"]) < 0.2


def errors(said: str) -> list[float]:
    """Of the checks, as shares."""
    return [float(found) / 100 for found in re.findall(r"predicted .* \(([+-][\d.]+) %\)", said)]


def test_auto_pauses_nobody_where_calls_explain_all(
    build: Callable[[str], Path], throttle: Callable[..., Throttled], tmp_path: Path
) -> None:
    path = tmp_path / "x.trail"
    options = ("--causal", "--throttle", "auto")
    folder = tmp_path / "turns"
    folder.mkdir()
    command = [*IOTRAIL, "record", *options, "-o", path, "--", build("turns"), "turns", "3", "40", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    first, *later = errors(done.stderr)
    # its own runs may differ by more than that, if seldom; what is printed is rounded
    is_good = "no further runs: a prediction is off by no more than 5 %" in done.stderr
    assert abs(first) <= 0.0505 if is_good else abs(first) >= 0.0495
    is_paused = "no further runs: " not in done.stderr
    assert is_paused == ("paused" in done.stderr) == bool(later) and not (is_good and is_paused)
    assert hidden(Trail(path)) == [] and abs(first) < 0.1
    assert ask(path)["check"]["error"] == pytest.approx([first, *later][-1], abs=0.001)
    # and of one thread there is nothing to find, however far off it is
    alone = throttle("none", "flag", 1, 20, options=("--throttle", "auto", "--force"))
    assert alone.done.returncode == 0, alone.done.stderr
    assert "no further runs: " in alone.done.stderr and alone.runs == 0


def test_auto_pauses_until_a_prediction_is_right(throttle: Callable[..., Throttled]) -> None:
    run = throttle("pingpong", "flag", 2, 60, options=("--throttle", "auto"))
    assert run.done.returncode == 0, run.done.stderr
    first, last = errors(run.done.stderr)
    assert first < -0.2 and abs(last) < abs(first) / 2
    assert run.runs in (4, 8)
    assert missing(logged(run), known(of_trail(run.trail))) == []
    assert missing(hidden(run.trail), known(logged(run))) == []
    assert ask(run.path, "--force")["check"]["error"] == pytest.approx(last, abs=0.001)


def test_auto_chooses_the_period(throttle: Callable[..., Throttled]) -> None:
    run = throttle("pingpong", "flag", 2, 20, options=("--throttle", "auto", "--period", "2"))
    assert run.done.returncode != 0 and not run.path.exists()
    assert (
        "error: --throttle auto chooses the period" in run.done.stderr
        and "leave --period out" in run.done.stderr
    )


def test_another_command_does_not_go_on(throttle: Callable[..., Throttled]) -> None:
    assert throttle("pingpong", "flag", 2, 10, "fail").done.returncode == 0
    other = throttle("pingpong", "flag", 2, 12, "fail").done
    assert other.returncode == 1
    assert "waits for more runs of another command" in other.stderr and "--force" in other.stderr
