#!/usr/bin/env python3
"""The four case studies of UCSC-SSRC-07-05, section 6, on a Ceph of today: load, trail, figure and screenshot.

    study.py small        6.1: 80 clients write small pieces of one file; then 32 others write large ones
    study.py metadata     6.2: 50 clients make trees of files, alone and while 20 others write
    study.py crowd        6.3: 11,000 opens by as many sessions as --clients says, on three MDSs
    study.py replication  6.4: 1 and 50 clients, 1 and 3 replicas

Each leaves demo/ceph-NAME.trail and demo/ceph-NAME.png, and prints the command that shows its figure from the trail.
The cluster is of four OSDs (three where all replicate), on memstore: its CPUs are shared by all, as no study's are of
the paper, so what agrees or not is the direction, and the page shows why.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster, ClusterError
from demo import DEBIANS_PYTHON, IOTRAIL, LOAD, ROOT, check, serve, started

# Mean latency of small and large writes at the OSDs, each five seconds (Figures 5 and 6).
SMALL = """
SELECT (ts - (SELECT MIN(ts) FROM node_sample WHERE metric = 'write')) // 5000000000 * 5 AS second,
    SUM(value) FILTER (WHERE metric = 'write' AND name = 'small') AS small_writes,
    SUM(value) FILTER (WHERE metric = 'write_time' AND name = 'small')
        / NULLIF(SUM(value) FILTER (WHERE metric = 'write' AND name = 'small'), 0) / 1e3 AS small_us,
    SUM(value) FILTER (WHERE metric = 'write' AND name = 'large') AS large_writes,
    SUM(value) FILTER (WHERE metric = 'write_time' AND name = 'large')
        / NULLIF(SUM(value) FILTER (WHERE metric = 'write' AND name = 'large'), 0) / 1e3 AS large_us
FROM node_sample WHERE metric IN ('write', 'write_time') GROUP BY 1 ORDER BY 1
"""

# Journal flushes of MDSs, and load of OSDs, by ten seconds (Figure 7).
METADATA = """
SELECT (ts - (SELECT MIN(ts) FROM node_sample)) // 10000000000 * 10 AS second,
    SUM(value) FILTER (WHERE metric = 'journal_flush') AS journal_flushes,
    SUM(value) FILTER (WHERE metric = 'journal_time')
        / NULLIF(SUM(value) FILTER (WHERE metric = 'journal_flush'), 0) / 1e3 AS flush_us,
    SUM(value) FILTER (WHERE metric = 'op' AND member LIKE 'mds.%') AS metadata_requests,
    SUM(value) FILTER (WHERE metric = 'op_time' AND member LIKE 'mds.%')
        / NULLIF(SUM(value) FILTER (WHERE metric = 'op' AND member LIKE 'mds.%'), 0) / 1e3 AS request_us,
    SUM(value) FILTER (WHERE metric = 'daemon_cpu' AND member LIKE 'osd.%') / 1e10 AS osd_cpus
FROM node_sample GROUP BY 1 ORDER BY 1
"""

# Which MDS served the opens, and what moved (Figures 9 and 10).
CROWD = """
SELECT m.member AS mds, COUNT(*) FILTER (WHERE s.op IN ('open', 'create')) AS opens, COUNT(*) AS requests,
    ROUND(100.0 * COUNT(*) FILTER (WHERE s.op IN ('open', 'create'))
        / SUM(COUNT(*) FILTER (WHERE s.op IN ('open', 'create'))) OVER (), 1) AS opens_percent,
    (SELECT SUM(value) FROM node_sample AS n WHERE n.member = m.member AND n.metric = 'export' AND n.name = 'out')
        AS exports
FROM service_op AS s
JOIN thread AS t ON t.node = s.node AND t.thread = s.thread
JOIN (SELECT DISTINCT node, process, member FROM member WHERE role = 'mds') AS m
    ON m.node = t.node AND m.process = t.process
WHERE s.component = 'mds' AND s.kind = 'server' GROUP BY 1 ORDER BY 1
"""

# Writes of clients at their OSDs, by how many OSDs had a copy (Table 2).
REPLICATION = """
WITH copies AS (
    SELECT s.node, s.crumb, s.ts, s.dur, COUNT(c.crumb) + 1 AS replicas
    FROM service_op AS s
    LEFT JOIN stitch AS c ON c.parent_node = s.node AND c.parent_crumb = s.crumb AND c.kind = 'split'
    WHERE s.component = 'osd' AND s.kind = 'server' AND s.op = 'write' AND s.client LIKE 'client.%'
    GROUP BY ALL
)
SELECT replicas, COUNT(*) AS writes, AVG(dur) / 1e3 AS mean_us, quantile_cont(dur, 0.99) / 1e3 AS p99_us
FROM copies GROUP BY 1 ORDER BY 1
"""


class Study:
    """A cluster that is collected and shown, and what loads on it said."""

    def __init__(self, name: str, cluster: Cluster, page: str, trail: Path) -> None:
        """Of a cluster that is up, shown at `page`."""
        self.name, self.cluster, self.page, self.trail = name, cluster, page, trail
        self.moment = 0

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start clients."""
        print("  load.py", shlex.join(words), flush=True)
        return subprocess.Popen(
            [DEBIANS_PYTHON, str(LOAD), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.cluster.environment,
        )

    def finish(self, load: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait for clients; what they saw."""
        out, _ = load.communicate()
        if load.returncode != 0:
            raise ClusterError(f"load.py ended with status {load.returncode}")
        said: dict[str, Any] = json.loads(out)
        return said

    def mark(self) -> None:
        """Now is the moment to look at."""
        self.moment = round(time.time() * 1000)

    def look(self) -> None:
        """A screenshot of the page at the marked moment, once that is in the trail."""
        from playwright.sync_api import sync_playwright

        picture = self.trail.with_suffix(".png")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{self.page}#t={self.moment}&play=0")
            page.wait_for_timeout(6000)
            page.screenshot(path=picture)
            browser.close()
        print(f"  the page at that moment: {picture}", flush=True)


@contextlib.contextmanager
def observed(name: str, **cluster: Any) -> Iterator[Study]:
    """A cluster with its page; all ends at the end, but the trail."""
    trail = Path("demo", f"ceph-{name}.trail")
    trail.parent.mkdir(exist_ok=True)
    shutil.rmtree(trail, ignore_errors=True)
    shutil.rmtree(f"{trail}.log", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="iotrail-ceph-") as folder, contextlib.ExitStack() as stack:
        up = stack.enter_context(Cluster(Path(folder) / "c", **cluster))
        command = serve(up, trail, Path(folder) / "agent", 0)
        page = stack.enter_context(started(command, stdout=subprocess.PIPE))
        assert page.stdout is not None
        line = page.stdout.readline()
        if " on http://" not in line:
            raise ClusterError("the page didn't start; its message is above")
        address = line.split(" on ")[1].strip()
        with urllib.request.urlopen(f"{address}api/info") as answer:
            answer.read()
        study = Study(name, up, address, trail)
        yield study
        # The last ticks of the agent, and a seal.
        time.sleep(8)
        study.look()


def small(seconds: float, clients: tuple[int, int]) -> list[dict[str, Any]]:
    """6.1: what large writes do to small ones."""
    with observed("small", osds=4, mdss=1, active=1, replicas=1) as study:
        writers = study.start(
            "shared", "--clients", str(clients[0]), "--seconds", str(2 * seconds), "--bytes", "1000"
        )
        time.sleep(seconds)
        large = study.start(
            "own", "--clients", str(clients[1]), "--seconds", str(seconds - 2), "--bytes", str(1 << 20)
        )
        time.sleep(seconds / 2)
        study.mark()
        said = [study.finish(large), study.finish(writers)]
    figure("small", SMALL)
    return said


def metadata(rounds: int, clients: tuple[int, int]) -> list[dict[str, Any]]:
    """6.2: whether data in the way of metadata matters."""
    said = []
    with observed("metadata", osds=4, mdss=1, active=1, replicas=1) as study:
        for turn in range(rounds):
            alone = study.finish(study.start("tree", "--clients", str(clients[0]), "--files", "40"))
            writers = study.start(
                "own", "--clients", str(clients[1]), "--seconds", "20", "--bytes", str(1 << 20)
            )
            time.sleep(4)
            beside = study.finish(study.start("tree", "--clients", str(clients[0]), "--files", "40"))
            if turn == 0:
                study.mark()
            study.finish(writers)
            said.append(
                {
                    "round": turn + 1,
                    "alone_s": alone["seconds"],
                    "beside_writers_s": beside["seconds"],
                    "slower": f"{beside['seconds'] / alone['seconds'] - 1:+.0%}",
                }
            )
    figure("metadata", METADATA)
    return said


def crowd(clients: int, opens: int) -> list[dict[str, Any]]:
    """6.3: whether MDSs share a flash crowd."""
    with observed("crowd", osds=3, mdss=3, active=3) as study:
        load = study.start("crowd", "--clients", str(clients), "--opens", str(opens))
        time.sleep(clients * 0.02 + 12)
        study.mark()
        said = [study.finish(load)]
    figure("crowd", CROWD)
    return said


def replication(seconds: float, clients: tuple[int, ...]) -> list[dict[str, Any]]:
    """6.4: what replicas cost one client and many."""
    said = []
    with observed("replication", osds=3, mdss=1, active=1, replicas=1) as study:
        for replicas in (1, 3):
            study.cluster.ceph("osd", "pool", "set", "data", "size", str(replicas), "--yes-i-really-mean-it")
            study.cluster.wait_healthy()
            for count in clients:
                load = study.start(
                    "own", "--clients", str(count), "--seconds", str(seconds), "--bytes", "1100"
                )
                if replicas == 3 and count == max(clients):
                    time.sleep(seconds / 2)
                    study.mark()
                result = study.finish(load)
                said.append({"clients": count, "replicas": replicas, "write_us": result["mean_us"], **result})
    figure("replication", REPLICATION)
    return [{key: row[key] for key in ("clients", "replicas", "write_us", "operations")} for row in said]


def figure(name: str, sql: str) -> None:
    """Show what the trail says, by a command that a reader can repeat."""
    query = " ".join(sql.split())
    command = [str(IOTRAIL), "sql", f"demo/ceph-{name}.trail", query]
    print("\n$ " + shlex.join([os.path.relpath(command[0]), *command[1:]]), flush=True)
    subprocess.run(command, check=True)


def main() -> int:
    """Run one study and print what its clients saw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("small", "metadata", "crowd", "replication"))
    parser.add_argument("--seconds", type=float, default=30, help="of each phase (small, replication)")
    parser.add_argument("--rounds", type=int, default=2, help="of metadata")
    parser.add_argument(
        "--clients", type=int, default=None, help="instead of the paper's number, or 200 of crowd's 2,000"
    )
    given = parser.parse_args()
    os.chdir(ROOT)
    try:
        check()
        match given.study:
            case "small":
                many = given.clients or 80
                rows = small(given.seconds, (many, max(1, many * 32 // 80)))
            case "metadata":
                many = given.clients or 50
                rows = metadata(given.rounds, (many, max(1, many * 20 // 50)))
            case "crowd":
                rows = crowd(given.clients or 200, 11_000)
            case _:
                rows = replication(given.seconds / 2, (1, given.clients or 50))
    except ClusterError as error:
        print(f"study: error: {error}", file=sys.stderr)
        return 1
    print("\nwhat the clients saw:")
    for row in rows:
        print("  " + ", ".join(f"{key} {value}" for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
