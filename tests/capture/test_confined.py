"""Programs under seccomp: a system call of the recorder's that the program doesn't make would kill it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys

import pytest

WRITTEN = b"seven b" * 5


@pytest.fixture
def confined(build):
    program = build("confined.c")
    alone = subprocess.run([program, "filter", "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True)
    if alone.returncode != 7:
        pytest.skip("seccomp filters are refused here")
    return program


def _rows(run, name):
    return dict(
        run.trail.query(
            "SELECT call, count(*) FROM op WHERE parse_filename(path) = ? GROUP BY call ORDER BY call", name
        )
    )


def test_a_filter_that_allows_nothing_of_the_recorders(confined, record, work):
    """Reads and writes under a filter of read, write and exit_group: all are in the trail, and the filter is said."""
    run = record([confined, "filter", work / "file"])
    assert (run.status, run.stdout.encode()) == (7, WRITTEN), run.stderr
    assert (work / "file").read_bytes() == WRITTEN
    assert _rows(run, "file") == {"open": 1, "write": 5}
    assert run.trail.query("SELECT pos FROM op WHERE call = 'write' AND path LIKE '%/file' ORDER BY ts") == [
        (7 * i,) for i in range(5)
    ]
    assert run.trail.value("SELECT count(*) FROM op WHERE call = 'read' AND path = '/dev/null'") == 3
    assert run.trail.unseen() == {"seccomp": 1}
    assert "seccomp" in run.stderr
    # How much CPU time it took can't be asked any more: unknown, not 0.
    assert run.trail.query("SELECT user_ns, ended, status FROM process") == [(None, "exit", 7)]


def test_strict_mode(confined, record, work):
    """SECCOMP_MODE_STRICT takes the time-stamp counter away too: what follows is counted."""
    run = record([confined, "strict", work / "file"])
    assert (run.status, run.stdout.encode()) == (5, WRITTEN), run.stderr
    assert (work / "file").read_bytes() == WRITTEN
    assert _rows(run, "file") == {"open": 1}
    unseen = run.trail.unseen()
    assert unseen["seccomp"] == 1 and unseen["no_memory"] == 10


def test_a_filter_that_is_inherited(confined, record):
    """A program started under a filter runs as alone; that it isn't recorded is said by the one that started it."""
    alone = subprocess.run([confined, "inherited", confined], stdin=subprocess.DEVNULL, capture_output=True)
    run = record([confined, "inherited", confined])
    assert (run.status, run.stdout.encode()) == (alone.returncode, alone.stdout) == (6, WRITTEN), run.stderr
    assert run.trail.unseen()["seccomp"] == 2


def test_a_child_under_a_filter(confined, record, work):
    """A forked child has no memory to post into and may not ask for it."""
    run = record([confined, "forks", work / "file"])
    assert (run.status, run.stdout.encode()) == (4, WRITTEN), run.stderr
    assert (work / "file").read_bytes() == WRITTEN
    assert run.trail.unseen()["seccomp"] == 2
    assert run.trail.value("SELECT count(*) FROM op WHERE call = 'wait'") == 1


def test_a_filter_that_the_kernel_refuses(confined, record, work):
    """Nothing changes for a program whose filter is refused."""
    run = record([confined, "refused", work / "file"])
    assert run.status == 8, run.stderr
    assert _rows(run, "file") == {"open": 1, "write": 5, "lseek": 1}
    assert run.trail.unseen() == {}


def test_a_recorder_under_a_filter_of_its_own(native, tmp_path):
    """In a container everything has a filter: what the recorder was allowed, the program is."""
    out = tmp_path / "t.trail"
    # Refuses chroot with EPERM, as a container does.
    kill = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 161)
    kill += struct.pack("HBBI", 0x06, 0, 0, 0x00050001) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    program = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer({kill!r}, {len(kill)})
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
filter = Program({len(kill) // 8}, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter)) == 0
os.execv({str(native)!r}, ["iotrail-native", "record", "-o", {str(out)!r}, "--", "/bin/cat", "/etc/passwd"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    from .recording import Trail

    trail = Trail(out)
    assert trail.value("SELECT count(*) FROM op WHERE path = '/etc/passwd' AND call = 'open'") == 1
    assert trail.unseen() == {}


@pytest.mark.parametrize("program", ["bwrap", "file"])
def test_real_programs_with_filters(record, tmp_path, program):
    """bubblewrap starts programs under a filter; file(1) puts itself under one."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    if program == "bwrap" and os.geteuid():
        pytest.skip("needs root to make namespaces")
    text = tmp_path / "text"
    text.write_text("a line\n")
    if program == "file":
        command = ["file", "-b", str(text)]
    else:
        # Kills for madvise (28) and ftruncate (77), which cat makes none of and the recorder would.
        code = struct.pack("HBBI", 0x20, 0, 0, 0)
        for call in (28, 77):
            code += struct.pack("HBBI", 0x15, 0, 1, call) + struct.pack("HBBI", 0x06, 0, 0, 0x80000000)
        filter_file = tmp_path / "filter"
        filter_file.write_bytes(code + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
        bind = "--dev-bind / /"
        command = ["sh", "-c", f"exec bwrap {bind} --seccomp 9 cat {text} 9<{filter_file}"]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    if alone.returncode and program == "bwrap":
        pytest.skip(f"bwrap can't run here: {alone.stderr}")
    run = record(command)
    assert (run.status, run.stdout) == (alone.returncode, alone.stdout), run.stderr
    if program == "bwrap":
        assert run.trail.unseen()["seccomp"] >= 1
