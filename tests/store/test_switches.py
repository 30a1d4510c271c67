"""Seeded faults are in the records, exactly where they were set."""

import subprocess

from .cluster import EXAMPLE, Store
from .test_records import merged

BINARY = EXAMPLE.parent.parent / "target" / "release" / "store"
WRITES = 11
DELAY_MS = 20


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
