"""A real Ceph beside agent and collector: every request of clients is in the trail, joined, once."""

import datetime
import json
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from cluster import POOL, Cluster

from iotrail.trail import Trail

from .conftest import LOAD, NATIVE, Observed

# Seconds until an agent knows its daemons and has turned their history on.
SETTLE = 4


def asok(cluster: Cluster, daemon: str, prefix: str, **words: str) -> Any:
    """What a daemon says by its admin socket."""
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(str(cluster.sockets / f"{daemon}.asok"))
        there.sendall(json.dumps({"prefix": prefix, "format": "json", **words}).encode() + b"\0")
        with there.makefile("rb") as answer:
            (length,) = struct.unpack(">I", answer.read(4))
            return json.loads(answer.read(length))


def bench(cluster: Cluster, seconds: int, in_flight: int = 4) -> subprocess.Popen[str]:
    """Replicated writes of 4 KiB, so many at a time."""
    command = [
        "rados",
        "-c",
        str(cluster.conf),
        "bench",
        str(seconds),
        "write",
        "-b",
        "4096",
        "-t",
        str(in_flight),
        "-p",
        POOL,
    ]
    return subprocess.Popen([*command, "--no-cleanup"], stdout=subprocess.PIPE, text=True)


def load(cluster: Cluster, *words: str) -> dict[str, Any]:
    """Clients of the file system, until they have finished."""
    done = subprocess.run(
        ["/usr/bin/python3", LOAD, *words],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def writes_made(bench: subprocess.Popen[str]) -> int:
    """What `rados bench` says that it wrote."""
    out, _ = bench.communicate()
    found = re.search(r"Total writes made:\s+(\d+)", out)
    assert found, out
    return int(found[1])


JOINED = """
WITH written AS (
    SELECT node, crumb, COUNT(*) AS servings FROM service_op
    WHERE component = 'osd' AND kind = 'server' AND op = 'write' AND client LIKE 'client.%' AND length = 4096
    GROUP BY ALL
),
call AS (
    SELECT w.crumb AS write, s.node, s.crumb, COUNT(*) AS said
    FROM written AS w JOIN stitch AS s ON s.parent_node = w.node AND s.parent_crumb = w.crumb
    GROUP BY ALL
),
replica AS (
    SELECT c.write, s.crumb, MAX(c.said) AS said, COUNT(*) AS again
    FROM call AS c JOIN stitch AS s ON s.parent_node = c.node AND s.parent_crumb = c.crumb
    GROUP BY ALL
),
served AS (
    SELECT r.write, r.crumb, COUNT(o.crumb) AS servings
    FROM replica AS r
    LEFT JOIN service_op AS o ON o.crumb = r.crumb AND o.kind = 'server' AND o.op = 'repop'
    GROUP BY ALL
)
SELECT
    (SELECT COUNT(*) FROM written) AS writes,
    (SELECT COUNT(*) FROM written WHERE servings <> 1) AS doubled_writes,
    (SELECT COUNT(*) FROM (SELECT write FROM replica GROUP BY write HAVING COUNT(*) = 2)) AS with_both,
    (SELECT COUNT(*) FROM replica WHERE said <> 1 OR again <> 1) AS doubled_stitches,
    (SELECT COUNT(*) FROM served WHERE servings = 0) AS lost_replicas,
    (SELECT COUNT(*) FROM served WHERE servings > 1) AS doubled_replicas
"""


def test_every_replicated_write_is_joined_with_its_replicas(cluster: Cluster, observed: Observed) -> None:
    """While the agent is killed and started again once, and the collector killed once: none is lost, none doubled."""
    observed.start_collector()
    observed.start_agent()
    time.sleep(SETTLE)
    # Four at a time are 2,300 a second on a fast machine: more than the history of an OSD holds (the agent says so then).
    writing = bench(cluster, 12, in_flight=2)
    time.sleep(4)
    observed.end("agent", signal.SIGKILL)
    time.sleep(0.5)
    observed.start_agent()
    time.sleep(3)
    observed.end("collect", signal.SIGKILL)
    time.sleep(1)
    observed.start_collector()
    made = writes_made(writing)
    # What was read by then is sent within a bound rate; what isn't when the agent leaves is the next one's.
    time.sleep(7)
    observed.end_all()
    [found] = Trail(observed.trail).rows_of(JOINED)
    assert found == {
        "writes": made,
        "doubled_writes": 0,
        "with_both": made,
        "doubled_stitches": 0,
        "lost_replicas": 0,
        "doubled_replicas": 0,
    }


def requests_served(cluster: Cluster) -> int:
    """Requests of clients that MDSs say they handled."""
    return sum(
        asok(cluster, f"mds.m{n}", "perf dump")["mds_server"]["handle_client_request"]
        for n in range(cluster.mdss)
    )


def test_every_metadata_request_is_there_once(cluster: Cluster, observed: Observed) -> None:
    """As many servings as the MDSs count."""
    observed.start_collector()
    observed.start_agent()
    time.sleep(SETTLE)
    before = requests_served(cluster)
    load(cluster, "tree", "--clients", "4", "--files", "40")
    handled = requests_served(cluster) - before
    observed.end("agent")
    # All that came is in the trail when the collector ends, but what follows from it.
    time.sleep(6)
    observed.end_all()
    trail = Trail(observed.trail)
    [found] = trail.rows_of(
        "SELECT COUNT(*) AS n, COUNT(DISTINCT (node, crumb)) AS requests, COUNT(DISTINCT client) AS clients "
        "FROM service_op WHERE component = 'mds' AND kind = 'server'"
    )
    assert found["n"] == found["requests"] == handled
    assert found["clients"] == 4
    creates = trail.rows_of("SELECT COUNT(*) AS n FROM request WHERE component = 'mds' AND op = 'create'")
    assert creates == [{"n": 4 * 40}]
    # Each waited for one write of the journal, of which an OSD told.
    [waits] = trail.rows_of(
        "SELECT COUNT(*) AS n, COUNT(o.crumb) AS joined, COUNT(DISTINCT o.crumb) AS writes "
        "FROM service_op AS j LEFT JOIN stitch AS s ON s.parent_node = j.node AND s.parent_crumb = j.crumb AND s.how = 'time' "
        "LEFT JOIN service_op AS o ON o.node = s.node AND o.crumb = s.crumb AND o.kind = 'server' AND o.client LIKE 'mds.%' "
        "WHERE j.component = 'mds' AND j.kind = 'internal' AND j.op = 'journal'"
    )
    assert waits["n"] == waits["joined"] >= 4 * 40, trail.rows_of(
        "SELECT j.ts, j.ts + j.dur AS until, o.ts AS wrote_ts, o.ts + o.dur AS wrote_until, o.client, f.path "
        "FROM service_op AS j LEFT JOIN stitch AS s ON s.parent_node = j.node AND s.parent_crumb = j.crumb AND s.how = 'time' "
        "LEFT JOIN (service_op AS o LEFT JOIN file AS f ON f.file = o.file) ON o.component = 'osd' AND o.kind = 'server' "
        "AND o.client LIKE 'mds.%' AND o.ts BETWEEN j.ts - 1000000 AND j.ts + j.dur AND o.ts + o.dur >= j.ts "
        "WHERE j.component = 'mds' AND j.kind = 'internal' AND j.op = 'journal' AND s.crumb IS NULL ORDER BY ALL LIMIT 50"
    )
    assert 1 <= waits["writes"] < waits["n"]


def test_settings_are_put_back_also_after_a_kill(cluster: Cluster, observed: Observed) -> None:
    """The second agent knows what was there before the first."""
    names = {
        "osd.0": "osd_op_history_size",
        "osd.1": "osd_op_history_duration",
        "mds.m0": "mds_op_history_size",
    }
    before = {daemon: asok(cluster, daemon, "config get", var=name) for daemon, name in names.items()}
    observed.start_collector()
    observed.start_agent()
    time.sleep(SETTLE)
    during = {daemon: asok(cluster, daemon, "config get", var=name) for daemon, name in names.items()}
    assert all(during[daemon] != before[daemon] for daemon in names)
    observed.end("agent", signal.SIGKILL)
    observed.start_agent()
    time.sleep(SETTLE)
    observed.end_all()
    assert {d: asok(cluster, d, "config get", var=name) for d, name in names.items()} == before


def test_a_sample_has_all_of_a_burst_and_says_what_it_has_not(cluster: Cluster, observed: Observed) -> None:
    """The burst with which an agent begins, and one that is asked for; what came between them is counted as unseen."""
    observed.start_collector()
    observed.start_agent("sampled")
    time.sleep(SETTLE)
    first = writes_made(bench(cluster, 3))
    time.sleep(10)
    between = writes_made(bench(cluster, 3))
    observed.running["agent"].send_signal(signal.SIGUSR1)
    # The next tick, and up to three seconds after that.
    time.sleep(4.5)
    asked = writes_made(bench(cluster, 3))
    time.sleep(10)
    observed.end_all()
    trail = Trail(observed.trail)
    told = trail.rows_of(
        "SELECT client, COUNT(*) AS n, MAX(weight) AS weight FROM request "
        "WHERE component = 'osd' AND op = 'write' AND length = 4096 AND weight = 1 GROUP BY client ORDER BY MIN(ts)"
    )
    assert (told[0]["n"], told[-1]["n"]) == (first, asked)
    [joined] = trail.rows_of(JOINED)
    assert joined["with_both"] >= first + asked
    assert joined["doubled_writes"] == joined["doubled_replicas"] == 0
    [unseen] = trail.rows_of("SELECT * FROM unseen_summary")
    assert unseen["kind"] == "requests_not_collected"
    # Each write is one at the primary and one at each of two replicas.
    assert unseen["amount"] >= 2 * between


def test_a_daemon_that_goes_and_comes_back(cluster: Cluster, observed: Observed) -> None:
    """It is down and up again; its counters, which began anew, give no nonsense."""
    observed.start_collector()
    observed.start_agent()
    time.sleep(SETTLE)
    # Not killed: what an OSD in memory doesn't write down at its end is gone for good.
    cluster.stop("osd.2")
    time.sleep(3)
    cluster.start("osd.2")
    cluster.wait_healthy()
    time.sleep(3)
    observed.end_all()
    trail = Trail(observed.trail)
    states = [
        row["state"] for row in trail.rows_of("SELECT state FROM member WHERE member = 'osd.2' ORDER BY ts")
    ]
    assert states[0] == "up"
    assert states[-1] == "up"
    assert {"down", "failed", "left"} & set(states)
    assert not trail.rows_of("SELECT * FROM node_sample WHERE value < 0 OR value > 1e15")


def test_the_questions_work_on_ceph_unchanged(cluster: Cluster, observed: Observed) -> None:
    """graph, path, demand, explain and diff of requests."""
    from typer.testing import CliRunner

    from iotrail.cli import app

    # What the daemons still know of before, among it writes that the test above interrupted, is not told.
    started = time.time_ns()
    observed.start_collector()
    observed.start_agent()
    time.sleep(SETTLE)
    made = writes_made(bench(cluster, 3))
    observed.end_all()
    ask = CliRunner()

    def answer(*words: object) -> str:
        result = ask.invoke(app, [*map(str, words)])
        assert result.exception is None, result.output
        return result.output

    graph = json.loads(answer("graph", observed.trail, "--component", "osd", "--op", "write", "--json"))
    assert graph["requests"] >= made
    steps = {(e["source"]["name"], e["target"]["name"]) for e in graph["edges"]}
    assert any("repop" in source or "repop" in target for source, target in steps)
    paths = json.loads(
        answer("path", observed.trail, "--slowest", 5, "--op", "write", "--through", "osd.1", "--json")
    )
    for path in paths:
        assert not path["holes"]
        assert "osd.1" in {record["process"] for crumb in path["crumbs"] for record in crumb["records"]}
    [first] = Trail(observed.trail).rows_of("SELECT MIN(ts) AS ts FROM service_op")
    # Times of daemons are put on the trail's clock in steps of 10 ms.
    assert first["ts"] > started - 10_000_000
    clients = {
        row["client"]: row["n"]
        for row in Trail(observed.trail).rows_of(
            "SELECT client, COUNT(*) AS n FROM request WHERE component = 'osd' AND op = 'write' AND length = 4096 GROUP BY 1"
        )
    }
    [client] = [client for client in clients if client.startswith("client.")]
    used = {
        row["resource"]: row
        for row in json.loads(answer("demand", observed.trail, "--json"))
        if row["client"] == client
    }
    # What `rados bench` needs to read it again is written last, just before the agent looks for the last time.
    wrote = Trail(observed.trail).rows_of(
        f"SELECT op, length, COUNT(*) AS n FROM request WHERE client = '{client}' GROUP BY ALL ORDER BY length"
    )
    assert [(row["op"], row["n"]) for row in wrote] == [("writefull", 1), ("write", made)]
    written = 4096 * made + wrote[0]["length"]
    # Two replicas got what was written; a replica's store doesn't say how much that was.
    assert used["network"]["bytes"] == 2 * written
    assert used["disk"]["bytes"] == written
    assert used["disk"]["n"] == 3 * (made + 1)
    why = json.loads(answer("explain", observed.trail, "--client", client, "--json"))
    assert why
    span = Trail(observed.trail).rows_of(
        f"SELECT MIN(ts) AS a, MAX(ts) AS b FROM request WHERE client = '{client}'"
    )[0]
    half = datetime.datetime.fromtimestamp((span["a"] + span["b"]) / 2e9, datetime.UTC).isoformat()
    compared = json.loads(
        answer(
            "diff",
            observed.trail,
            observed.trail,
            "--requests",
            "--client",
            client,
            "--to",
            half,
            "--against-from",
            half,
            "--json",
        )
    )
    assert compared


def test_an_agent_finds_no_ceph(tmp_path: Path, observed: Observed) -> None:
    """Sockets that are none, and garbage behind one: said, survived."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "plain.asok").write_text("not a socket")
    garbage = socket.socket(socket.AF_UNIX)
    garbage.bind(str(folder / "osd.9.asok"))
    garbage.listen()
    observed.start_collector()
    observed.running["agent"] = subprocess.Popen(
        [
            NATIVE,
            "agent",
            "--collector",
            observed.address,
            "--ceph",
            folder,
            "--state",
            tmp_path / "agent",
        ],
        stderr=(tmp_path / "agent.err").open("a"),
    )
    time.sleep(3)
    observed.end_all()
    garbage.close()
    assert Trail(observed.trail).rows["node_sample"] > 10
