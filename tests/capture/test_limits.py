"""A recorder without room: the program is unharmed, and every call is in the trail or counted as missing from it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .recording import Recording, Trail, new_book

LOST = 125  # the recorder's status where its program succeeded and the recording ends before it

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount small file systems")


def _namespaced(mounts: str, native, out, command, **options):
    """Record in a mount namespace of its own, after `mounts` (shell)."""
    line = f"{mounts}; exec {shlex.join(map(str, [native, 'record', '-o', out, '--', *command]))}"
    return subprocess.run(
        ["unshare", "-m", "/bin/sh", "-ec", line],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.mark.parametrize("size", ["0", "48k", "256k", "1m"])
def test_no_space_for_segments(build, native, tmp_path, size):
    """/dev/shm too small for the control file, a first ring, a grown ring or many threads' rings."""
    book, out, work = tmp_path / "book", tmp_path / "t.trail", tmp_path / "work"
    work.mkdir()
    new_book(book, 10_000)
    # A tmpfs of size 0 has no limit; one without a free block is what is meant.
    mounts = f"mount -t tmpfs -o size={'4k' if size == '0' else size} none /dev/shm"
    if size == "0":
        mounts += "; echo full > /dev/shm/full"
    done = _namespaced(
        mounts,
        native,
        out,
        [build("life.c"), work, "many-threads"],
        env={**os.environ, "WITNESS": str(book)},
    )
    assert done.returncode == 0, done.stderr
    run = Recording(out, done.returncode, done.stdout, done.stderr, book)
    rows = run.trail.value("SELECT count(*) FROM op")
    assert rows + run.trail.missing() == len(run.notes)
    if rows < len(run.notes):
        assert "found no room" in done.stderr, done.stderr


def test_shm_that_cannot_be_written(build, native, tmp_path):
    """Without a usable /dev/shm the session goes elsewhere, and nothing is missing."""
    book, out, work = tmp_path / "book", tmp_path / "t.trail", tmp_path / "work"
    work.mkdir()
    new_book(book, 10_000)
    environment = {**os.environ, "WITNESS": str(book)}
    done = _namespaced(
        "mount -t tmpfs -o ro none /dev/shm",
        native,
        out,
        [build("life.c"), work, "forks"],
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    Recording(out, done.returncode, done.stdout, done.stderr, book).assert_exact()


@pytest.mark.parametrize("limit", ["-n 48", "-v 1500000"])
def test_more_processes_than_the_recorder_has_room_for(build, native, tmp_path, limit):
    """Fewer files or less memory to map than 80 processes at once take: it reads what each of them recorded."""
    book, out, work = tmp_path / "book", tmp_path / "t.trail", tmp_path / "work"
    work.mkdir()
    new_book(book, 10_000)
    record = [native, "record", "-o", out, "--", build("life.c"), work, "crowd"]
    done = subprocess.run(
        ["/bin/sh", "-ec", f"ulimit {limit}; exec {shlex.join(map(str, record))}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "WITNESS": str(book)},
    )
    assert done.returncode == 0, done.stderr
    Recording(out, done.returncode, done.stdout, done.stderr, book).assert_exact()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", small], check=True)
    yield small
    subprocess.run(["umount", small], check=True)


def test_no_space_for_the_trail(build, native, work, small):
    """The trail's file system is full: the program is unharmed; with space again, `trail check` adds every call."""
    out = small / "t.trail"

    def run(*command):
        return subprocess.run([native, *command], check=False, capture_output=True, text=True, timeout=120)

    done = run("record", "-o", out, "--", build("life.c"), work, "much", "200003")
    assert (done.returncode, done.stdout) == (LOST, "unharmed\n")
    for words in ("was stopped", "No space left", "trail check"):
        assert words in done.stderr, done.stderr
    still = run("trail", "check", out)
    assert still.returncode == 1 and still.stderr.startswith("iotrail: error:"), still.stderr
    subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
    checked = run("trail", "check", out)
    assert checked.returncode == 0, checked.stderr
    trail = Trail(out)
    assert trail.missing() == 0
    # 200,003 of the scenario and 7 of its thread's.
    assert trail.value("SELECT count(*) FROM op WHERE call = 'pwrite'") == 200_010


def test_the_end_of_a_recording_that_was_stopped(build, native, work, small):
    """Nothing can be written for a while: what was lost is said, and it is no success."""
    out = small / "t.trail"
    script = f"{build('life.c')} {work} much 200003; mount -o remount,size=64m {small}; sleep 0.3"
    command = [native, "record", "--memory=8M", "-o", out, "--", "/bin/sh", "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (LOST, "unharmed\n")
    assert "writing the trail was stopped" in done.stderr and "No space left" in done.stderr, done.stderr
    assert "is lost" in done.stderr, done.stderr
    trail = Trail(out)
    assert 0 < trail.value("SELECT count(*) FROM op WHERE call = 'pwrite'") < 200_010
    assert trail.unseen()["stopped"] == 1


@pytest.mark.parametrize(
    ("limit", "scenario"),
    [
        ("-v 180000", "small"),
        ("-v 40000", "small"),
        ("-v 400000", "short-threads"),
        ("-f 64", "small"),
        ("-n 16", "small"),
        ("-l 0", "many-threads"),
        ("-s 256", "short-threads"),
    ],
)
def test_resource_limits(build, record, work, limit, scenario):
    """Under limits of address space, file size, descriptors, locked memory and stack: exact, or counted."""
    program = build("life.c")
    # The book must stay small enough to be mapped within the limit.
    run = record(
        ["/bin/sh", "-c", f"ulimit {limit} && exec '{program}' '{work}' {scenario}"],
        notes=10_000,
    )
    assert run.status == 0, run.stderr
    rows = run.trail.value("SELECT count(*) FROM op JOIN process USING (process) WHERE name LIKE 'life-%'")
    missing = run.trail.missing()
    assert rows + missing == len(run.notes)
    if not missing:
        run.assert_exact()
    if limit.startswith("-f"):
        assert "got no memory to record into (ulimit -f)" in run.stderr, run.stderr


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group below this process's own, for memory."""
    line = next(
        line
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if ":memory:" in line or line[:3] == "0::"
    )
    root = Path("/sys/fs/cgroup") / ("memory" if ":memory:" in line else "")
    group = root / line.split(":", 2)[2].strip("/") / f"iotrail-test-{os.getpid()}"
    group.mkdir()
    yield group
    group.rmdir()


@pytest.mark.parametrize("mebibytes", [40, 100])
def test_a_control_group_with_little_memory(native, tmp_path, group, mebibytes):
    """What recording takes by itself leaves room for the program: neither is killed, and each call is there or counted."""
    for name in ("memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        if (group / name).exists():
            (group / name).write_text(str(mebibytes << 20 if "swap" not in name else 0))
    out, work = tmp_path / "t.trail", "dd if=/dev/zero of=/dev/null bs=64 count=600000 status=none"
    script = f"echo $$ > {group}/cgroup.procs; exec {native} record -o {out} -- {work}"
    done = subprocess.run(
        ["/bin/sh", "-ec", script], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    trail = Trail(out)
    assert (
        trail.value("SELECT count(*) FROM op WHERE call IN ('read', 'write')") + trail.missing() >= 1_200_000
    )
    assert int(trail.value("SELECT value FROM recording WHERE name = 'memory'")) <= (mebibytes << 20) // 4


def test_little_address_space(build, record, work):
    """A program that limits its address space while it runs: its later threads and children too."""
    run = record([build("life.c"), work, "little-address-space"], notes=10_000)
    assert run.status == 0, run.stderr
    assert run.trail.value("SELECT count(*) FROM op") + run.trail.missing() == len(run.notes)


@pytest.mark.parametrize("mebibytes", [90, 200, 400])
def test_a_recorder_with_little_address_space(native, tmp_path, mebibytes):
    """`ulimit -v`: what recording maps fits in, and each call is there or counted."""
    for attempt in range(3):
        out, work = (
            tmp_path / f"{attempt}.trail",
            "dd if=/dev/zero of=/dev/null bs=64 count=100000 status=none",
        )
        script = f"ulimit -v {mebibytes << 10}; exec {native} record -o {out} -- {work}"
        done = subprocess.run(
            ["/bin/sh", "-ec", script], check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        trail = Trail(out)
        rows = trail.value("SELECT count(*) FROM op WHERE call IN ('read', 'write')")
        assert rows + trail.missing() >= 200_000
        assert int(trail.value("SELECT value FROM recording WHERE name = 'memory'")) <= (mebibytes << 20) // 4
