"""A recorder without room: the program is unharmed, and every call is in the trail or counted as missing from it."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from .recording import Recording, Trail, new_book

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


def test_more_processes_than_descriptors(build, native, tmp_path):
    """The recorder may open fewer files than processes run at once: it reads what each of them recorded."""
    book, out, work = tmp_path / "book", tmp_path / "t.trail", tmp_path / "work"
    work.mkdir()
    new_book(book, 10_000)
    record = [native, "record", "-o", out, "--", build("life.c"), work, "crowd"]
    done = subprocess.run(
        ["/bin/sh", "-ec", f"ulimit -n 48; exec {shlex.join(map(str, record))}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "WITNESS": str(book)},
    )
    assert done.returncode == 0, done.stderr
    Recording(out, done.returncode, done.stdout, done.stderr, book).assert_exact()


def test_no_space_for_the_trail(build, native, tmp_path):
    """The trail's file system is full: the program is unharmed; with space again, `trail check` adds every call."""
    small, work = tmp_path / "small", tmp_path / "work"
    small.mkdir()
    work.mkdir()
    out = small / "t.trail"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", small], check=True)

    def run(*command):
        return subprocess.run([native, *command], check=False, capture_output=True, text=True, timeout=120)

    try:
        done = run("record", "-o", out, "--", build("life.c"), work, "much", "200003")
        assert (done.returncode, done.stdout) == (0, "unharmed\n")
        assert "No space left" in done.stderr and "trail check" in done.stderr, done.stderr
        still = run("trail", "check", out)
        assert still.returncode == 1 and still.stderr.startswith("iotrail: error:"), still.stderr
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        checked = run("trail", "check", out)
        assert checked.returncode == 0, checked.stderr
        trail = Trail(out)
        assert trail.missing() == 0
        # 200,003 of the scenario and 7 of its thread's.
        assert trail.value("SELECT count(*) FROM op WHERE call = 'pwrite'") == 200_010
    finally:
        subprocess.run(["umount", small], check=True)


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


def test_little_address_space(build, record, work):
    """A program that limits its address space while it runs: its later threads and children too."""
    run = record([build("life.c"), work, "little-address-space"], notes=10_000)
    assert run.status == 0, run.stderr
    assert run.trail.value("SELECT count(*) FROM op") + run.trail.missing() == len(run.notes)
