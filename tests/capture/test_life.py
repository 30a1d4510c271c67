"""Exact rows through everything that happens to programs: ends, forks, execs, threads, signals, closed descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from .recording import new_book, read_book, until

# Scenario of programs/life.c, its arguments, its exit status, the calls it leaves unfinished.
SCENARIOS = {
    "_exit": (["_exit"], 3, {}),
    "exit while five threads read": (["exit-among-threads"], 0, {"read": 5}),
    "main thread ends first": (["main-ends-first"], 0, {}),
    "abort": (["abort"], 128 + signal.SIGABRT, {}),
    "segmentation fault": (["fault"], 128 + signal.SIGSEGV, {}),
    "quick_exit": (["quick_exit"], 5, {}),
    "atexit": (["atexit"], 0, {}),
    "chain of execs": (["execs"], 0, {}),
    "exec from a thread": (["exec-from-thread"], 0, {}),
    "fork without exec": (["forks"], 0, {}),
    "vfork and exec": (["vforks"], 0, {}),
    "500 short processes": (["processes"], 0, {}),
    "daemon": (["daemon"], 0, {}),
    "200 short threads": (["short-threads"], 0, {}),
    "101 threads at once": (["many-threads"], 0, {}),
    "TLS destructors": (["tls-destructors"], 0, {}),
    "pthread_cancel in read": (["cancel"], 0, {"read": 11}),
    "close-all loop, close_range, closefrom": (["close-all"], 0, {}),
    "descriptors dup'ed over": (["dup-over"], 0, {}),
    "every descriptor in use": (["few-descriptors"], 0, {}),
    "standard descriptors closed": (["close-standard"], 0, {}),
    "I/O in a signal handler": (["signals"], 0, {}),
    "I/O on an alternate stack below": (["signals", "below"], 0, {}),
    "I/O on an alternate stack above": (["signals", "above"], 0, {}),
    "a signal at each instruction, on an alternate stack": (["stepped", "below"], 0, {}),
    "longjmp out of read": (["longjmp"], 0, {"read": 23}),
    "interrupted reads": (["interrupted"], 0, {}),
    "system calls by number": (["raw"], 0, {}),
    "paths that are no addresses": (["bad-paths"], 0, {}),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_call_has_its_row(build, record, work, scenario):
    """Each thread's rows are the program's own notes, whatever it went through; nothing is dropped."""
    arguments, status, unfinished = SCENARIOS[scenario]
    run = record([build("life.c"), work, *arguments], notes=1_000_000)
    assert run.status == status, run.stderr
    run.assert_exact(unfinished=unfinished, by_call=arguments[0] in {"signals", "stepped"})
    assert run.trail.unseen() == {}


def test_setuid_drop(build, record, work):
    """A daemon that was root and becomes nobody goes on being recorded: threads, forks and execs after the drop."""
    if os.geteuid():
        pytest.skip("needs root to become nobody")
    run = record([build("life.c"), work, "drop"])
    assert run.status == 0, run.stderr
    run.assert_exact()


def test_chroot(build, record, work):
    """Where the session is out of reach, what had room before goes on, and the calls of new processes are counted."""
    if os.geteuid():
        pytest.skip("needs root to change the root directory")
    run = record([build("life.c"), work, "chroot"])
    assert run.status == 0, run.stderr
    child = sum(note.path == "child" for note in run.notes) + 1  # and its close
    assert run.trail.missing() == child
    assert run.trail.value("SELECT count(*) FROM op") == len(run.notes) - child
    assert "memory" in run.stderr


def test_spawned_programs(build, record, work):
    """posix_spawn, system and popen: the programs they start have their rows, and the waits theirs."""
    run = record([build("life.c"), work, "spawns"])
    assert run.status == 0, run.stderr
    writes = run.trail.value(
        "SELECT count(*) FROM op WHERE call = 'pwrite' AND parse_filename(path) = 'small'"
    )
    assert writes == 3 * (7 + 5 + 3)
    images = run.trail.value("SELECT count(*) FROM process WHERE cmd LIKE '%small%' AND name LIKE 'life-%'")
    assert images == 7 + 5 + 3
    # 7 waitpid, 5 system, 3 pclose
    assert (
        run.trail.value(
            "SELECT count(*) FROM sync_op o JOIN thread t USING (thread) WHERE call = 'wait' "
            "AND t.process = (SELECT process FROM process WHERE cmd LIKE '%spawns%')"
        )
        == 15
    )


def test_processes_know_their_parents_and_ends(build, record, work):
    """fork and exec each begin a process row; parent, ended and status say how they hang together."""
    run = record([build("life.c"), work, "execs"])
    rows = run.trail.query("SELECT process, parent, pid, ended, status FROM process ORDER BY start_ts")
    assert len(rows) == 8 and len({row[2] for row in rows}) == 1
    assert [row[1] for row in rows[1:]] == [row[0] for row in rows[:-1]]
    assert [row[3] for row in rows] == ["exec"] * 7 + ["exit"]
    assert rows[-1][4] == 0

    run = record([build("life.c"), work, "forks"])
    children = run.trail.query(
        """SELECT count(*) FROM process c JOIN process p ON c.parent = p.process
        WHERE p.process = (SELECT process FROM process ORDER BY start_ts LIMIT 1)"""
    )
    assert children == [(5,)]
    assert run.trail.query("SELECT ended, status, count(*) FROM process GROUP BY ALL") == [("exit", 0, 11)]


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_exit_status_is_passed_on(build, record, work, status):
    """The recorder ends as the program ended, and the trail knows it too."""
    run = record([build("life.c"), work, "status", str(status)])
    assert run.status == status
    assert run.trail.query("SELECT ended, status FROM process") == [("exit", status)]
    run.assert_exact()


def test_sigkill_of_the_program(build, record, work):
    """After SIGKILL the trail has every call that returned; the one that hung has no duration."""
    run = record([build("life.c"), work, "killed"], notes=2_000_000)
    assert run.status == 128 + signal.SIGKILL
    run.assert_exact(killed=True)
    assert run.trail.query("SELECT ended FROM process") == [("killed",)]
    assert (
        run.trail.value("SELECT count(*) FROM op WHERE call = 'read' AND dur IS NULL AND result IS NULL") == 1
    )
    assert run.trail.value("SELECT count(*) FROM op WHERE call = 'pwrite'") >= 5003


def test_recorder_and_program_killed(build, record, native, work, tmp_path):
    """Both get SIGKILL in the middle: `trail check` finds every call that had returned."""

    def kill_both(recorder: subprocess.Popen) -> None:
        until(lambda: (work / "endless-1").exists() and (work / "endless-0").exists())
        time.sleep(0.5)  # long enough for sealed files beside unsealed segments
        os.killpg(recorder.pid, signal.SIGKILL)

    run = record([build("life.c"), work, "endless"], notes=5_000_000, during=kill_both)
    assert run.status == -signal.SIGKILL
    checked = subprocess.run(
        [native, "trail", "check", run.path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(run.notes) > 1000
    run.assert_exact(killed=True)
    again = subprocess.run(
        [native, "trail", "check", run.path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, "a recovered trail is a whole one: " + again.stdout + again.stderr


def test_interrupt_ends_the_program_and_keeps_the_trail(build, record, work):
    """Ctrl-C reaches the program; the trail has what it did."""

    def interrupt(recorder: subprocess.Popen) -> None:
        until(lambda: (work / "ready").exists())
        time.sleep(0.2)
        os.killpg(recorder.pid, signal.SIGINT)

    run = record([build("life.c"), work, "wait"], during=interrupt)
    assert run.status == 128 + signal.SIGINT
    run.assert_exact(unfinished={"pause": 1})


def test_a_child_that_outlives_the_program(build, record, work):
    """The command has ended when its own program has; a child that goes on is unharmed and said to run still."""
    run = record([build("life.c"), work, "leaves-child"])
    assert run.status == 0, run.stderr
    until(lambda: (work / "orphan").exists() and (work / "orphan").stat().st_size == 300 * 8)
    ended = dict(run.trail.query("SELECT ended, count(*) FROM process GROUP BY ended"))
    assert ended in ({"exit": 1, "running": 1}, {"exit": 2})


def test_late_dlopen(build, record, work):
    """I/O of a library's constructor, functions and destructor, loaded and unloaded five times."""
    library = build("library.c", "plain", "-shared", "-fPIC")
    run = record(
        [build("life.c"), work, "dlopen"],
        env={"LATE_LIBRARY": str(library), "LIBRARY_WORK": str(work)},
    )
    assert run.status == 0, run.stderr
    run.assert_exact()
    counts = dict(
        run.trail.query("SELECT parse_filename(path), count(*) FROM op WHERE call = 'pwrite' GROUP BY 1")
    )
    assert counts == {"main": 6, "constructor": 25, "library": 55, "destructor": 35}


@pytest.mark.parametrize("order", ["{library}:$LD_PRELOAD", "$LD_PRELOAD:{library}"])
def test_linked_library(build, record, work, order):
    """Constructors before main and destructors after exit of another preloaded library, before or after the recorder's."""
    library = build("library.c", "plain", "-shared", "-fPIC")
    preload = order.format(library=library)
    run = record(
        ["/bin/sh", "-c", f'LD_PRELOAD="{preload}" exec "$0" "$@"', build("life.c"), work, "small"],
        env={"LIBRARY_WORK": str(work)},
    )
    assert run.status == 0, run.stderr
    run.assert_exact()


def test_io_hidden_by_cpp(build, record, work):
    """Destructors of thread_local and static objects, and unwinding, do recorded I/O."""
    run = record([build("hidden.cc"), work])
    assert run.status == 0, run.stderr
    differences = [d for d in run.differences() if "pthread_join" not in d]  # libstdc++ joins, unnoted
    counts = dict(
        run.trail.query("SELECT parse_filename(path), count(*) FROM op WHERE call = 'pwrite' GROUP BY 1")
    )
    assert counts == {
        "thread_local": 35,
        "thread": 21,
        "unwound": 55,
        "caught": 22,
        "static": 5,
    }
    assert all("first differing row" in d for d in differences), differences


def test_own_malloc_that_does_io(build, record, work, tmp_path):
    """A program whose malloc writes a journal: recorded exactly, and the recorder allocates nothing from it."""
    program = build("allocates.c")
    run = record([program, work])
    assert run.status == 0, run.stderr
    run.assert_exact()
    book = tmp_path / "alone.book"
    new_book(book, 10_000)
    subprocess.run([program, work], check=True, env={**os.environ, "WITNESS": str(book)})
    assert len(run.notes) == len(read_book(book))
