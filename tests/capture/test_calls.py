"""Every call, in every form libc offers, a prime number of times: counts, results, positions, names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from .recording import new_book, read_book


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def _assert_primes(notes) -> None:
    """Each form was called a prime number of times, another one each, or a count could match by chance."""
    counts = Counter(note.form for note in notes if not note.form.startswith("+"))
    assert counts
    assert all(_is_prime(n) for n in counts.values()), counts


# How each build must call libc for its forms to be tested at all.
CHECKED = {
    "plain": {
        "open",
        "open64",
        "__open_2",
        "pread",
        "pread64",
        "fstatat64",
        "preadv64v2",
    },
    "fortified": {
        "__read_chk",
        "__pread_chk",
        "__pread64_chk",
        "__open_2",
        "__openat_2",
    },
    "large": {"fcntl64", "mkstemp64", "openat64", "fstatvfs64"},
}


@pytest.mark.parametrize("variant", CHECKED)
def test_every_form_of_a_file_call_has_its_row(build, record, work, variant):
    """Each call of the program is one row, with its result, errno, position, length, file and interval."""
    program = build("calls.c", variant)
    assert _imports(program) >= CHECKED[variant]
    run = record([program, work])
    assert run.status == 0, run.stderr
    _assert_primes([n for n in run.notes if not n.form.startswith("readdir")])
    run.assert_exact()


@pytest.mark.parametrize("variant", ["plain", "fortified", "large"])
def test_stdio_rows_add_up_to_the_programs_calls(build, record, work, variant):
    """Rows stand for all stdio calls of the program, and their bytes are those of the files."""
    program = build("stdio.c", variant)
    if variant == "fortified":
        assert _imports(program) >= {"__fread_chk", "__fgets_chk", "__fprintf_chk"}
    run = record([program, work])
    assert run.status == 0, run.stderr
    run.assert_exact()
    written = dict(
        run.trail.query(
            """SELECT parse_filename(path), CAST(sum(result) AS BIGINT) FROM op
            WHERE call IN ('fwrite', 'fflush', 'fclose', 'fseek') AND result > 0 GROUP BY 1"""
        )
    )
    sizes = {path.name: path.stat().st_size for path in work.iterdir()}
    overwritten = {"fseek"}  # written over in place: more bytes than the file has
    assert {k: v for k, v in written.items() if k not in overwritten} == {
        k: v for k, v in sizes.items() if k not in overwritten
    }


@pytest.mark.parametrize("variant", ["plain", "fortified"])
@pytest.mark.parametrize("group", ["channels", "threads", "processes"])
def test_every_wait_has_its_row(build, record, work, group, variant):
    """Each call that waits is one row; locks that nobody held have none."""
    run = record([build("waits.c", variant), work, group])
    assert run.status == 0, run.stderr
    run.assert_exact()
    kinds = {
        "channels": {"pipe", "socket", "poll", "event"},
        "threads": {"lock", "semaphore", "condition", "barrier", "thread"},
        "processes": {"process", "sleep", "signal", "file_lock", "semaphore"},
    }
    assert {kind for (kind,) in run.trail.query("SELECT DISTINCT kind FROM sync_op")} == kinds[group]


def test_errno_and_results_are_what_they_are_unrecorded(build, record, work):
    """A recorded program sees the same results and the same errno after each call, failed or not."""
    program = build("calls.c")
    recorded = record([program, work]).notes
    shutil.rmtree(work)
    work.mkdir()
    book = work.parent / (work.name + ".book")
    new_book(book, 200_000)
    try:
        subprocess.run([program, work], check=True, env={**os.environ, "WITNESS": str(book)})
        alone = read_book(book)
    finally:
        book.unlink()
    addresses = {"mmap", "mmap64", "+mmap"}

    def seen(notes):
        return [(n.form, n.error, None if n.form in addresses else n.result) for n in notes]

    assert seen(recorded) == seen(alone)


def _imports(program) -> set[str]:
    lines = subprocess.run(
        ["nm", "-D", "-u", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


@pytest.mark.parametrize("how", ["openat", "chdir"])
def test_paths_beyond_path_max(record, work, how):
    """Files in directories deeper than a path can be long (PATH_MAX) each have a name of their own."""
    down = {"openat": "at = os.open(name, os.O_RDONLY, dir_fd=at)", "chdir": "os.chdir(name)"}[how]
    where = {"openat": "dir_fd=at", "chdir": "dir_fd=None"}[how]
    program = f"""
import os
os.chdir({str(work)!r})
at = os.open(".", os.O_RDONLY)
name = "d" * 200
for depth in range(30):
    os.mkdir(name, {where})
    {down}
    for one in ("a", "b"):
        fd = os.open(one, os.O_CREAT | os.O_WRONLY, 0o600, {where})
        os.write(fd, b"x" * (depth + 1))
        os.close(fd)
"""
    run = record([sys.executable, "-S", "-c", program])
    subprocess.run(["rm", "-rf", *work.iterdir()], check=True)
    assert run.status == 0, run.stderr
    sums = run.trail.query(
        f"""SELECT path, count(*), sum(result) FROM op WHERE call = 'write' AND path LIKE '{work}/ddd%' GROUP BY path
        ORDER BY sum(result)"""
    )
    assert [(n, moved) for _, n, moved in sums] == [(1, depth + 1) for depth in range(30) for _ in "ab"]
    assert all(len(path) <= 4096 for path, _, _ in sums)
    short = [path for path, _, _ in sums if len(path) < 4000]
    assert {path[-2:] for path in short} == {"/a", "/b"} and len(short) >= 30


def test_paths_below_a_descriptor_of_the_root_directory(record, work):
    """They begin with one slash, each time the descriptor is used."""
    ask = "import os; root = os.open('/', os.O_PATH | os.O_DIRECTORY); [os.close(os.open('etc', 0, dir_fd=root)) for _ in range(3)]"
    run = record([sys.executable, "-c", ask])
    assert run.status == 0, run.stderr
    rows = run.trail.query(
        "SELECT path, count(*) FROM op WHERE call = 'open' AND path LIKE '%/etc' GROUP BY path"
    )
    assert rows == [("/etc", 3)]
