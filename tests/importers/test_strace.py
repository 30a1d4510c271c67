"""strace's output: options in any combination, calls cut in two, descriptors and offsets followed."""

import gzip
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrail import importers
from iotrail.errors import IotrailError, TraceError
from iotrail.importers.ids import file_id, process_id, thread_id

OPS = "SELECT call, path, fd, pos, length, result, errno, dur FROM file_op LEFT JOIN file USING (node, file) ORDER BY file_op.ts"

# One program, as strace -f -ttt -T -y prints it; what other options print is made of it.
TRACE = """\
100 1700000000.000001 execve("/bin/app", ["app", "-x"], 0x7ffd /* 3 vars */) = 0 <0.000100>
100 1700000000.001000 openat(AT_FDCWD</srv/job>, "data/../in.db", O_RDWR|O_CLOEXEC) = 3</srv/job/in.db> <0.000010>
100 1700000000.002000 read(3</srv/job/in.db>, "ab) = 7\\n"..., 4096) = 100 <0.000020>
100 1700000000.003000 read(3</srv/job/in.db>, "", 4096) = 0 <0.000002>
100 1700000000.004000 lseek(3</srv/job/in.db>, 8192, SEEK_SET) = 8192 <0.000001>
100 1700000000.005000 write(3</srv/job/in.db>, "x"..., 512) = 512 <0.000030>
100 1700000000.006000 pwrite64(3</srv/job/in.db>, "y", 1, 77) = 1 <0.000003>
100 1700000000.007000 write(3</srv/job/in.db>, "z", 1) = 1 <0.000003>
100 1700000000.008000 openat(AT_FDCWD</srv/job>, "/none", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000004>
100 1700000000.009000 brk(NULL) = 0x55 <0.000001>
100 1700000000.010000 close(3</srv/job/in.db>) = 0 <0.000005>
100 1700000000.011000 exit_group(0) = ?
100 1700000000.012000 +++ exited with 0 +++
"""
ROWS = [
    ("open", "/srv/job/in.db", 3, None, None, 3, 0, 10_000),
    ("read", "/srv/job/in.db", 3, 0, 4096, 100, 0, 20_000),
    ("read", "/srv/job/in.db", 3, 100, 4096, 0, 0, 2_000),
    ("lseek", "/srv/job/in.db", 3, None, None, 8192, 0, 1_000),
    ("write", "/srv/job/in.db", 3, 8192, 512, 512, 0, 30_000),
    ("pwrite", "/srv/job/in.db", 3, 77, 1, 1, 0, 3_000),
    ("write", "/srv/job/in.db", 3, 8704, 1, 1, 0, 3_000),
    ("open", "/none", None, None, None, -1, 2, 4_000),
    ("close", "/srv/job/in.db", 3, None, None, 0, 0, 5_000),
]


def variant(pid: bool, times: str, took: bool, names: bool) -> str:
    """TRACE as other options print it."""
    text = TRACE
    if not took:
        text = re.sub(r" <\d+\.\d+>$", "", text, flags=re.MULTILINE)
    if not names:
        text = re.sub(r"(\d|AT_FDCWD)</[^>]*>", r"\1", text)
    stamp = {
        "-ttt": r"\1",
        "-tt": r"23:59:59.\2",
        "-t": "23:59:59",
        "": "",
    }[times]
    text = re.sub(r"(\d{10}\.(\d{6}))", stamp, text)
    return re.sub(r"^100 +", "100 " if pid else "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("names", [True, False], ids=["-y", ""])
@pytest.mark.parametrize("took", [True, False], ids=["-T", ""])
@pytest.mark.parametrize("times", ["-ttt", "-tt", "-t", ""])
@pytest.mark.parametrize("pid", [True, False], ids=["-f", ""])
def test_any_combination_of_options(bring, pid, times, took, names):
    got = bring(variant(pid, times, took, names))
    assert "looks like strace" in got.said
    assert got.fact("skipped") == "0", got.said
    # without -y the working directory isn't known: a relative path stays as the program gave it
    path = "/srv/job/in.db" if names else "in.db"
    assert got.rows(OPS) == [
        (
            call,
            path if name == "/srv/job/in.db" else name,
            fd,
            pos,
            length,
            result,
            error,
            dur if took else None,
        )
        for call, name, fd, pos, length, result, error, dur in ROWS
    ]
    starts = [ts for (ts,) in got.rows("SELECT ts FROM file_op ORDER BY ts")]
    steps = [(after - before) // 1000 for before, after in itertools.pairwise(starts)]
    assert got.fact("time_base") == ("absolute" if times == "-ttt" else "relative")
    if times in ("-ttt", "-tt"):
        assert steps == [1000] * 6 + [1000, 2000]
    else:
        assert steps == [1] * 7 + [2]
    if times == "-ttt":
        assert starts[0] == 1_700_000_000_001_000_000
    assert got.rows("SELECT pid, name, ended, status, cmd FROM process") == [
        (100 if pid else 0, "app", "exit", 0, "app -x")
    ]


def test_midnight(bring):
    got = bring(
        '23:59:59.900000 read(3, "", 10) = 10\n'
        '00:00:00.100000 read(3, "", 10) = 10\n'
    )  # fmt: skip
    assert got.one("SELECT max(ts) - min(ts) FROM file_op") == 200_000_000
    assert "backwards" not in got.said


def test_unfinished_and_resumed(bring):
    got = bring(
        '[pid 7] 1700000000.000000 openat(AT_FDCWD, "/a", O_RDONLY) = 3\n'
        "[pid 7] 1700000000.000010 read(3,  <unfinished ...>\n"
        '[pid 8] 1700000000.000020 pread64(4, "x"..., 512, 1024 <unfinished ...>\n'
        '[pid 7] 1700000000.000050 <... read resumed>"abc"..., 4096) = 4096\n'
        "[pid 8] 1700000000.000060 <... pread64 resumed>) = -1 EIO (Input/output error) <0.000030>\n"
        "[pid 8] 1700000000.000070 <... write resumed>) = 3\n"
        "[pid 7] 1700000000.000080 fsync(3 <unfinished ...>\n"
        "[pid 7] 1700000000.000090 +++ killed by SIGKILL +++\n"
    )
    assert got.rows("SELECT call, pos, length, result, errno, dur FROM file_op ORDER BY ts") == [
        ("open", None, None, 3, 0, None),
        ("read", 0, 4096, 4096, 0, 40_000),
        # -T is more exact than the two lines' times
        ("pread", 1024, 512, -1, 5, 30_000),
        ("fsync", None, None, None, 0, None),
    ]
    assert got.fact("skipped") == "0", got.said
    assert got.fact("unfinished") == "1"
    assert got.rows("SELECT ended FROM process WHERE pid = 7") == [("killed",)]


def test_a_number_closed_in_one_thread_is_another_threads_file(bring):
    got = bring(
        '1 1700000000.000001 openat(AT_FDCWD, "/old", O_RDONLY) = 3\n'
        "1 1700000000.000002 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2\n"
        "1 1700000000.000003 close(3 <unfinished ...>\n"
        '2 1700000000.000004 openat(AT_FDCWD, "/new", O_RDONLY) = 3\n'
        "1 1700000000.000005 <... close resumed>) = 0\n"
        '2 1700000000.000006 read(3, "", 5) = 5\n'
    )
    assert got.rows("SELECT call, path FROM file_op LEFT JOIN file USING (node, file) WHERE call IN ('close', 'read') ORDER BY ts") == [
        ("close", "/old"), ("read", "/new"),
    ]  # fmt: skip
    assert got.rows("SELECT count(DISTINCT process), count(*) FROM thread") == [(1, 2)]


def test_fork_shares_the_position_and_exec_closes(bring):
    got = bring(
        '1 1700000000.000001 openat(AT_FDCWD, "/a", O_RDONLY) = 3\n'
        '1 1700000000.000002 openat(AT_FDCWD, "/b", O_RDONLY|O_CLOEXEC) = 4\n'
        "1 1700000000.000003 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>\n"
        '2 1700000000.000004 read(3, "", 100) = 100\n'
        "1 1700000000.000005 <... clone resumed>, child_tidptr=0x7f) = 2\n"
        '1 1700000000.000006 read(3, "", 100) = 100\n'
        '2 1700000000.000007 execve("/bin/cat", ["cat"], 0x7f /* 1 var */) = 0\n'
        '2 1700000000.000008 read(4, "", 1) = -1 EBADF (Bad file descriptor)\n'
        '2 1700000000.000009 read(3, "", 1) = 1\n'
    )
    assert got.rows("SELECT path, pos FROM file_op LEFT JOIN file USING (node, file) WHERE call = 'read' ORDER BY ts") == [
        ("/a", 0), ("/a", 100), (None, None), ("/a", 200),
    ]  # fmt: skip
    # the first image, its child by fork, what that exec'd
    assert got.rows("SELECT pid, name, ended FROM process ORDER BY start_ts") == [
        (1, "pid 1", "running"), (2, "pid 2", "exec"), (2, "cat", "running"),
    ]  # fmt: skip


def test_pipes_sockets_terminals_and_waits_are_waits(bring):
    got = bring(
        "1 1700000000.000001 pipe2([3, 4], O_CLOEXEC) = 0\n"
        '1 1700000000.000002 write(4, "x", 1) = 1\n'
        '1 1700000000.000003 read(3, "x", 10) = 1\n'
        "1 1700000000.000004 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 5\n"
        '1 1700000000.000005 sendto(5, "hello", 5, 0, NULL, 0) = 5\n'
        "1 1700000000.000006 futex(0x7f00, FUTEX_WAIT_PRIVATE, 2, NULL) = 0\n"
        "1 1700000000.000007 futex(0x7f00, FUTEX_WAKE_PRIVATE, 1) = 1\n"
        "1 1700000000.000008 wait4(-1, [{WIFEXITED(s)}], 0, NULL) = 9\n"
        '1 1700000000.000009 read(0</dev/pts/0<char 136:0>>, "q", 1) = 1\n'
        "1 1700000000.000010 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=1, tv_nsec=5}, NULL) = 0\n"
        '1 1700000000.000011 read(6<TCP:[10.0.0.1:5->10.0.0.2:80]>, "", 9) = 9\n'
    )
    assert got.fact("skipped") == "0", got.said
    rows = got.rows("SELECT call, kind, fd, length, result FROM sync_op ORDER BY ts")
    assert rows == [
        ("write", "pipe", 4, 1, 1),
        ("read", "pipe", 3, 10, 1),
        ("send", "socket", 5, 5, 5),
        ("futex", "lock", None, None, 0),
        ("wait", "process", None, None, 9),
        ("read", "terminal", 0, 1, 1),
        ("sleep", "sleep", None, 1_000_000_005, 0),
        ("read", "socket", 6, 9, 9),
    ]
    # both ends of a pipe are one object
    assert got.one("SELECT count(DISTINCT object) FROM sync_op WHERE kind = 'pipe'") == 1
    assert got.rows("SELECT count(*) FROM file_op") == [(0,)]


def test_paths_descriptors_and_ranges_of_other_calls(bring):
    got = bring(
        '1 1700000000.000001 chdir("/w") = 0\n'
        '1 1700000000.000002 mkdir("d", 0777) = 0\n'
        '1 1700000000.000003 renameat2(AT_FDCWD, "d", AT_FDCWD, "/e", 0) = 0\n'
        '1 1700000000.000004 unlinkat(AT_FDCWD, "/e", AT_REMOVEDIR) = 0\n'
        '1 1700000000.000005 open("\\303\\244\\"b", O_RDWR|O_APPEND) = 3\n'
        "1 1700000000.000006 fallocate(3, 0, 4096, 8192) = 0\n"
        '1 1700000000.000007 writev(3, [{iov_base="a", iov_len=5}, {iov_base="b", iov_len=6}], 2) = 11\n'
        "1 1700000000.000008 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0x1000) = 0x7f0000000000\n"
        '1 1700000000.000009 newfstatat(3, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0\n'
        "1 1700000000.000010 dup2(3, 9) = 9\n"
        "1 1700000000.000011 ftruncate(9, 100) = 0\n"
    )
    assert got.fact("skipped") == "0", got.said
    assert got.rows(
        "SELECT call, path, pos, length FROM file_op LEFT JOIN file USING (node, file) ORDER BY ts"
    ) == [
        ("chdir", "/w", None, None),
        ("mkdir", "/w/d", None, None),
        ("rename", "/w/d", None, None),
        ("rmdir", "/e", None, None),
        ("open", '/w/ä"b', None, None),
        ("fallocate", '/w/ä"b', 4096, 8192),
        ("writev", '/w/ä"b', None, 11),  # appended: at the end, wherever that is
        ("mmap", '/w/ä"b', 4096, 8192),
        ("fstat", '/w/ä"b', None, None),
        ("dup", '/w/ä"b', None, None),
        ("truncate", '/w/ä"b', None, 100),
    ]
    assert got.one("SELECT result FROM file_op WHERE call = 'mmap'") == 0x7F0000000000


def test_bad_lines_are_counted_and_shown(bring):
    lines = TRACE.splitlines(keepends=True)
    lines.insert(3, '100 99999999999999.000000 read(3</srv/job/in.db>, "", 1) = 1 <0.000001>\n')
    lines.insert(5, "what is this\n")
    got = bring("".join(lines) + '100 1700000000.013000 write(1, "cut o')
    assert got.fact("skipped") == "3"
    assert "trace:4: not understood" in got.said
    assert "trace:6: not understood: 'what is this'" in got.said
    assert "cut off" in got.said
    assert len(got.rows(OPS)) == len(ROWS)


def test_times_that_go_backwards_are_kept(bring):
    got = bring('1 1700000001.000000 read(3, "", 1) = 1\n1 1700000000.000000 read(3, "", 1) = 1\n')
    assert "times go backwards 1 times" in got.said
    assert got.one("SELECT max(ts) - min(ts) FROM file_op") == 10**9


def test_io_uring_is_said_to_be_unseen(bring):
    got = bring(
        "1 1700000000.000001 io_uring_enter(4, 1, 0, 0, NULL, 8) = 1\n1 1700000000.000002 fsync(3) = 0\n"
    )
    assert got.rows("SELECT kind, amount FROM unseen") == [("io_uring_enter", 1)]


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("options", ["-f -ttt -T -y", "-f -tt", "-f", "-f -r -T -yy"])
def test_a_program_traced_now(bring, tmp_path, options):
    out, data = tmp_path / "out", tmp_path / "data"
    data.write_bytes(bytes(10_000))
    command = f"head -c 7000 {data} | wc -c; cat {data} > {data}.copy"
    done = subprocess.run(["strace", *options.split(), "-o", out, "sh", "-c", command], capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    got = bring(out)
    assert got.fact("skipped") == "0", got.said
    read = "SELECT sum(result) FROM file_op JOIN file USING (node, file) WHERE call = 'read' AND path = '{}'"
    written = "SELECT max(pos + result) FROM file_op JOIN file USING (node, file) WHERE call IN ('write', 'copy_file_range') AND {}"
    assert got.one(read.format(data)) >= 7_000
    if got.one("SELECT count(*) FROM file_op WHERE call = 'copy_file_range'") == 0:
        assert got.one(written.format(f"path = '{data}.copy'")) == 10_000


def test_several_files_are_processes_by_their_names(bring, tmp_path):
    """strace -ff writes NAME.PID, without pids in the lines; compressed or not."""
    line = '1700000000.00000{} openat(AT_FDCWD, "/{}", O_RDONLY) = 3 <0.000001>\n'
    (tmp_path / "app.7").write_text(line.format(1, "a") * 20_000)
    (tmp_path / "app.8.gz").write_bytes(gzip.compress(line.format(2, "b").encode() + b"what is this\n"))
    got = bring("strace", tmp_path / "app.7", tmp_path / "app.8.gz")
    assert got.rows("SELECT pid, tid FROM thread ORDER BY ALL") == [(7, 7), (8, 8)]
    assert got.rows("SELECT path, count(*) FROM file_op JOIN file USING (node, file) GROUP BY 1 ORDER BY 1") == [
        ("/a", 20_000), ("/b", 1),
    ]  # fmt: skip
    assert got.fact("lines") == "20002"
    assert "app.8.gz:2: not understood: 'what is this'" in got.said


def test_ids_are_those_of_all_importers(bring):
    got = bring(TRACE)
    process = process_id("trace", 100)
    assert got.rows("SELECT process, thread FROM thread") == [(process, thread_id(process, 100))]
    assert (file_id("/srv/job/in.db"),) in got.rows("SELECT file FROM file")


def test_strict_stops_at_the_first_line_and_leaves_nothing(bring, tmp_path):
    with pytest.raises(TraceError, match=r"trace:201: not understood: 'what is this'"):
        # much behind it, which nobody reads any more
        bring(TRACE.splitlines(keepends=True)[2] * 200 + "what is this\n" + TRACE * 20_000, strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_a_reader_that_dies_is_said(bring, tmp_path, native, monkeypatch):
    """Whenever it dies and whatever it leaves half written: a message, no trail, no wait without end."""
    fake = tmp_path / "fake"
    text = TRACE * 20_000
    for dies, says in [
        ("exit 7", "its reader ended with status 7"),
        ("head -c 5000000 >/dev/null; echo 'iotrail: error: out of luck' >&2; exit 1", "out of luck"),
        (f"exec {native} \"$@\" | head -c 100000", "the trace can't be read"),
    ]:  # fmt: skip
        fake.write_text(f'#!/bin/sh\n[ "$1" = strace ] || exec {native} "$@"\n{dies}\n')
        fake.chmod(0o755)
        monkeypatch.setenv("IOTRAIL_NATIVE", str(fake))
        with pytest.raises(IotrailError, match=says):
            bring("strace", text)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fake", "trace"]


def test_a_broken_archive_is_refused(bring, tmp_path):
    whole = gzip.compress(TRACE.encode() * 50_000)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match="its gzip data is broken or cut off"):
        bring("strace", tmp_path / "cut.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["cut.gz"]


def test_ctrl_c_ends_all_and_leaves_nothing(tmp_path):
    """The terminal's signal reaches the command, its reader and its writer at once."""
    path = {"PYTHONPATH": str(Path(importers.__file__).parents[2])}
    (tmp_path / "whole").write_text(TRACE * 120_000)
    running = subprocess.Popen(
        [sys.executable, "-m", "iotrail", "import", "strace", "whole"],
        cwd=tmp_path,
        env={**os.environ, **path},
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    # rows are on their way
    while not list(tmp_path.glob(".whole.trail.*/**/*.parquet*")):
        assert running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_attributes_of_a_pipe_are_of_no_file(bring):
    got = bring("strace", '1 newfstatat(0<pipe:[5]>, "", {st_mode=S_IFIFO|0600, ...}, AT_EMPTY_PATH) = 0\n')
    assert got.rows("SELECT call, file, fd FROM file_op") == [("fstat", None, 0)]
