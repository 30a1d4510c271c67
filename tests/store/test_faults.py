"""Daemons and disks fail; data that was acknowledged doesn't."""

import os
import re
from pathlib import Path

from .cluster import Store

FILES = 24
SMALL = ("--no-trace", "--head", "--cache=256K", "--node", "--cache=128K", "--node", "--size=64M")


def content(n: int, version: int) -> bytes:
    """A file's bytes, no two blocks alike."""
    return b"".join(f"{n} {version} {at}".encode().ljust(512, b".") for at in range(8 * 40))


def write(path: Path, data: bytes) -> None:
    """Write a file; when this returns it is on the nodes."""
    with open(path, "wb") as file:
        file.write(data)
        os.fsync(file.fileno())


def overwrite(path: Path, data: bytes) -> None:
    """As `write`, without the file beginning anew."""
    with open(path, "r+b") as file:
        file.write(data)
        os.fsync(file.fileno())


def test_data_outlives_the_cluster(store: Store) -> None:
    store.up(*SMALL)
    for n in range(FILES):
        write(store.mount / f"{n}", content(n, 1))
    (store.mount / "not-synced").write_bytes(content(0, 7))
    assert store.down().returncode == 0
    store.up()
    for n in range(FILES):
        assert (store.mount / f"{n}").read_bytes() == content(n, 1)
    assert (store.mount / "not-synced").read_bytes() == content(0, 7)
    # Killed all at once, what was synced is there.
    for n in range(FILES):
        overwrite(store.mount / f"{n}", content(n, 2))
    for name in ("head", "mds", "node-1", "node-2", "node-3"):
        store.kill(name)
    store.up()
    for n in range(FILES):
        assert (store.mount / f"{n}").read_bytes() == content(n, 2)


def test_a_node_that_missed_writes_never_serves_old_data(store: Store) -> None:
    store.up(*SMALL)
    for n in range(FILES):
        write(store.mount / f"{n}", content(n, 1))
    store.kill("node-2")
    for n in range(FILES):
        overwrite(store.mount / f"{n}", content(n, 2))
    # Files that begin while it is away go to the others.
    write(store.mount / "new", content(99, 2))
    store.up()
    # Asks all nodes: the head knows that it is back.
    assert os.statvfs(store.mount).f_bfree > 0
    for _ in range(3):
        for n in range(FILES):
            assert (store.mount / f"{n}").read_bytes() == content(n, 2)
    # One that begins anew has both of its replicas again: either may be lost.
    for n in range(FILES):
        write(store.mount / f"{n}", content(n, 3))
    for lost in ("node-2", "node-1", "node-3"):
        store.kill(lost)
        for n in range(FILES):
            assert (store.mount / f"{n}").read_bytes() == content(n, 3)
        assert (store.mount / "new").read_bytes() == content(99, 2)
        store.up()
        assert os.statvfs(store.mount).f_bfree > 0


def test_a_bad_block_is_served_by_the_other_replica(store: Store) -> None:
    store.up(*SMALL)
    for n in range(FILES):
        write(store.mount / f"{n}", content(n, 1))
    assert store.down().returncode == 0
    disk = store.directory / "node-1" / "disk"
    blocks = [found.start() for found in re.finditer(rb"\d+ 1 0\.", disk.read_bytes())]
    assert blocks
    with open(disk, "r+b") as file:
        for at in blocks:
            file.seek(at + 300)
            file.write(b"!")
    store.up()
    for _ in range(3):
        for n in range(FILES):
            assert (store.mount / f"{n}").read_bytes() == content(n, 1)
    assert "its checksum is not that of what was written" in store.log("node-1")


def test_without_any_replica_a_write_fails_and_is_not_lost(store: Store) -> None:
    store.up(*SMALL, "--nodes", "2", "--replicas", "1")
    write(store.mount / "a", content(1, 1))
    write(store.mount / "b", content(2, 1))
    for name in ("node-1", "node-2"):
        store.kill(name)
    fds = [os.open(store.mount / name, os.O_RDWR) for name in "ab"]
    for n, fd in enumerate(fds, start=1):
        os.pwrite(fd, content(n, 2)[:8192], 0)
        try:
            os.fsync(fd)
        except OSError:
            continue
        raise AssertionError("fsync succeeded without a node")
    store.up()
    for n, fd in enumerate(fds, start=1):
        os.fsync(fd)
        os.close(fd)
        expected = content(n, 2)[:8192] + content(n, 1)[8192:]
        assert (store.mount / "ab"[n - 1]).read_bytes() == expected
