"""`record` as a command: names that exist, commands that don't, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .recording import until


def test_a_second_recording_of_the_name_is_refused(build, record, work, tmp_path):
    """A trail is never overwritten by accident; --force replaces it."""
    out = tmp_path / "kept.trail"
    program = build("life.c")
    first = record([program, work, "status", "0"], out=out)
    assert first.status == 0
    before = sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*"))
    refused = record([program, work, "status", "0"], out=out)
    assert refused.status == 1 and "--force" in refused.stderr and "iotrail: error:" in refused.stderr
    assert not refused.notes, "the program must not have run"
    assert sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*")) == before
    forced = record([program, work, "atexit"], "--force", out=out)
    assert forced.status == 0
    forced.assert_exact()


def test_force_never_removes_what_is_no_trail(build, record, work, tmp_path):
    """--force replaces trails only: somebody's directory stays as it is."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("dear")
    run = record([build("life.c"), work, "small"], "--force", out=mine)
    assert run.status == 1 and "iotrail: error:" in run.stderr
    assert (mine / "letter").read_text() == "dear"


@pytest.mark.parametrize(
    "command",
    [["does-not-exist-anywhere"], ["/does/not/exist"], ["/etc/passwd"], ["/tmp"]],
)
def test_commands_that_cannot_be_run(record, tmp_path, command):
    """A message of a few lines, a non-zero status, no trail of nothing."""
    run = record(command)
    assert run.status != 0
    assert run.stderr.startswith("iotrail: error:") and len(run.stderr.splitlines()) <= 4, run.stderr
    assert not run.path.exists()


def test_nothing_stays_behind(build, record, work, tmp_path):
    """While a recording runs its trail says where its session is; afterwards that is gone."""
    out, sessions = tmp_path / "t.trail", []

    def look(recorder) -> None:
        until(lambda: (work / "ready").exists())
        sessions.append(Path(json.loads((out / "session.json").read_text())["session_dir"]))
        assert sessions[0].is_dir()
        os.killpg(recorder.pid, signal.SIGTERM)

    run = record([build("life.c"), work, "wait"], out=out, during=look)
    assert run.status == 128 + signal.SIGTERM
    assert not sessions[0].exists()
    assert not (out / "session.json").exists()
    run.assert_exact(unfinished={"pause": 1})


def test_output_is_the_programs(record):
    """stdin, stdout and stderr are the program's own; the recorder adds its lines to stderr, after it has ended."""
    run = record(["/bin/sh", "-c", "cat; echo out; echo err >&2"])
    assert run.stdout == "out\n"
    assert run.stderr.startswith("err\n")


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("iotrail", "--help"),
        ("iotrail", "sql TRAIL --modules"),
        ("iotrail", "summary TRAIL"),
        ("iotrail", "schema"),
        ("iotrail", "trail info TRAIL"),
        ("iotrail", "sql TRAIL 'FROM file_op'"),
        ("iotrail-native", "--help"),
        ("iotrail-native", "schema"),
        ("iotrail-native", "trail info TRAIL"),
    ],
)
def test_output_may_be_cut(native, record, tmp_path, program, arguments):
    """`| head`: nobody reads the rest, and the command ends quietly, with 141 or as if all had been read."""
    trail = tmp_path / "cut.trail"
    if "TRAIL" in arguments:
        assert record(["/bin/ls", "/"], out=trail).status == 0
    start = f"{sys.executable} -m iotrail" if program == "iotrail" else str(native)
    command = f"{start} {arguments.replace('TRAIL', str(trail))}"
    # A reader that is gone before anything is written.
    done = subprocess.run(
        ["bash", "-c", f"{{ sleep 0.2; {command}; }} | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 141), done.stderr
    assert done.stderr == ""


def test_attaching_is_answered(native):
    """A running program can't be recorded: the answer says why and what to do."""
    done = subprocess.run([native, "record", "-p", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "can't attach to process 1" in done.stderr and "hint: start the program anew" in done.stderr
