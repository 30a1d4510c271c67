"""What a preload recorder cannot see is said, on stderr and in the trail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from .recording import until


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


def test_go_program_with_a_loader(record, work, tmp_path):
    """A Go program that the loader starts (cgo) makes its system calls past the C library: that is said."""
    if not shutil.which("restic"):
        pytest.skip("restic is not installed")
    (tmp_path / "kept").write_text("text")
    environment = {
        "RESTIC_PASSWORD": "x",
        "RESTIC_REPOSITORY": str(work / "repository"),
        "HOME": str(tmp_path),
    }
    run = record(["/bin/sh", "-c", f"restic init -q && restic backup -q {tmp_path}/kept"], env=environment)
    assert run.status == 0, run.stderr
    assert run.trail.unseen()["go_program"] == 2
    assert "2 Go programs" in run.stderr and "--kernel" in run.stderr


def _musl(source, target, *flags):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    source_file = target.with_suffix(".c")
    source_file.write_text(source)
    subprocess.run(["musl-gcc", *flags, "-o", target, source_file], check=True)
    return target


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_programs_of_another_c_library(record, tmp_path, kind):
    """A musl child runs as alone and is said to be unseen; what it starts in turn is recorded again."""
    source = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    FILE *made = fopen(argv[1], "w");
    if (!made || fputs("by musl", made) < 0 || fclose(made)) return 2;
    execl("/bin/cat", "cat", argv[1], (char *)0);
    return 3;
}
"""
    program = _musl(source, tmp_path / "other", *(["-static"] if kind == "static" else []))
    made = tmp_path / "made"
    run = record(["/bin/sh", "-c", f"{program} {made}; exit $?"])
    assert (run.status, run.stdout) == (0, "by musl"), run.stderr
    assert "relocat" not in run.stderr and "preload" not in run.stderr
    assert run.trail.unseen() == {"other_libc" if kind == "dynamic" else "static_program": 1}
    readers = run.trail.query(
        "SELECT DISTINCT p.name FROM op JOIN process p USING (process) WHERE path = ?", str(made)
    )
    assert readers == [("cat",)]
    alone = record([program, made])
    assert alone.status == 1 and "--kernel" in alone.stderr


def test_another_root_directory(record, tmp_path):
    """In a root directory without the library a program runs without it, silently, and the trail says so."""
    if os.geteuid():
        pytest.skip("needs root for chroot")
    root = tmp_path / "root"
    needed = subprocess.run(["ldd", "/bin/cat"], capture_output=True, text=True, check=True).stdout
    for file in {
        "/bin/cat",
        "/lib64/ld-linux-x86-64.so.2",
        *(w for w in needed.split() if w.startswith("/")),
    }:
        target = root / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), target)
    (root / "text").write_text("in the jail")
    run = record(["/bin/sh", "-c", f"chroot {root} /bin/cat /text; exit $?"])
    assert (run.status, run.stdout) == (0, "in the jail"), run.stderr
    assert "ld.so" not in run.stderr
    assert run.trail.unseen() == {"chroot_program": 1}


def test_processes_of_another_pid_namespace_end(record, work):
    """What ended in its own PID namespace is not said to run still, and threads in it are recorded."""
    if os.geteuid():
        pytest.skip("needs root for a PID namespace")
    (work / "read").write_text("text")
    code = f"import threading; t = threading.Thread(target=lambda: open({str(work / 'read')!r}).read()); t.start(); t.join()"
    run = record(["unshare", "-p", "-f", sys.executable, "-S", "-c", code])
    assert run.status == 0, run.stderr
    assert run.trail.unseen() == {}
    assert "still running" not in run.stderr
    rows = run.trail.query("SELECT ended, status FROM process WHERE name LIKE 'python%'")
    assert rows == [("exit", 0)]
    assert (
        run.trail.value("SELECT count(*) FROM op WHERE parse_filename(path) = 'read' AND call = 'open'") == 1
    )


def test_daemon_that_outlives_its_parent(build, record, work):
    """What goes on after the program has ended is said, or followed to its end."""
    script = f"(sleep 1; echo late > {work}/late) > /dev/null 2>&1 & exit 3"
    left = record(["/bin/sh", "-c", script])
    assert left.status == 3
    assert left.trail.unseen()["still_running"] >= 1
    assert "--follow" in left.stderr
    until((work / "late").exists)
    (work / "late").unlink()
    run = record(["/bin/sh", "-c", script], "--follow")
    assert run.status == 3, run.stderr
    assert "still_running" not in run.trail.unseen()
    assert (
        run.trail.value("SELECT count(*) FROM op WHERE path LIKE '%/late' AND call = 'open' AND errno = 0")
        == 1
    )
    assert run.trail.query("SELECT DISTINCT ended FROM process WHERE ended = 'running'") == []
