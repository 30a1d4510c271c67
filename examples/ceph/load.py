#!/usr/bin/python3
"""Clients of a CephFS, many in one process, each with a session of its own (libcephfs): what the case studies run.

Debian's python3-cephfs is for Debian's Python, so this file is run by /usr/bin/python3. CEPH_CONF says which
cluster. Prints one JSON object: operations, seconds, and mean and percentiles of their latency in microseconds.

    load.py shared  --clients 80 --seconds 20 --bytes 1000    all write small pieces of one file
    load.py own     --clients 32 --seconds 20 --bytes 1048576 each writes a file of its own
    load.py tree    --clients 50 --files 40                   each makes a tree of files, walks it and reads it
    load.py crowd   --clients 200 --opens 11000               all open files of one directory at once

The client's cache is off, as in section 6 of UCSC-SSRC-07-05: each write waits for the OSDs.
"""

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable

import cephfs

FILES_OF_THE_CROWD = 20


class Client:
    """A session, and how long its operations took."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.latencies: list[float] = []
        self.fs = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"])
        self.fs.conf_set("client_oc", "false")
        # A socket for each: the agent samples them all. $cctid tells those of one process apart.
        folder = os.path.join(os.path.dirname(os.environ["CEPH_CONF"]), "run")
        self.fs.conf_set("admin_socket", f"{folder}/$name.$pid.$cctid.asok")
        self.fs.mount()

    def timed(self, operation: Callable[[], object]) -> None:
        """Do it, and note how long it took."""
        began = time.perf_counter()
        operation()
        self.latencies.append(time.perf_counter() - began)


def directory(client: Client, path: str) -> None:
    """Make a directory if there is none."""
    with contextlib.suppress(cephfs.ObjectExists):
        client.fs.mkdir(path, 0o755)


def write(client: Client, path: str, size: int, offset: int, span: int, until: float) -> None:
    """Write pieces of a file, over and over the same span."""
    file = client.fs.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    piece, at = b"x" * size, 0
    while time.monotonic() < until:
        place = offset + at % span
        client.timed(lambda place=place: client.fs.write(file, piece, place))  # type: ignore[misc]
        at += size
    client.fs.close(file)


def tree(client: Client, files: int) -> None:
    """A tree of directories and files: make it, walk it, read it."""
    top = f"/tree{client.number}.{os.getpid()}"
    client.timed(lambda: client.fs.mkdir(top, 0o755))
    for number in range(files):
        folder = f"{top}/d{number % 8}"
        if number < 8:
            client.timed(lambda folder=folder: client.fs.mkdir(folder, 0o755))  # type: ignore[misc]
        client.timed(lambda path=f"{folder}/f{number}": touch(client, path))  # type: ignore[misc]
    for number in range(min(files, 8)):
        folder = f"{top}/d{number}"
        client.timed(lambda folder=folder: walk(client, folder))  # type: ignore[misc]


def touch(client: Client, path: str) -> None:
    """Make an empty file."""
    client.fs.close(client.fs.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def walk(client: Client, folder: str) -> None:
    """List a directory and look at each of its files."""
    handle = client.fs.opendir(folder)
    entry = client.fs.readdir(handle)
    names = []
    while entry is not None:
        names.append(os.fsdecode(entry.d_name))
        entry = client.fs.readdir(handle)
    client.fs.closedir(handle)
    for name in names:
        if name not in (".", ".."):
            client.fs.stat(f"{folder}/{name}")


def crowd(client: Client, opens: int) -> None:
    """Open files of one directory to write: each open is the MDS's to decide."""
    for number in range(opens):
        path = f"/crowd/f{(client.number + number) % FILES_OF_THE_CROWD}"
        client.timed(lambda path=path: touch(client, path))  # type: ignore[misc]


def main() -> int:
    """Make the clients, run them together, say what they saw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("shared", "own", "tree", "crowd"))
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--opens", type=int, default=11_000)
    parser.add_argument("--directory", default="/", help="where files are written")
    given = parser.parse_args()
    clients = [Client(number) for number in range(given.clients)]
    directory(clients[0], "/crowd")
    if given.directory != "/":
        directory(clients[0], given.directory)
    print(f"{given.clients} clients", file=sys.stderr, flush=True)
    until = time.monotonic() + given.seconds
    share = 4 << 20

    def run(client: Client) -> None:
        if given.kind == "shared":
            # All of it is one object, and so of one primary OSD.
            span = max(given.bytes, share // given.clients // given.bytes * given.bytes)
            write(client, f"{given.directory}/shared", given.bytes, client.number * span % share, span, until)
        elif given.kind == "own":
            path = f"{given.directory}/own{client.number}.{os.getpid()}"
            write(client, path, given.bytes, 0, 64 << 20, until)
        elif given.kind == "tree":
            tree(client, given.files)
        else:
            crowd(client, given.opens // given.clients)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    latencies = sorted(latency for client in clients for latency in client.latencies)
    for client in clients:
        client.fs.shutdown()
    count = len(latencies)
    print(
        json.dumps(
            {
                "kind": given.kind,
                "clients": given.clients,
                "operations": count,
                "seconds": round(seconds, 3),
                "mean_us": round(sum(latencies) / max(count, 1) * 1e6, 1),
                "p50_us": round(latencies[count // 2] * 1e6, 1) if count else None,
                "p99_us": round(latencies[count * 99 // 100] * 1e6, 1) if count else None,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
