"""The records say what happened: all requests, all of their paths, the bytes that the kernel counted."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from iotrail.pruned import RAW
from iotrail.requests import graph
from iotrail.requests.find import Chosen
from iotrail.requests.prune import prune
from iotrail.trail import Trail

from .cluster import Store, bytes_sent, io_of

CLIENT = Path(__file__).parent / "programs" / "client.c"
NODES = ("node-1", "node-2", "node-3")
DAEMONS = ("head", "mds", *NODES)
USERS = ("daemon", "games")
ROUNDS = 24

# From each request at a storage node up to what it works for.
UP = """
    WITH RECURSIVE up(node, crumb, above_node, above) AS (
        SELECT node, crumb, node, crumb FROM service_op WHERE component = 'node' AND kind = 'server'
        UNION
        SELECT up.node, up.crumb, stitch.parent_node, stitch.parent_crumb
        FROM up JOIN stitch ON stitch.node = up.above_node AND stitch.crumb = up.above
    )
"""


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that counts its calls."""
    program = tmp_path_factory.mktemp("client") / "client"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, CLIENT], check=True)
    return program


def run_clients(client: Path, store: Store, killed: str | None = None) -> dict[str, dict[str, int]]:
    """Run a client for each user, and kill a daemon when all are half done. Returns each one's own counts."""
    running = {}
    for user in USERS:
        home = store.mount / user
        home.mkdir()
        home.chmod(0o777)
        command = [client, str(pwd.getpwnam(user).pw_uid), home, str(ROUNDS)]
        running[user] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for program in running.values():
        assert program.stdout is not None and program.stdout.readline() == "half\n"
    if killed is not None:
        store.kill(killed)
    counts = {}
    for user, program in running.items():
        output, _ = program.communicate("\n")
        assert program.returncode == 0
        counts[user] = {op: int(count) for op, count in (line.split() for line in output.splitlines())}
    # Nobody waits for a close's request; one that is asked after it is answered after it has arrived.
    os.statvfs(store.mount)
    return counts


def merged(store: Store) -> Trail:
    """The trail of all daemons."""
    return Trail(store.directory / "store.trail")


def check_complete(trail: Trail, counts: dict[str, dict[str, int]]) -> None:
    """The clients' own counts are the head's, and every record leads up to a request."""
    rows = trail.rows_of("""
        SELECT client, op, COUNT(*) AS n FROM service_op
        WHERE component = 'head' AND kind = 'server' GROUP BY ALL""")
    for user, own in counts.items():
        seen = {row["op"]: row["n"] for row in rows if row["client"] == user}
        assert {op: seen.get(op) for op in own} == own
    # Parents exist: a crumb is known by its own service_op.
    (orphans,) = trail.rows_of("""
        SELECT COUNT(*) AS n FROM stitch WHERE NOT EXISTS (
            SELECT 1 FROM service_op AS parent
            WHERE parent.node = stitch.parent_node AND parent.crumb = stitch.parent_crumb)""")
    assert orphans["n"] == 0
    (strays,) = trail.rows_of(
        UP
        + """SELECT COUNT(*) AS n FROM service_op AS served
        WHERE component = 'node' AND kind = 'server' AND NOT EXISTS (
            SELECT 1 FROM up JOIN service_op AS root
                ON root.node = up.above_node AND root.crumb = up.above AND root.component = 'head'
            WHERE up.node = served.node AND up.crumb = served.crumb
                AND (root.kind = 'server' OR root.op = 'start'))"""
    )
    assert strays["n"] == 0


def check_written(trail: Trail) -> None:
    """Each client's write reaches disks by its path; what is coalesced has it as a parent for all its bytes."""
    (writes,) = trail.rows_of(
        UP
        + """, reached AS (
            SELECT DISTINCT up.above_node AS node, up.above AS crumb
            FROM up JOIN service_op AS served ON served.node = up.node AND served.crumb = up.crumb
                AND served.op = 'WRITE'
            JOIN disk_op ON disk_op.node = up.node AND disk_op.crumb = up.crumb AND disk_op.op = 'write')
        SELECT COUNT(*) AS n, COUNT(reached.crumb) AS reached FROM service_op AS request
        LEFT JOIN reached USING (node, crumb)
        WHERE request.component = 'head' AND request.kind = 'server' AND request.op = 'write'"""
    )
    assert writes["n"] == writes["reached"] > 0
    # One that was written back alone, in part at least, goes on as itself.
    coalesced = trail.rows_of("""
        SELECT request.length AS length, SUM(stitch.weight) AS weight FROM service_op AS request
        JOIN stitch ON stitch.kind = 'coalesce' AND stitch.parent_crumb = request.crumb
            AND stitch.parent_node = request.node
        WHERE request.kind = 'server' AND request.op = 'write' AND NOT EXISTS (
            SELECT 1 FROM service_op AS flush WHERE flush.crumb = request.crumb AND flush.kind = 'internal')
        GROUP BY request.node, request.crumb, request.length""")
    assert coalesced and all(row["weight"] == row["length"] for row in coalesced)


def check_pruned(trail: Trail) -> None:
    """Who used what, and where the time went, is answered from sums as from the records."""

    def answers() -> tuple[object, ...]:
        demand = Trail(trail.path).query(
            "SELECT client, resource, node, component, SUM(n), SUM(time_ns), SUM(bytes), SUM(hits) FROM demand "
            "GROUP BY ALL ORDER BY ALL"
        )
        graphs = [graph.collect(Trail(trail.path), chosen) for chosen in (Chosen(), Chosen(op="write"))]
        return demand.fetchall(), *graphs

    before = answers()
    prune(trail.path, every_ns=60 * 10**9, keep=frozenset({"demand", "graphs"}))
    assert not any(Trail(trail.path).rows[table] for table in RAW)
    assert answers() == before


def test_every_request_has_its_path(client: Path, store: Store) -> None:
    small = ("--head", "--cache=512K", "--node", "--cache=256K", "--mds", "--cache=4K")
    store.up(*small, "--head", "--flush-every=50")
    counts = run_clients(client, store)
    assert store.down().returncode == 0
    trail = merged(store)
    assert {row["node"] for row in trail.rows_of("SELECT DISTINCT node FROM service_op")} == set(DAEMONS)
    check_complete(trail, counts)
    check_written(trail)
    (holes,) = trail.rows_of("""
        SELECT COUNT(*) AS n, COUNT(served.crumb) AS served, COUNT(*) FILTER (call.status <> 0
            AND call.op <> 'LOOKUP') AS failed
        FROM service_op AS call
        LEFT JOIN stitch ON stitch.kind = 'rpc' AND stitch.parent_node = call.node
            AND stitch.parent_crumb = call.crumb
        LEFT JOIN service_op AS served ON served.node = stitch.node AND served.crumb = stitch.crumb
            AND served.kind = 'server' AND served.op = call.op
            AND served.status = call.status
        WHERE call.component = 'head' AND call.kind = 'client'""")
    assert holes["n"] == holes["served"] > 0 and holes["failed"] == 0
    check_pruned(trail)
    seen = trail.rows_of("SELECT DISTINCT component, kind FROM buffer_op")
    kinds = {(row["component"], row["kind"]) for row in seen}
    assert kinds >= {
        *(("head", kind) for kind in ("read_hit", "read_miss", "write", "flush", "evict")),
        *(("node", kind) for kind in ("read_hit", "read_miss", "write", "evict")),
        *(("mds", kind) for kind in ("read_hit", "read_miss", "write", "evict")),
    }


def test_a_killed_node_leaves_holes_only_there(client: Path, store: Store) -> None:
    store.up("--head", "--cache=512K", "--node", "--cache=256K", "--head", "--flush-every=50")
    counts = run_clients(client, store, killed="node-2")
    # It says that one of them had ended before.
    ended = store.down()
    assert ended.returncode == 1 and "node-2 had ended before" in ended.stderr, ended.stderr
    trail = merged(store)
    check_complete(trail, counts)
    holes = trail.rows_of("""
        SELECT sent.receiver, call.status, COUNT(*) AS n
        FROM service_op AS call
        LEFT JOIN network_transmit AS sent ON sent.node = call.node AND sent.crumb = call.crumb
        WHERE call.component = 'head' AND call.kind = 'client' AND NOT EXISTS (
            SELECT 1 FROM stitch
            JOIN service_op AS served ON served.node = stitch.node AND served.crumb = stitch.crumb
                AND served.kind = 'server'
            WHERE stitch.kind = 'rpc' AND stitch.parent_node = call.node AND stitch.parent_crumb = call.crumb)
        GROUP BY ALL""")
    # Sent to the node that was killed, or not sent, because it was gone.
    assert holes and {row["receiver"] for row in holes} <= {"node-2", None}
    assert all(row["status"] != 0 for row in holes if row["receiver"] is None)
    (alive,) = trail.rows_of("SELECT COUNT(*) AS n FROM service_op WHERE node = 'node-2'")
    assert alive["n"] > 0


def test_bytes_are_those_the_kernel_counted(store: Store) -> None:
    store.up("--head", "--cache=1M", "--node", "--cache=1M", "--head", "--flush-every=3600000")
    pids = {name: store.pids(name)[-1] for name in DAEMONS}
    before = {name: io_of(pids[name]) for name in NODES}
    data = os.urandom(1 << 20)
    for n in range(4):
        with open(store.mount / f"file-{n}", "wb") as file:
            for _ in range(8):
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for n in range(4):
        with open(store.mount / f"file-{n}", "rb") as file:
            assert file.read() == data * 8
    # Nothing is dirty and nobody has a file open: only the unmounting is left, which calls nobody.
    sent = {name: bytes_sent(pids[name]) for name in DAEMONS}
    after = {name: io_of(pids[name]) for name in NODES}
    assert store.down().returncode == 0
    trail = merged(store)
    rows = trail.rows_of("SELECT sender, node, SUM(length) AS bytes FROM network_transmit GROUP BY ALL")
    assert all(row["sender"] == row["node"] for row in rows)
    assert {row["node"]: row["bytes"] for row in rows} == pytest.approx(sent, rel=0.01)
    rows = trail.rows_of("""
        SELECT node, op, SUM(length) AS bytes FROM disk_op WHERE op IN ('read', 'write') GROUP BY ALL""")
    for node in NODES:
        disk = {row["op"]: row["bytes"] for row in rows if row["node"] == node}
        moved = {op: after[node][f"{op}_bytes"] - before[node][f"{op}_bytes"] for op in ("read", "write")}
        assert disk["write"] > 1 << 20 and disk["read"] > 1 << 20
        assert disk == pytest.approx({op: moved[op] for op in disk}, rel=0.01)
    ahead = trail.rows_of("SELECT DISTINCT component FROM buffer_op WHERE kind = 'read_ahead'")
    assert {row["component"] for row in ahead} == {"head", "node"}


def test_recorders_take_arguments(store: Store) -> None:
    store.up("--nodes", "1", "--replicas", "1", "--record", "--kernel")
    names = ("head", "mds", "node-1")
    pids = {name: store.pids(name)[-1] for name in names}
    with open(store.mount / "file", "wb") as file:
        file.write(b"x" * 5000)
        file.flush()
        os.fsync(file.fileno())
    assert store.down().returncode == 0
    rows = merged(store).rows_of("""
        SELECT DISTINCT cpu_slice.node, thread.pid FROM cpu_slice JOIN thread USING (node, thread)
        WHERE kind = 'kernel' AND crumb <> 0""")
    assert {row["node"]: row["pid"] for row in rows} == pids
