"""What a preload recorder cannot see is said, on stderr and in the trail."""

from __future__ import annotations

import os
import shutil
import sys

import pytest


def test_static_program(build, record, work):
    """A static program alone would leave an empty trail: it is refused, with the reason."""
    run = record([build("life.c", "static"), work, "status", "3"])
    assert run.status not in (0, 3)
    assert run.stderr.startswith("iotrail: error:") and "static" in run.stderr
    assert "--kernel" in run.stderr
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


def test_more_mappings_than_are_followed(record, work):
    """1,100 mappings of a file: each has its row, the munmap of 1,024 too, and the rest is said."""
    (work / "mapped").write_bytes(bytes(4096))
    program = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
fd = os.open({str(work / "mapped")!r}, os.O_RDONLY)
made = [libc.mmap(None, 4096, 1, 2, fd, 0) for _ in range(1100)]
assert all(libc.munmap(address, 4096) == 0 for address in made)
"""
    run = record([sys.executable, "-S", "-c", program])
    assert run.status == 0, run.stderr
    rows = dict(
        run.trail.query(
            "SELECT call, count(*) FROM op WHERE path LIKE '%/mapped' GROUP BY call ORDER BY call"
        )
    )
    assert rows["mmap"] == 1100
    unfollowed = run.trail.unseen()["unfollowed_mapping"]
    assert unfollowed >= 76 and rows["munmap"] == 1100 - unfollowed
    assert f"munmap and msync of {unfollowed} mappings" in run.stderr
