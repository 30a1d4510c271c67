"""`iotrail graph`: the steps of many requests, and which of them their replies waited for."""

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import IotrailError
from iotrail.requests.find import Chosen
from iotrail.requests.graph import Edge, Graph, collect
from iotrail.trail import Trail

from .conftest import MakeTrail

SVG = "{http://www.w3.org/2000/svg}"


def ask(*words: object) -> str:
    """What `iotrail graph` prints; its error is raised."""
    result = CliRunner().invoke(app, ["graph", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def critical(graph: Graph) -> dict[tuple[str, str], int]:
    """Source and target -> ns, of the critical steps."""
    return {(str(e.source), str(e.target)): e.critical_ns for e in graph.edges if e.critical}


def edge(graph: Graph, source: str, target: str) -> Edge:
    """The one step between two points."""
    [found] = [e for e in graph.edges if (str(e.source), str(e.target)) == (source, target)]
    return found


def test_one_read(store: Path) -> None:
    """Bob's read waited for the lookup, then for the storage node: every step of it, 20 µs together."""
    graph = collect(Trail(store), Chosen(client="bob", op="read"))
    assert graph.total_ns == 20_000
    found = critical(graph)
    assert sum(found.values()) == 20_000
    assert found["head read arrival", "head pages read_miss"] == 500
    assert found["head lookup call", "mds lookup arrival"] == 1000
    assert found["head lookup return", "head read call"] == 1000
    assert found["disk sda read (kernel) issued", "disk sda read (kernel) done"] == 4800
    assert all(e.critical for e in graph.edges)
    assert [e.across for e in graph.edges].count(True) == 4


def test_what_comes_later_is_not_critical(store: Path) -> None:
    """The flush is on the path of a write and in its graph, but its reply didn't wait for it."""
    graph = collect(Trail(store), Chosen(client="alice", op="write"))
    assert critical(graph) == {
        ("head write arrival", "head pages write begin"): 500,
        ("head pages write begin", "head pages write end"): 400,
        ("head pages write end", "head write reply"): 1100,
    }
    assert edge(graph, "head write reply", "head flush begin").count == 1
    assert edge(graph, "head write call", "storage write arrival").mean_ns == 2500


def serving(crumb: int, ts: int, dur: int, **more: Any) -> dict[str, Any]:
    """A row of service_op."""
    return {"crumb": crumb, "ts": ts, "dur": dur, **more}


def test_parallel(make: MakeTrail) -> None:
    """Three parts at once: the reply waited for the slowest, 3; then 4 alone, which began after 1 to 3."""
    parts = {2: (10, 50), 3: (12, 80), 4: (100, 20), 5: (11, 30)}
    trail = make(
        {
            "service_op": [serving(1, 0, 150, op="all", client="a")]
            + [serving(c, ts, dur, kind="internal", op=f"part{c}") for c, (ts, dur) in parts.items()],
            "stitch": [
                {"crumb": c, "ts": ts, "parent_crumb": 1, "kind": "split"} for c, (ts, _) in parts.items()
            ],
        }
    )
    graph = collect(Trail(trail), Chosen())
    assert critical(graph) == {
        ("head all arrival", "head part3 begin"): 12,
        ("head part3 begin", "head part3 end"): 80,
        ("head part3 end", "head part4 begin"): 8,
        ("head part4 begin", "head part4 end"): 20,
        ("head part4 end", "head all reply"): 30,
    }
    # the other two were awaited too, by what came next
    assert edge(graph, "head part2 end", "head part4 begin").mean_ns == 40
    assert edge(graph, "head part5 end", "head part4 begin").mean_ns == 59
    # the head only waited: there is no step past its parts
    assert not [e for e in graph.edges if (e.source.moment, e.target.moment) == ("arrival", "reply")]


class Clockwork:
    """Random requests whose parts run one after another and beside each other, on machines with clocks of their own.

    All parts are awaited, so that nothing of a request's time is left over.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next = 0
        self.rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "stitch": [], "buffer_op": []}
        self.shift = {node: self.random.randrange(0, 10**13) for node in ("a", "b", "c")}

    def crumb(self) -> int:
        """A fresh number."""
        self.next += 1
        return self.next

    def serve(self, node: str, ts: int, depth: int, kind: str = "server", **more: Any) -> tuple[int, int]:
        """One piece of work from `ts` of a common time on: (breadcrumb, end)."""
        crumb, now = self.crumb(), ts
        for _ in range(self.random.randrange(3)):
            now += self.random.randrange(1, 50)
            if self.random.random() < 0.5 or depth == 0:
                self.post("buffer_op", node, crumb, now, 0, kind="read_hit", length=1)
                continue
            # some at once; all are awaited before it goes on
            ends = [
                self.part(node, crumb, now + self.random.randrange(9), depth - 1)
                for _ in range(self.random.randrange(1, 4))
            ]
            now = max(ends)
        now += self.random.randrange(1, 50)
        self.post("service_op", node, crumb, ts, now - ts, kind=kind, op=f"{kind}{depth}", **more)
        return crumb, now

    def part(self, node: str, parent: int, ts: int, depth: int) -> int:
        """A part of work on the same machine, or a call of another: its end."""
        if self.random.random() < 0.5:
            crumb, end = self.serve(node, ts, depth, kind="internal")
            self.stitch(node, crumb, ts, node, parent, "split")
            return end
        call, there = self.crumb(), self.random.choice([n for n in self.shift if n != node])
        self.stitch(node, call, ts, node, parent, "split")
        served, end = self.serve(there, ts + self.random.randrange(1, 20), depth)
        self.stitch(there, served, ts, node, call, "rpc")
        end += self.random.randrange(1, 20)
        self.post("service_op", node, call, ts, end - ts, kind="client", op=f"call{depth}")
        return end

    def post(self, table: str, node: str, crumb: int, ts: int, dur: int, **more: Any) -> None:
        """A record, on the machine's own clock."""
        self.rows[table].append(
            {"node": node, "crumb": crumb, "ts": ts + self.shift[node], "dur": dur, **more}
        )

    def stitch(self, node: str, crumb: int, ts: int, parent_node: str, parent: int, kind: str) -> None:
        """Who works for whom."""
        row = {"node": node, "crumb": crumb, "ts": ts + self.shift[node], "kind": kind}
        self.rows["stitch"].append({**row, "parent_node": parent_node, "parent_crumb": parent})


@pytest.mark.parametrize("seed", range(4))
def test_adds_up(make: MakeTrail, seed: int) -> None:
    """However requests split, wait and call: their critical steps take the time until their replies, exactly."""
    clockwork = Clockwork(seed)
    for number in range(40):
        clockwork.serve(clockwork.random.choice("abc"), 10**6 * number, 4, client=f"c{number % 3}")
    trail = make(clockwork.rows)
    for chosen in (Chosen(), Chosen(client="c1")):
        opened = Trail(trail)
        expected = opened.rows_of(f"SELECT SUM(dur) AS ns FROM request WHERE {chosen.where}")[0]["ns"]
        graph = collect(opened, chosen)
        assert graph.total_ns == expected
        assert sum(critical(graph).values()) == expected
        assert any(e.across and e.critical for e in graph.edges)
        assert all(e.critical <= e.count for e in graph.edges)


def test_shared_with_others(make: MakeTrail) -> None:
    """Two writes share two flushes, one after the other: in the graph of one of them the step between is taken once."""
    flushes = {20: 100, 21: 200}
    trail = make(
        {
            "service_op": [serving(1, 0, 10, client="a"), serving(2, 5, 10, client="b")]
            + [serving(c, ts, 50, kind="internal", op=f"flush{c}") for c, ts in flushes.items()],
            "stitch": [
                {"crumb": c, "ts": ts, "parent_crumb": p, "kind": "coalesce"}
                for c, ts in flushes.items()
                for p in (1, 2)
            ],
        }
    )
    graph = collect(Trail(trail), Chosen(client="a"))
    assert edge(graph, "head flush20 end", "head flush21 begin").count == 1
    assert edge(graph, "head read reply", "head flush20 begin").mean_ns == 90


def test_circle(make: MakeTrail) -> None:
    """Two that work for each other at one moment: the walk ends."""
    trail = make(
        {
            "service_op": [serving(1, 5, 0), serving(2, 5, 0), serving(3, 0, 10, client="a")],
            "stitch": [
                {"crumb": 2, "ts": 5, "parent_crumb": 1, "kind": "split"},
                {"crumb": 1, "ts": 5, "parent_crumb": 2, "kind": "split"},
                {"crumb": 1, "ts": 5, "parent_crumb": 3, "kind": "split"},
            ],
        }
    )
    graph = collect(Trail(trail), Chosen())
    assert graph.total_ns == 10


def test_table(store: Path) -> None:
    """What was awaited with its part of the time; unknown times as such."""
    lines = [" ".join(line.split()) for line in ask(store, "--op", "write").splitlines()]
    assert lines[0] == "2 requests, 2.00 µs each on average"
    assert "head pages write end → head write reply 2 1.10 µs 1.09 µs 1.09 µs 55.0 %" in lines
    assert "head write call ⇢ storage write arrival 2 2.50 µs 2.50 µs 2.50 µs" in lines


def test_without_reply(make: MakeTrail) -> None:
    """A request without a reply has no critical path; it is counted."""
    trail = make(
        {
            "service_op": [serving(1, 0, 10), {"crumb": 2, "ts": 50, "dur": None}],
            "buffer_op": [{"crumb": 2, "ts": 60, "kind": "read_hit"}],
        }
    )
    assert "2 requests, 10 ns each on average, 1 without a reply" in ask(trail)
    assert json.loads(ask(trail, "--json"))["unfinished"] == 1


def test_one_point_each(make: MakeTrail) -> None:
    """Nothing to draw."""
    with pytest.raises(IotrailError, match="one point each"):
        ask(make({"service_op": [{"crumb": 2, "ts": 50, "dur": None}]}))


def test_dot_and_svg(store: Path, tmp_path: Path) -> None:
    """The drawing has each point and step once, dashed across machines; a file is replaced only by force."""
    assert shutil.which("dot"), "Graphviz is missing: make test says which package has it"
    dot, svg = tmp_path / "g.dot", tmp_path / "g.svg"
    ask(store, "--op", "read", "--client", "bob", "--dot", dot, "--svg", svg)
    graph = collect(Trail(store), Chosen(client="bob", op="read"))
    drawn = ElementTree.parse(svg).getroot()
    kinds = [group.get("class") for group in drawn.iter(f"{SVG}g")]
    assert kinds.count("edge") == len(graph.edges) == dot.read_text().count(" -> ")
    assert kinds.count("node") == len({p for e in graph.edges for p in (e.source, e.target)})
    assert dot.read_text().count("style=dashed") == 4
    with pytest.raises(IotrailError, match="exists"):
        ask(store, "--svg", svg)
    ask(store, "--svg", svg, "--force")


def test_names_in_dot(make: MakeTrail, tmp_path: Path) -> None:
    """Quotes, backslashes and line ends of a name stay in their label."""
    odd = 'a"b\\n<c>\nd'
    dot = tmp_path / "g.dot"
    ask(make({"service_op": [serving(1, 0, 10, op=odd)]}), "--dot", dot)
    plain = subprocess.run(["dot", "-Tplain", str(dot)], capture_output=True, text=True, check=True)
    assert plain.stdout.count("\nnode ") == 2


def test_without_graphviz(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install, and what works without."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IotrailError, match="its program dot isn't there") as raised:
        ask(store, "--svg", tmp_path / "g.svg")
    assert "--dot FILE" in (raised.value.hint or "")
    ask(store, "--dot", tmp_path / "g.dot")


def test_graphviz_is_given_a_time(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that takes forever is given up, and a page says so in its place."""
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("iotrail.requests.dot._MOST_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(IotrailError, match=r"dot has not drawn the graph within 0\.3 s") as raised:
        ask(store, "--svg", tmp_path / "g.svg")
    assert "--dot FILE" in (raised.value.hint or "") and not (tmp_path / "g.svg").exists()
    ask(store, "--html", tmp_path / "g.html")
    assert "No picture: " in (tmp_path / "g.html").read_text()
    assert time.monotonic() - began < 60


def test_path_as_picture(store: Path, tmp_path: Path) -> None:
    """`iotrail path --svg` draws one request."""
    svg = tmp_path / "p.svg"
    result = CliRunner().invoke(app, ["path", str(store), "--crumb", "70", "--svg", str(svg)])
    assert result.exit_code == 0, result.output
    titles = [t.text for t in ElementTree.parse(svg).getroot().iter(f"{SVG}text")]
    assert "1 request" in titles
    assert "sda read issued" in titles


def test_a_clock_that_steps_back(make: MakeTrail) -> None:
    """A part whose machine's clock was set back by an hour while it was at work: its steps count as no time, the
    request's own time stays what it was, and what it used is billed as ever."""
    hour = 3_600_000_000_000
    trail = Trail(
        make(
            {
                "service_op": [
                    {"crumb": 1, "ts": 2 * hour, "dur": 1000, "client": "a"},
                    {"crumb": 2, "ts": hour + 100, "dur": 500, "kind": "internal", "op": "flush"},
                ],
                "stitch": [{"crumb": 2, "ts": hour + 100, "parent_crumb": 1, "kind": "split"}],
                "disk_op": [
                    {
                        "crumb": 2,
                        "ts": hour + 200,
                        "dur": 300,
                        "op": "write",
                        "length": 512,
                        "kind": "program",
                    }
                ],
            }
        )
    )
    assert trail.rows_of("SELECT client, resource, time_ns FROM demand") == [
        {"client": "a", "resource": "disk", "time_ns": 300}
    ]
    assert all(
        row["p99_ns"] >= 0 for row in trail.rows_of("SELECT p99_ns FROM graph_edge WHERE p99_ns IS NOT NULL")
    )
    graph = collect(trail, Chosen())
    assert (graph.requests, graph.total_ns) == (1, 1000)
    assert sum(edge.critical_ns for edge in graph.edges) == 1000


def test_by_node(make: MakeTrail) -> None:
    """Two machines serve the same: one graph of both, or a point of each, whose times add up to the same."""
    rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "stitch": []}
    for number, node in enumerate(("a", "b", "b")):
        crumb = 10 * number + 1
        took = 100 if node == "a" else 1000
        rows["service_op"] += [
            serving(crumb, 0, took + 40, node="front", component="front"),
            serving(crumb + 1, 10, took + 20, node="front", component="front", kind="client", op="read"),
            serving(crumb + 2, 50_000, took, node=node, component="store"),
        ]
        rows["stitch"] += [
            {"crumb": crumb + 1, "ts": 10, "node": "front", "parent_node": "front", "parent_crumb": crumb, "kind": "split"},
            {"crumb": crumb + 2, "ts": 50_000, "node": node, "parent_node": "front", "parent_crumb": crumb + 1, "kind": "rpc"},
        ]  # fmt: skip
    path = make(rows)
    together = json.loads(ask(path, "--json"))
    apart = json.loads(ask(path, "--json", "--by", "node"))

    def served(graph: dict[str, Any]) -> dict[str | None, tuple[int, int]]:
        return {
            e["source"]["node"]: (e["count"], e["critical_ns"])
            for e in graph["edges"]
            if (e["source"]["moment"], e["target"]["moment"]) == ("arrival", "reply")
        }

    assert served(together) == {None: (3, 2100)}
    assert served(apart) == {"a": (1, 100), "b": (2, 2000)}
    assert together["total_ns"] == apart["total_ns"] == 2100 + 3 * 40
    assert sum(e["critical_ns"] for e in apart["edges"]) == apart["total_ns"]
    assert "b: store read arrival" in ask(path, "--by", "node")
