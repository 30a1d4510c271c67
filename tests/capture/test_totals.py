"""What a program read and wrote is what the kernel moved for it, in files and nowhere else."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from iotrail.trail import Trail

MILLION = 1_000_000


def _files(run):
    """Name, bytes read and written, of the files of the run's directory, as the summary has them."""
    rows = _one(
        run, "SELECT path, bytes_read, bytes_written, bytes_copied, opens FROM file_summary ORDER BY path"
    )
    return {path.rsplit("/", 1)[-1]: tuple(values) for path, *values in rows}


def _one(run, query):
    return Trail(run.path).query(query).fetchall()


def test_copies_inside_the_kernel_have_two_sides(build, record, work):
    """A copy reads its source and writes its destination, once in time; what goes to a socket is written to no file."""
    run = record([build("totals.c"), "copies", work])
    assert run.status == 0, run.stderr
    files = _files(run)
    assert files["from"][:2] == (3 * MILLION + 30_000, MILLION)
    for name, copied in (("by_range", MILLION), ("by_sendfile", MILLION), ("by_splice", 0)):
        assert files[name][:3] == (0, MILLION, copied), name
    assert not [name for name in files if ":[" in name]
    read, written, calls = _one(run, "SELECT bytes_read, bytes_written, calls FROM overview")[0]
    # The loader's and the C library's own reads aside, which are few.
    assert written == 4 * MILLION
    assert 3 * MILLION + 30_000 <= read < 3 * MILLION + 40_000
    assert _one(run, "SELECT sum(bytes) FROM throughput WHERE kind = 'write'") == [(4 * MILLION,)]
    assert _one(run, "SELECT sum(bytes) FROM cell WHERE kind = 'write'") == [(4 * MILLION,)]
    assert calls == run.trail.value(
        "SELECT sum(o.calls) FROM file_op o LEFT JOIN file f USING (file) WHERE f.path IS NULL OR f.path NOT LIKE '%:[%'"
    )
    assert "wrote 3.8 MiB" in run.stderr
    # The pipe's side of a splice into a file is no file's: its row is the file's, with its place.
    places = run.trail.query("SELECT pos, result FROM file_op WHERE call = 'splice_write' ORDER BY ts")
    assert sum(moved for _, moved in places) == MILLION
    assert [pos for pos, _ in places] == [sum(moved for _, moved in places[:at]) for at in range(len(places))]


@pytest.mark.parametrize("program", ["cp", "cat"])
def test_copying_programs_write(record, work, program):
    """cp and cat by whatever call they choose."""
    (work / "a").write_bytes(bytes(3 * MILLION))
    command = {"cp": "cp --reflink=never a b", "cat": "cat a > b"}[program]
    run = record(["/bin/sh", "-c", command], cwd=work)
    assert run.status == 0, run.stderr
    files = _files(run)
    assert (files["a"][0], files["b"][1]) == (3 * MILLION, 3 * MILLION)
    # Nothing was left behind and nobody asked for durability: there is nothing to find.
    trail = Trail(run.path)
    found = [
        row
        for name in trail.modules
        if name.startswith("finding_")
        for row in trail.query(f"SELECT severity, title FROM {name}").fetchall()
    ]
    assert [title for severity, title in found if severity in ("high", "medium")] == []


def test_a_seek_in_a_stream_reads_what_the_kernel_reads(build, record, work):
    """fseek fills the buffer out of sight of fread: the rows are strace's reads, in number, bytes and places."""
    program = build("totals.c")
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    said = subprocess.run(
        ["strace", "-e", "trace=read", "-P", str(work / "records"), program, "seeks", work],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    reads = [int(moved) for moved in re.findall(r"^read\(.*= (\d+)$", said, re.MULTILINE)]
    assert len(reads) >= 37
    run = record([program, "seeks", work])
    assert run.status == 0, run.stderr
    rows = run.trail.query(
        "SELECT pos, result, length FROM op WHERE call = 'fread' AND path LIKE '%/records' ORDER BY ts"
    )
    assert sum(result for _, result, _ in rows) == sum(reads)
    assert len(rows) == len(reads)
    # Each but the last of these 37 places is in another block than the one before: a jump.
    jumps = _one(
        run, "SELECT sum(jump_ops + strided_ops) FROM step WHERE path LIKE '%/records' AND kind = 'read'"
    )
    assert jumps[0][0] >= 30
    calls = run.trail.value("SELECT sum(calls) FROM op WHERE path LIKE '%/records' AND call LIKE 'f%'")
    assert calls == 1 + 37 + 37 + 1  # fopen, fseek, fread, fclose


def test_a_stream_of_an_open_descriptor_is_no_second_open(build, record, work):
    """fdopen and fdopendir make a stream of what is open already."""
    run = record([build("totals.c"), "opens", work])
    assert run.status == 0, run.stderr
    files = _files(run)
    assert files["stream"][3] == 31
    counts = run.trail.counts()
    assert (counts["fdopen"], counts["fdopendir"], counts["fopen"], counts["opendir"]) == (31, 29, 0, 0)
    left_open = _one(
        run,
        """SELECT sum(CASE WHEN call IN ('close', 'fclose', 'closedir') THEN -ops ELSE ops - failed END) FROM activity
        WHERE call IN ('open', 'fopen', 'opendir', 'close', 'fclose', 'closedir') AND path LIKE '/dev/shm/%'""",
    )
    assert left_open == [(0,)]


def test_channels_are_no_files(build, record):
    """Pipes and sockets are neither among the files nor in their bytes."""
    run = record([build("totals.c"), "channels"])
    assert run.status == 0, run.stderr
    assert not [name for name in _files(run) if ":[" in name]
    files, written = _one(run, "SELECT files, bytes_written FROM overview")[0]
    assert written == 0
    assert f"on {files} file" in run.stderr
    assert run.trail.value("SELECT count(*) FROM sync_op WHERE kind IN ('pipe', 'socket')") == 46


def test_posix_asynchronous_io(build, record, work):
    """Each request has a row, from its submission until the program knew that it was complete."""
    run = record([build("totals.c"), "aio", work])
    assert run.status == 0, run.stderr
    rows = run.trail.query(
        "SELECT call, pos, length, result, errno FROM op WHERE path LIKE '%/aio' AND call LIKE 'aio%' ORDER BY ts, pos"
    )
    assert rows == [
        *[("aio_write", i * 4096, 4096, 4096, 0) for i in range(5)],
        *[("aio_read", i * 1024, 512, 512, 0) for i in range(3)],
        ("aio_fsync", None, None, 0, 0),
        *[("aio_write", 20480 + i * 100, 100, 100, 0) for i in range(2)],
        ("aio_write", 0, 10, -1, 9),
    ]
    assert _files(run)["aio"][:2] == (1536, 20680)
    assert run.trail.unseen() == {}


def test_asynchronous_io_of_the_kernel(build, record, work):
    """io_submit through syscall(): the control block's values at the submission, the event's result."""
    run = record([build("totals.c"), "submit", work])
    if run.status == 77:
        pytest.skip("io_setup is refused here")
    assert run.status == 0, run.stderr
    rows = run.trail.query(
        """SELECT call, pos, length, result FROM op WHERE path LIKE '%/submit' AND call IN ('aio_read', 'aio_write')
        ORDER BY call DESC, pos, ts"""
    )
    assert rows == [
        *[("aio_write", i * 4096, 4096, 4096) for i in range(7)],
        *sorted(("aio_read", i * 8192 % 24576, 1024, 1024) for i in range(5)),
    ]
    assert _files(run)["submit"][:2] == (5120, 28672)
