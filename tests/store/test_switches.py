"""Seeded faults are in the records, exactly where they were set."""

import pwd
import subprocess
import sys
from pathlib import Path

from .cluster import EXAMPLE, Store
from .test_records import merged

BINARY = EXAMPLE.parent.parent / "target" / "release" / "store"
WRITES = 11
DELAY_MS = 20
WRITE = "import os; fd = os.open('file', os.O_CREAT | os.O_WRONLY); os.write(fd, b'x' * 9000); os.fsync(fd)"


def test_seeded_faults_are_seen(store: Store) -> None:
    store.up("--nodes", "2", "--head", "--fault=extra-rpc=mkdir", "--head", "--flush-every=3600000")
    for name, fault in (
        ("node-1", f"slow-disk={DELAY_MS}"),
        ("node-2", f"slow=WRITE={DELAY_MS}"),
        ("head", "extra-rpc=write"),
    ):
        subprocess.run([BINARY, "fault", store.addresses[name], fault], check=True)
    (store.mount / "directory").mkdir()
    with open(store.mount / "file", "wb", buffering=0) as file:
        for _ in range(WRITES):
            file.write(b"x" * 5000)
    subprocess.run([BINARY, "fault", store.addresses["head"], "none"], check=True)
    with open(store.mount / "file", "ab", buffering=0) as file:
        file.write(b"x")
    assert store.down().returncode == 0
    trail = merged(store)
    extra = trail.rows_of("""
        SELECT request.op, COUNT(*) AS n FROM service_op AS call
        JOIN stitch ON stitch.node = call.node AND stitch.crumb = call.crumb
        JOIN service_op AS request ON request.node = stitch.parent_node
            AND request.crumb = stitch.parent_crumb AND request.kind = 'server'
        WHERE call.op = 'GETATTR' AND call.kind = 'client' AND request.op IN ('mkdir', 'write')
        GROUP BY ALL""")
    assert {row["op"]: row["n"] for row in extra} == {"mkdir": 1, "write": WRITES}
    # A delay is waited for where it was set: at least so long.
    (disk,) = trail.rows_of("""
        SELECT MIN(ts + dur - issued) AS ns FROM disk_op WHERE node = 'node-1' AND op = 'write'""")
    (edge,) = trail.rows_of("""
        SELECT MIN(first.ts - served.ts) AS ns FROM service_op AS served
        JOIN (SELECT node, crumb, MIN(ts) AS ts FROM disk_op GROUP BY ALL) AS first USING (node, crumb)
        WHERE served.node = 'node-2' AND served.op = 'WRITE' AND served.kind = 'server'""")
    assert disk["ns"] >= DELAY_MS * 1_000_000 and edge["ns"] >= DELAY_MS * 1_000_000


def test_wrong_faults_are_refused() -> None:
    for wrong in ("slow=READ", "slow=READ=x", "slow-disk", "extra-rpc", "fast"):
        done = subprocess.run(
            [BINARY, "fault", "127.0.0.1:1", wrong], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2 and "expected" in done.stderr, done.stderr


def test_files_of_a_user_are_where_they_are_placed(store: Store) -> None:
    """Those of root on two nodes, all others' on as many as ever."""
    other = pwd.getpwnam("daemon")
    store.up("--nodes", "3", "--replicas", "1", "--mds", "--place=root=node-1,node-3")
    for name, user in (*((f"root-{n}", None) for n in range(4)), *((f"daemon-{n}", other) for n in range(4))):
        folder = store.mount / f"of-{name}"
        folder.mkdir()
        folder.chmod(0o777)
        command = [sys.executable if user is None else "/usr/bin/python3", "-c", WRITE]
        subprocess.run(command, check=True, cwd=folder, user=None if user is None else user.pw_uid)
    assert store.down().returncode == 0
    found = merged(store).rows_of("""
        SELECT o.client, COUNT(DISTINCT f.file) AS files, COUNT(*) AS writes, LIST(DISTINCT f.node ORDER BY f.node) AS nodes
        FROM service_op AS f
        JOIN (SELECT file, MIN(client) AS client FROM service_op WHERE op = 'write' AND client IS NOT NULL GROUP BY file) AS o
            ON o.file = f.file
        WHERE f.op = 'WRITE' AND f.kind = 'server' GROUP BY o.client ORDER BY o.client""")
    assert found == [
        {"client": "daemon", "files": 4, "writes": 4, "nodes": ["node-1", "node-2", "node-3"]},
        {"client": "root", "files": 4, "writes": 8, "nodes": ["node-1", "node-3"]},
    ]


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    for place, said in {
        "root=node-7": "there is no node node-7",
        "nobody-of-that-name=node-1": "there is no user nobody-of-that-name",
        "root": "expected USER=NAME,…",
    }.items():
        command = [BINARY, "mds", "--dir", tmp_path, "--node", "node-1", "--replicas", "1", "--place", place]
        done = subprocess.run(
            [*command, "--listen", "127.0.0.1:0"], check=False, capture_output=True, text=True
        )
        assert done.returncode != 0 and said in done.stderr
