"""What a preload recorder cannot see is said, on stderr and in the trail."""

from __future__ import annotations

import os
import shutil

import pytest


def test_static_program(build, record, work):
    """A static program alone would leave an empty trail: it is refused, with the reason."""
    run = record([build("life.c", "static"), work, "status", "3"])
    assert run.status not in (0, 3)
    assert run.stderr.startswith("iotrail: error:") and "static" in run.stderr
    assert not run.notes and not run.path.exists()


def test_static_program_started_by_another(build, record, work):
    """A static program started by a recorded one is counted, each time."""
    static = build("life.c", "static")
    run = record(
        [
            "/bin/sh",
            "-c",
            f"'{static}' '{work}' small; '{static}' '{work}' small; exit 4",
        ]
    )
    assert run.status == 4, run.stderr
    assert run.trail.unseen() == {"static_program": 2}
    assert "static" in run.stderr


def test_setuid_program(build, record, work, tmp_path):
    """A setuid program drops the preload library; the trail says so."""
    if os.geteuid():
        pytest.skip("needs root to make a setuid program")
    program = tmp_path / "setuid"
    shutil.copy(build("life.c"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    run = record(["/bin/sh", "-c", f"'{program}' '{work}' small; true"])
    assert run.status == 0, run.stderr
    assert run.trail.unseen() == {"setuid_program": 1}
    assert "setuid" in run.stderr


def test_io_uring(build, record, work):
    """Rings set up and enters are counted."""
    run = record([build("uring.c")])
    if run.status == 77:
        pytest.skip("io_uring is refused here")
    assert run.status == 0, run.stderr
    assert run.trail.unseen() == {"io_uring_setup": 3, "io_uring_enter": 39}
    assert "io_uring" in run.stderr


def test_cleared_environment(build, record, work):
    """A program started without the preload library in its environment is recorded all the same, or said to be unseen."""
    program = build("life.c")
    run = record(["/usr/bin/env", "-i", program, work, "small"])
    assert run.status == 0, run.stderr
    rows = run.trail.value("SELECT count(*) FROM op WHERE parse_filename(path) = 'small'")
    assert rows == 8 or run.trail.unseen() == {"preload_removed": 1}
