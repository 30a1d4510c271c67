"""What watching a cluster costs: the agent beside a real Ceph, Ceph beside the agent, the collector, the page.

The cluster is Ceph in memory on this machine, so load, Ceph, agent and collector share its CPUs: the cost to the load
in the foreground is the largest there is. Peer: the same load without an agent, in turns (Leung et al., Table 3: 165 s
beside a visualization client, 167 s without). The collector's curve is that of figures 12 and 13, with real
connections; simulated agents and the viewer run on the same machine.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import page
from measure import ROOT, Spread, console, keep, scratch, table
from recorders import NATIVE

sys.path.insert(0, str(ROOT / "examples" / "ceph"))
from cluster import POOL, Cluster
from demo import DEBIANS_PYTHON, LOAD

QUIET, BUSY = 20, 12
ROUNDS = 5
# What is collected, none: no agent. Seconds of a load: a minute has one that is sampled.
WAYS = (None, "none", "sampled", "all")
SPELL = 30
# Seconds until an agent knows its daemons, and until a killed one's settings are back.
SETTLE = 4
# And until the burst is over with which one begins that samples.
BURST = 12
CURVE = (10, 100, 300, 1_000, 2_000, 4_000)
RECORDS = 4_000_000
# USER_HZ, of Linux for programs.
TICK = 0.01


def cpu(pid: int, task: int | None = None) -> float:
    """Seconds of CPU time that a process, or one thread of it, has used."""
    of = f"/proc/{pid}/task/{task}/stat" if task else f"/proc/{pid}/stat"
    fields = Path(of).read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def peak(pid: int) -> float:
    """MiB that a process had at most."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


@contextmanager
def collector(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A collector, and its address."""
    command = [NATIVE, "collect", "-o", folder / "x.trail", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.match(r"collecting into .+ on ([^\s,]+)", process.stdout.readline())
        assert found
        yield found[1], process
    finally:
        process.terminate()
        process.wait()


def answering(cluster: Cluster) -> float:
    """Seconds of CPU time that the OSDs have spent on answering their admin sockets: what an agent costs them."""
    return sum(
        cpu(int(task.parts[2]), int(task.parts[4]))
        for number in range(cluster.osds)
        for task in Path(f"/proc/{cluster.pid(f'osd.{number}')}/task").iterdir()
        if (task / "comm").read_text().strip() == "admin_socket"
    )


@contextmanager
def agent(cluster: Cluster, address: str, folder: Path, requests: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent that knows all daemons."""
    command = [
        NATIVE,
        "agent",
        "--collector",
        address,
        "--ceph",
        cluster.sockets,
        "--state",
        folder / "agent",
        "--requests",
        requests,
    ]
    process = subprocess.Popen(command)
    try:
        time.sleep(SETTLE + (BURST if requests == "sampled" else 0))
        yield process
    finally:
        process.terminate()
        process.wait()


def small_writes(cluster: Cluster, seconds: int) -> float:
    """Replicated writes of 4 KiB a second."""
    command = ["rados", "-c", cluster.conf, "bench", seconds, "write", "-b", 4096, "-t", 4, "-p", POOL]
    out = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
    found = re.search(r"Total writes made:\s+(\d+)", out)
    assert found, out
    return int(found[1]) / seconds


def metadata(cluster: Cluster, clients: int, files: int) -> float:
    """Operations a second of clients that make trees of files, walk and read them."""
    command = [DEBIANS_PYTHON, LOAD, "tree", "--clients", clients, "--files", files]
    run = subprocess.run(
        [*map(str, command)], check=True, capture_output=True, text=True, env=cluster.environment
    )
    said = json.loads(run.stdout)
    return float(said["operations"]) / float(said["seconds"])


def agents_cost(cluster: Cluster, folder: Path) -> None:
    """CPU time and memory of an agent, quiet and beside a load that leaves no CPU idle."""
    shape = table(
        "An agent at 1 Hz that collects all requests of three OSDs and two MDSs (bound: 0.5 % and 30 MiB)",
        ["load", "writes/s", "agent, % of a core", "agent, MiB at most", "collector, % of a core"],
    )
    kept = {}
    with collector(folder) as (address, collects), agent(cluster, address, folder, "all") as watches:

        def during(name: str, load: Callable[[], float]) -> None:
            began, used, taken = time.monotonic(), cpu(watches.pid), cpu(collects.pid)
            writes = load()
            took = time.monotonic() - began
            share = [
                100 * (after - before) / took
                for before, after in ((used, cpu(watches.pid)), (taken, cpu(collects.pid)))
            ]
            kept[name] = {
                "writes": writes,
                "agent": share[0],
                "memory": peak(watches.pid),
                "collector": share[1],
            }
            shape.add_row(
                name, f"{writes:,.0f}", f"{share[0]:.2f}", f"{peak(watches.pid):.1f}", f"{share[1]:.1f}"
            )

        def rest() -> float:
            time.sleep(QUIET)
            return 0.0

        during("quiet", rest)
        during("rados bench of 4 KiB, 3 replicas", lambda: small_writes(cluster, BUSY))
    console.print(shape)
    keep("cluster_agent", **kept)


def foreground(cluster: Cluster, folder: Path) -> None:
    """What the agent takes from the load, in turns."""
    loads: dict[str, Callable[[], float]] = {
        "rados bench of 4 KiB, 3 replicas": lambda: small_writes(cluster, SPELL),
        "metadata, 10 clients": lambda: metadata(cluster, 10, 200),
    }
    # The history of the first rounds is made of what was cold.
    for load in loads.values():
        load()
    found: dict[str, dict[str | None, list[float]]] = {name: {way: [] for way in WAYS} for name in loads}
    answered: dict[str | None, list[float]] = {way: [] for way in WAYS}
    with collector(folder) as (address, _):
        for turn in range(ROUNDS):
            for place in range(len(WAYS)):
                way = WAYS[(turn + place) % len(WAYS)]
                with ExitStack() as stack:
                    if way is not None:
                        stack.enter_context(agent(cluster, address, folder, way))
                    before = answering(cluster)
                    began = time.monotonic()
                    for name, load in loads.items():
                        found[name][way].append(load())
                    took = time.monotonic() - began
                    answered[way].append(100 * (answering(cluster) - before) / took)
    shape = table(
        "Operations a second beside an agent and its collector on the same CPUs, by what it collects, in turns, over "
        "those without an agent (bound: 1 %); CPU time of the OSDs' admin sockets",
        ["load", "without", *(f"{way}" for way in WAYS[1:])],
    )
    for name, of in found.items():
        ratios = [
            Spread.of([beside / without for without, beside in zip(of[None], of[way], strict=True)])
            for way in WAYS[1:]
        ]
        shape.add_row(name, Spread.of(of[None]).text(",.0f"), *(ratio.text(".3f") for ratio in ratios))
    shape.add_row("admin sockets, % of a core", *(Spread.of(answered[way]).text(".2f") for way in WAYS))
    console.print(shape)
    keep(
        "cluster_foreground",
        found={name: {str(way): values for way, values in of.items()} for name, of in found.items()},
        answered={str(way): values for way, values in answered.items()},
    )


def examples(*names: str) -> list[Path]:
    """Examples of the collector's crate, built."""
    words = [word for name in names for word in ("--example", name)]
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--workspace", *words]
    lines = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    built = {
        message["target"]["name"]: Path(message["executable"])
        for message in map(json.loads, lines)
        if message.get("executable")
    }
    return [built[name] for name in names]


def curve() -> None:
    """How the live stream keeps up as a cluster grows, and how fast records come into the trail."""
    agents, ingest = examples("agents", "ingest")

    def said_by(*words: object) -> str:
        return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout

    head, *rows = said_by(agents, 10, *CURVE).splitlines()
    names = re.split(r"  +", head.strip())
    shape = table(
        "From sample to viewer, agents at 1 Hz of 40 samples each (bound: p99 200 ms at 1,000, on one core)",
        names,
    )
    kept = []
    for row in rows:
        values = row.split()
        shape.add_row(*values)
        kept.append(dict(zip(names, values, strict=True)))
    console.print(shape)
    said = said_by(ingest, RECORDS, 512, 16)
    console.print(f"Into the trail (bound: 1 M/s): {said}")
    keep("cluster_collector", curve=kept, ingest=said.strip())


def bench() -> None:
    """Measure and print."""
    # A short path: sockets' names are short.
    with (
        scratch() as folder,
        tempfile.TemporaryDirectory(prefix="itb-", dir="/tmp") as short,
        Cluster(Path(short) / "c", mdss=2, active=2, net="127.0.12") as cluster,
    ):
        for part in (agents_cost, foreground):
            place = folder / part.__name__
            place.mkdir()
            part(cluster, place)
    curve()
    page.bench()
