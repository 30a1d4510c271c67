"""`iotrail diff --requests`: what it finds between two runs of a store, and what it doesn't."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrail.diff.flow_command import compare_flows, sentence
from iotrail.diff.flow_compare import FlowComparison, resampled
from iotrail.requests.find import Chosen
from iotrail.trail import Trail

from . import flowing_requests
from .test_diff import iotrail

Make = Callable[..., Path]
READS = Chosen(component="head", op="read")
PAIRS = 20
MS = 1_000_000


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make(seed, …)`: the trail of a run."""

    def made(seed: int, **options: object) -> Path:
        folder = tmp_path_factory.mktemp("flow")
        return flowing_requests.write(flowing_requests.store(seed, **options), folder / "run.trail")  # type: ignore[arg-type]

    return made


def compared(a: Path, b: Path, chosen: Chosen = READS) -> FlowComparison:
    return compare_flows(Trail(a), Trail(b), chosen)


@pytest.mark.parametrize("pair", range(PAIRS))
def test_the_same_twice_differs_in_nothing(make: Make, pair: int) -> None:
    """Neither where noise is of each request alone nor where it lasts for a tenth of the run."""
    memory = 0.98 if pair % 2 else 0.0
    result = compared(make(2 * pair, memory=memory), make(2 * pair + 1, memory=memory))
    assert [sentence(d) for d in result.found] == []
    assert len([d for d in result.differences if d.p is not None]) > 15


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_step_and_a_further_call_come_first(make: Make, seed: int) -> None:
    """5 ms before the disk, and a lookup that reads didn't make: both, with what they add, before all else."""
    result = compared(make(2 * seed), make(2 * seed + 1, slower={"disk": 5 * MS}, lookup=True))
    step, part = result.found[:2]
    assert (step.metric, step.part) == ("step", "disk sda read queued → disk sda read issued")
    assert abs(step.each_ns - 5 * MS) < 0.02 * MS
    # what is drawn of it
    means = [float(series.mean()) for series in step.series or ()]
    assert means[1] - means[0] == pytest.approx(step.each_ns)
    # all reads that miss
    misses = round(part.b * result.kinds[0].b)
    assert step.times == misses > 200
    assert step.added_ns == pytest.approx(5 * MS * misses, rel=0.01)
    assert (part.metric, part.part, part.a) == ("part", "head read › head calls lookup", 0.0)
    assert part.note == "with mds lookup"
    assert part.added_ns == pytest.approx(misses * part.each_ns)
    # what else is found is what both make of all reads: their time, and which paths they take
    assert {d.metric for d in result.found[2:]} == {"request", "shape"}
    [new] = [d for d in result.found if d.metric == "shape" and not d.a]
    assert new.part == "with head read › head calls lookup"


def test_more_misses_are_no_slower_step(make: Make) -> None:
    """A cache that hits less often: more of what a miss does, and no step takes longer."""
    result = compared(make(0, hits=0.8), make(1, hits=0.2))
    first = result.found[0]
    assert (first.metric, first.part) == ("part", "head read › head calls read")
    assert first.note == "with disk read, storage read"
    assert "step" not in {d.metric for d in result.found}
    assert {d.part: d.effect > 0 for d in result.found if d.metric == "shape"} == {
        "the usual path of A": False,
        "with head read › head calls read, head read › head pages read_miss; "
        "without head read › head pages read_hit": True,
    }


def test_what_no_reply_waits_for_adds_nothing(make: Make, tmp_path: Path) -> None:
    """A copy made after the reply takes longer: it is said, and that nobody waited."""
    trails = []
    for seed, dur in ((0, 100_000), (1, 900_000)):
        rows = flowing_requests.store(seed)
        noise = np.random.default_rng(seed)
        copies, stitches = [], []
        for row in [r for r in rows["service_op"] if r["component"] == "head" and r["kind"] == "server"]:
            crumb, ts = row["crumb"] + 5, row["ts"] + row["dur"] + 1000
            took = int(dur * noise.uniform(0.9, 1.1))
            copies.append(row | {"crumb": crumb, "ts": ts, "dur": took, "kind": "internal", "op": "copy"})
            stitches.append(
                {
                    "node": "head",
                    "thread": 1,
                    "crumb": crumb,
                    "ts": ts,
                    "dur": 0,
                    "kind": "split",
                    "weight": 1,
                }
                | {"parent_node": "head", "parent_crumb": row["crumb"]}
            )
        rows["service_op"] += copies
        rows["stitch"] += stitches
        trails.append(flowing_requests.write(rows, tmp_path / str(seed) / "run.trail"))
    [found] = compared(*trails).found
    assert (found.metric, found.part) == ("step", "head copy begin → head copy end")
    assert found.added_ns == 0.0
    assert "no reply waited for it" in sentence(found)


def test_what_two_requests_wait_for_adds_to_both(tmp_path: Path) -> None:
    """A commit of two writes takes half a millisecond longer: each of the two waits for it."""
    trails = []
    for seed, typical in ((0, 100_000), (1, 600_000)):
        noise, rows = np.random.default_rng(seed), flowing_requests.store(seed, requests=0)
        served, stitches = rows.setdefault("service_op", []), rows.setdefault("stitch", [])
        plain = {"node": "head", "thread": 1, "component": "head", "status": 0}
        for crumb in range(1, 900, 3):
            ts, dur = 10_000_000 * crumb, int(typical * noise.uniform(0.8, 1.2))
            commit = {"crumb": crumb + 2, "ts": ts + 1000, "dur": dur, "kind": "internal", "op": "commit"}
            served.append(plain | commit)
            for write in (crumb, crumb + 1):
                took = dur + int(noise.uniform(2000, 3000))
                served.append(
                    plain | {"crumb": write, "ts": ts, "dur": took, "kind": "server", "op": "write"}
                )
                link = {
                    "node": "head",
                    "thread": 1,
                    "crumb": crumb + 2,
                    "ts": ts + 1000,
                    "dur": 0,
                    "weight": 1,
                }
                stitches.append(link | {"parent_node": "head", "parent_crumb": write, "kind": "coalesce"})
        trails.append(flowing_requests.write(rows, tmp_path / str(seed) / "run.trail"))
    first = compared(*trails, Chosen()).found[0]
    assert (first.part, first.times, first.awaited) == ("head commit begin → head commit end", 300, 2.0)
    assert first.added_ns == pytest.approx(2 * 300 * first.each_ns)
    assert first.each_ns == pytest.approx(500_000, rel=0.05)


def test_command(make: Make) -> None:
    """Sentences, JSON, and the status that a pipeline asks for."""
    a, b = make(2), make(3, slower={"disk": 5 * MS}, lookup=True)
    said = iotrail("diff", a, b, "--requests", "--op", "read")
    assert said.returncode == 0, said.stderr
    first = next(line for line in said.stdout.splitlines() if line.startswith("  1. "))
    assert re.fullmatch(
        r"  1\. head read: disk sda read queued → disk sda read issued: "
        r"\+[45]\.\d\d ms on each of \d+, \+1\.\d\d s in all, sure",
        first,
    )
    stored = json.loads(iotrail("diff", a, b, "--requests", "--op", "read", "--json").stdout)
    expected = compared(a, b)
    assert [d["part"] for d in stored["found"]] == [d.part for d in expected.found]
    assert stored["found"][0]["p"] == asdict(expected.found[0])["p"]
    assert all("series" not in d for d in stored["found"])
    refused = iotrail("diff", a, b, "--requests", "--fail-on", "step:50%")
    assert refused.returncode == 1
    assert "--fail-on step:50%: head read: disk sda read queued" in refused.stderr
    assert iotrail("diff", a, a, "--requests", "--fail-on", "any").returncode == 0


def test_two_spans_of_one_trail(make: Make, tmp_path: Path) -> None:
    """A disk that becomes slow at half time: found between the halves of one trail."""
    quick, slow = flowing_requests.store(1), flowing_requests.store(2, slower={"disk": 5 * MS})
    # the second run an hour later, under other breadcrumbs
    for name, rows in slow.items():
        for row in rows:
            for key in ("crumb", "parent_crumb"):
                row |= {key: row[key] + 1_000_000} if key in row else {}
            for key in ("ts", "issued"):
                row |= {key: row[key] + 3_600_000_000_000} if key in row else {}
        quick[name] += rows
    trail = flowing_requests.write(quick, tmp_path / "day.trail")
    said = iotrail(
        "diff",
        trail,
        trail,
        "--requests",
        "--op",
        "read",
        "--to",
        "+30min",
        "--against-from",
        "+30min",
        "--json",
    )
    assert said.returncode == 0, said.stderr
    result = json.loads(said.stdout)
    assert [kind["a"] + kind["b"] for kind in result["kinds"]] == [
        len(
            [
                r
                for r in quick["service_op"]
                if (r["component"], r["kind"], r["op"]) == ("head", "server", "read")
            ]
        )
    ]
    assert result["found"][0]["part"] == "disk sda read queued → disk sda read issued"


def test_bad_input(make: Make, tmp_path: Path) -> None:
    """It says what doesn't fit and what to do."""
    a = make(2)
    for words, message in (
        (["--op", "read"], "add --requests"),
        (["--requests", "--map", "/a=/b"], "takes no --map"),
        (["--requests", "--html", tmp_path / "nowhere" / "x.html"], "is no folder"),
        (["--requests", "--op", "raed"], "did you mean read?"),
        (["--requests", "--fail-on", "latency"], "step: a step takes longer"),
    ):
        result = iotrail("diff", a, a, *words)
        assert result.returncode != 0
        assert message in result.stderr


def test_resampled() -> None:
    """Five slices as two: the middle one counts in both by half."""
    series = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert resampled(series, 2) == pytest.approx([(1 + 2 + 1.5) / 2.5, (1.5 + 4 + 5) / 2.5])
    assert resampled(series, 5) is series


def replicated(seed: int, slow: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Reads, each served by one of three storage nodes; that called `slow` takes 4 ms longer."""
    random, rows = np.random.default_rng(seed), flowing_requests._Rows()
    for number in range(600):
        ts, crumb, node = number * 20 * MS, 10 * number + 1, f"n{random.integers(3)}"
        took = MS * random.uniform(1, 2) + (4 * MS if node == slow else 0)
        rows.serve("head", crumb, ts, took + 3000, "head", "server", "read", client="a")
        rows.stitch("head", crumb + 1, ts + 1000, "head", crumb, "split")
        rows.serve("head", crumb + 1, ts + 1000, took + 1000, "head", "client", "read")
        rows.stitch(node, crumb + 2, ts + 1500, "head", crumb + 1, "rpc")
        rows.serve(node, crumb + 2, ts + 1500, took, "storage", "server", "read")
    return rows.tables


def test_by_node_the_slow_machine_is_named(tmp_path: Path) -> None:
    """One of three storage nodes is 4 ms slower: its step, by its name, and no other's."""
    trails = [
        flowing_requests.write(replicated(seed, slow), tmp_path / f"{seed}.trail")
        for seed, slow in ((1, None), (2, "n2"), (3, None))
    ]
    done = iotrail("diff", *trails[:2], "--requests", "--by", "node", "--json")
    steps = [d for d in json.loads(done.stdout)["found"] if d["metric"] == "step"]
    assert {d["part"] for d in steps} == {"n2: storage read arrival → n2: storage read reply"}
    assert steps[0]["each_ns"] == pytest.approx(4 * MS, rel=0.05)
    quiet = iotrail("diff", trails[0], trails[2], "--requests", "--by", "node")
    assert "n2" not in quiet.stdout and quiet.returncode == 0
    assert "add --requests" in iotrail("diff", *trails[:2], "--by", "node").stderr
