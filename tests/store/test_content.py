"""What is read is what was written, whatever happened in between."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import Store
from .programs.shared_records import RECORD, RECORDS, content

PROGRAMS = Path(__file__).parent / "programs"
# Caches of 64 and 32 blocks, and a flusher that never rests: everything is evicted, and flushed while it is
# written.
SMALL = ("--no-trace", "--head", "--cache=256K", "--node", "--cache=128K", "--head", "--flush-every=5")


def run_all(commands: list[list[str | Path]]) -> None:
    """Run programs at once; all succeed."""
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [program.communicate()[1] for program in running]
    assert [program.returncode for program in running] == [0] * len(running), "\n".join(errors)


def test_random_io_is_as_on_a_local_file(store: Store, tmp_path: Path) -> None:
    store.up(*SMALL)
    local = tmp_path / "local"
    local.mkdir()
    program = [sys.executable, PROGRAMS / "random_io.py"]
    run_all([[*program, seed, "600", store.mount, local] for seed in ("one", "two", "three")])
    here, there = sorted(path.name for path in local.iterdir()), sorted(os.listdir(store.mount))
    assert here == there
    # and again, from the nodes, after all is written back
    assert store.down().returncode == 0
    store.up()
    for name in here:
        assert (store.mount / name).read_bytes() == (local / name).read_bytes(), name


def test_writers_of_one_file_keep_their_bytes(store: Store) -> None:
    store.up(*SMALL)
    file, rounds = store.mount / "shared", 3
    program = [sys.executable, PROGRAMS / "shared_records.py", file]
    run_all([[*program, str(own), "3", str(rounds)] for own in range(3)])
    assert file.read_bytes() == b"".join(content(record, rounds - 1) for record in range(RECORDS))
    assert file.stat().st_size == RECORD * RECORDS


def test_fio_verifies_what_it_wrote(store: Store) -> None:
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("no fio")
    store.up(*SMALL)
    job = "--name=verify --rw=randrw --bsrange=512-64k --bs_unaligned --size=3M --numjobs=3 --randseed=7"
    check = "--verify=crc32c --verify_fatal=1 --do_verify=1 --fsync=40 --ioengine=psync --group_reporting"
    done = subprocess.run(
        [fio, *job.split(), *check.split(), f"--directory={store.mount}", "--verify_state_save=0"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_as_on_a_local_file_system(store: Store) -> None:
    store.up(*SMALL)
    top = store.mount
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "file").write_text("text")
    os.link(top / "a" / "file", top / "a" / "b" / "link")
    os.symlink("file", top / "a" / "symlink")
    assert (top / "a" / "file").stat().st_nlink == 2
    assert (top / "a" / "symlink").read_text() == "text"
    assert (top / "a").stat().st_nlink == 3
    with pytest.raises(OSError, match="not empty"):
        os.rmdir(top / "a")
    with pytest.raises(IsADirectoryError):
        os.rename(top / "a" / "file", top / "a" / "b")
    os.rename(top / "a" / "b", top / "c")
    assert ((top / "a").stat().st_nlink, top.stat().st_nlink) == (2, 4)
    (top / "a" / "other").write_text("other")
    os.rename(top / "a" / "other", top / "a" / "file")
    assert (top / "a" / "file").read_text() == "other"
    assert (top / "c" / "link").stat().st_nlink == 1
    os.utime(top / "c" / "link", ns=(5, 7_000_000_001))
    os.chmod(top / "c" / "link", 0o600)
    os.chown(top / "c" / "link", 3, 4)
    many = [f"{n:04}" for n in range(1000)]
    for name in many:
        (top / "c" / name).touch()
    # each is listed once, also while others are removed
    with os.scandir(top / "c") as entries:
        listed = []
        for entry in entries:
            listed.append(entry.name)
            if entry.name != "link":
                os.unlink(entry.path)
    assert sorted(listed) == [*many, "link"]
    assert store.down().returncode == 0
    store.up()
    link = (top / "c" / "link").stat()
    assert (link.st_mtime_ns, link.st_mode & 0o777, link.st_uid, link.st_gid) == (7_000_000_001, 0o600, 3, 4)
    assert (top / "c" / "link").read_text() == "text"
    shutil.rmtree(top / "a")
    shutil.rmtree(top / "c")
    assert os.listdir(top) == []
