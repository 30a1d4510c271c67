"""A sample of requests: rows count as often as their weight says, and what is there for paths not at all."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.trail import Trail

from .conftest import MakeTrail

SECOND = 1_000_000_000


def ask(*words: object) -> Any:
    """What a verb answers as JSON; its error is raised."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return json.loads(result.output)


def one(crumb: int, ts: int, dur: int, weight: int | None) -> dict[str, list[dict[str, Any]]]:
    """A write with its work at the disk, and its replica's part, of which the sender is told."""
    client = "client.1"
    return {
        "service_op": [
            {
                "crumb": crumb,
                "ts": ts,
                "dur": dur,
                "op": "write",
                "client": client,
                "length": 4096,
                "weight": weight,
            },
            {
                "crumb": crumb + 1,
                "ts": ts + 10,
                "dur": dur - 20,
                "kind": "client",
                "op": "repop",
                "weight": weight,
            },
        ],
        "stitch": [{"crumb": crumb + 1, "parent_crumb": crumb, "ts": ts, "kind": "split"}],
        "disk_op": [
            {"crumb": crumb, "ts": ts + 5, "dur": dur // 2, "op": "write", "length": 4096, "weight": weight}
        ],
        "network_transmit": [{"crumb": crumb + 1, "ts": ts + 10, "length": 4096, "weight": weight}],
    }


def together(*parts: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of several requests."""
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def test_rows_count_as_often_as_their_weight_says(make: MakeTrail) -> None:
    """One for 60 of 1 ms, one slow of 2 s that is itself, one that is there for paths: 61 requests of 2.06 s."""
    path = make(
        together(
            one(10, SECOND, 1_000_000, 60),
            one(20, 5 * SECOND, 2 * SECOND, None),
            one(30, SECOND + 5_000, 1_000_000, 0),
        )
    )
    trail = Trail(path)
    [counted] = trail.rows_of(
        "SELECT CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(time_ns) AS BIGINT) AS time_ns, "
        "CAST(SUM(length) AS BIGINT) AS length FROM request_count"
    )
    assert counted == {"n": 61, "time_ns": 60 * 1_000_000 + 2 * SECOND, "length": 61 * 4096}
    assert [row["crumb"] for row in trail.rows_of("SELECT crumb FROM request ORDER BY crumb")] == [10, 20]
    [served] = trail.rows_of(
        "SELECT CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(bytes) AS BIGINT) AS b FROM served"
    )
    assert served == {"n": 61, "b": 61 * 4096}
    used = {row["resource"]: row for row in ask("demand", path)}
    assert (used["disk"]["n"], used["disk"]["bytes"]) == (61, 61 * 4096)
    assert used["disk"]["time_ns"] == 60 * 500_000 + SECOND
    assert (used["network"]["n"], used["network"]["bytes"]) == (61, 61 * 4096)
    assert {row["client"] for row in used.values()} == {"client.1"}
    graph = ask("graph", path)
    assert (graph["requests"], graph["total_ns"]) == (61, 60 * 1_000_000 + 2 * SECOND)
    assert {edge["count"] for edge in graph["edges"]} == {61}
    # The slow one is one of 61, so that the 99th of 100 is it, and the median isn't.
    last = max(graph["edges"], key=lambda edge: edge["p99_ns"])
    assert last["p50_ns"] < 1_000_000 < last["p99_ns"]
    # How deep a sampled disk's queue was is not known.
    assert trail.rows_of("SELECT * FROM disk_queue") == []


def test_a_request_is_followed_into_what_is_there_for_paths(make: MakeTrail) -> None:
    """The replica's part arrived after the second had ended."""
    rows = one(10, SECOND, 1_000_000, 60)
    rows["stitch"].append({"crumb": 12, "parent_crumb": 11, "ts": SECOND, "node": "m", "kind": "rpc"})
    rows["service_op"].append(
        {"crumb": 12, "node": "m", "ts": SECOND + 20, "dur": 500_000, "op": "repop", "weight": 0}
    )
    [path] = ask("path", make(rows), "--slowest", 1)
    assert {int(crumb["crumb"]) for crumb in path["crumbs"]} == {10, 11, 12}
    assert not path["holes"]


def test_gaps_between_seconds_are_no_gaps_between_arrivals(make: MakeTrail) -> None:
    """Two seconds of one request each 100 ms: the mean gap is that, not the minute between them."""
    rows = together(
        *(
            one(10 * number, minute * 60 * SECOND + tick * 100_000_000, 1_000_000, 60)
            for number, (minute, tick) in enumerate(
                ((minute, tick) for minute in (1, 2) for tick in range(10)), start=1
            )
        )
    )
    [point] = Trail(make(rows)).rows_of("SELECT * FROM arrival_point WHERE level = 'request'")
    assert point["mean_ns"] == pytest.approx(100_000_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_estimates_what_there_was(make: MakeTrail, seed: int) -> None:
    """Sums by weight are within three standard errors of the sums over all requests that it was drawn from."""
    random.seed(seed)
    minutes, exact, drawn = 40, [0, 0], []
    spread: list[list[int]] = []
    for minute in range(1, minutes + 1):
        chosen = random.randrange(60)
        for second in range(60):
            count = random.randrange(6)
            times = [random.randrange(100_000, 3_000_000) for _ in range(count)]
            exact = [exact[0] + count, exact[1] + sum(times)]
            if second == chosen:
                spread.append([count, sum(times)])
                at = (minute * 60 + second) * SECOND
                drawn += [
                    one(1000 * len(drawn) + 1000, at + i * 1_000_000, took, 60)
                    for i, took in enumerate(times)
                ]
    [found] = Trail(make(together(*drawn))).rows_of(
        "SELECT CAST(SUM(n) AS BIGINT) AS n, CAST(SUM(time_ns) AS BIGINT) AS time_ns FROM request_count"
    )
    for i, name in enumerate(("n", "time_ns")):
        mean = sum(values[i] for values in spread) / minutes
        variance = sum((values[i] - mean) ** 2 for values in spread) / (minutes - 1)
        assert abs(found[name] - exact[i]) < 3 * 60 * (minutes * variance) ** 0.5
        assert found[name] != exact[i], "an estimate"


def test_runs_are_compared_by_the_seconds_that_were_drawn(make: MakeTrail, tmp_path: Path) -> None:
    """A burst of slow requests, of which all are there, says nothing of what the run's requests usually take."""

    def run(first: int, burst: int) -> dict[str, list[dict[str, Any]]]:
        drawn = [
            one(10 * (first + number), (60 + number % 3) * SECOND + number * 1000, 1_000_000 + number % 7, 60)
            for number in range(300)
        ]
        known = [
            one(10 * (first + 300 + number), 90 * SECOND + number * 1000, 50_000_000, None)
            for number in range(burst)
        ]
        return together(*drawn, *known)

    a, b = (make(run(1, burst)).rename(tmp_path / name) for name, burst in (("a.trail", 0), ("b.trail", 600)))
    found = ask("diff", a, b, "--requests")
    assert found["sampled_seconds"] == {"a": 3, "b": 3}
    assert [(kind["a"], kind["b"]) for kind in found["kinds"]] == [(300, 300)]
    assert found["found"] == []
    assert "A is a sample: its requests of 3 seconds are compared" in said(a, b)
    # a part of a run of which all requests are there is compared as it is
    alone = ask("diff", a, b, "--requests", "--against-from", "+20s")
    assert alone["sampled_seconds"] == {"a": 3, "b": None}
    assert [(kind["a"], kind["b"]) for kind in alone["kinds"]] == [(300, 600)]
    assert "request" in {difference["metric"] for difference in alone["found"]}


def said(*trails: object) -> str:
    """What is printed of two trails' requests."""
    return CliRunner().invoke(app, ["diff", *map(str, trails), "--requests"]).output
