"""`iotrail path`: the way of a request, the holes in it, and what it refuses."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import IotrailError, TrailError, UnknownNameError, UsageError
from iotrail.requests import clocks, find
from iotrail.requests.path import paths
from iotrail.trail import Trail

from .conftest import MakeTrail


def ask(*words: object) -> str:
    """What `iotrail path` prints; its error is raised."""
    result = CliRunner().invoke(app, ["path", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_tree(store: Path) -> None:
    """Bob's read: each breadcrumb under what it works for, in the order it happened, with its own time."""
    lines = [line.rstrip() for line in ask(store, "--crumb", 11).splitlines()]
    assert lines[0] == "request 11 on head: head read for bob, 20.0 µs  ·  5 breadcrumbs on 3 machines"
    assert [re.split(r"(?<=\S)  +(?=\S*\s*\d*\s*\+)", line)[0] for line in lines[2:-1]] == [
        "head read",
        "├ CPU × 2",
        "├ head pages read_miss",
        "├ head calls lookup",
        "│ ├ head → mds",
        "│ └ ⇢ mds lookup",
        "│   ├ CPU",
        "│   ├ mds inodes read_hit",
        "│   └ mds → head",
        "├ head calls read",
        "│ ├ head → storage",
        "│ └ ⇢ storage read",
        "│   ├ CPU",
        "│   ├ storage pages read_miss",
        "│   ├ sda read",
        "│   ├ sda read (kernel)",
        "│   └ storage → head",
        "└ head → bob",
    ]
    disk = next(line for line in lines if "sda read " in line)
    assert re.sub(r"\s+", " ", disk) == "│ ├ sda read +900 ns 6.00 µs 8.00 KiB queued 1.00 µs"


def test_of_a_crumb_below(store: Path) -> None:
    """The storage node's breadcrumb works for both writes: the paths of both are shown."""
    text = ask(store, "--crumb", 80)
    assert "80 on s2 works for request 14 on head, 15 on head" in text
    assert "33.3 % of it is for this one" in text
    assert "66.7 % of it is for this one" in text


def test_slowest(store: Path) -> None:
    """Alice's two requests with a reply, the longer first."""
    text = ask(store, "--slowest", 5, "--client", "alice")
    assert [line for line in text.splitlines() if line.startswith("request")] == [
        "request 10 on head: head read for alice, 3.00 µs  ·  1 breadcrumb on 1 machine",
        "request 14 on head: head write for alice, 2.00 µs  ·  6 breadcrumbs on 3 machines",
    ]


def test_from_and_to(store: Path) -> None:
    """The trail begins at 1000: 4 µs later bob's read arrives; what arrives at the end isn't in."""
    found = json.loads(ask(store, "--slowest", 9, "--from", "+4us", "--to", "+29us", "--json"))
    assert [path["crumb"] for path in found] == [11]


def test_clocks(store: Path) -> None:
    """mds: the call 6000–10000 holds the serving 500–2500 in its middle, 8000 - 1500, at most 1000 wrong;
    s1: 17000 - 4100, at most 2000."""
    [path] = paths(Trail(store), [("head", 11)])
    hour = 3_600_000_000_000
    found = clocks.offsets(path, {})
    assert (found["mds"].shift, found["mds"].error) == (6500 - hour, 1000)
    assert (found["s1"].shift, found["s1"].error) == (12900 - 2 * hour, 2000)


def test_clocks_of_the_whole_trail_bound_one_path(make: MakeTrail) -> None:
    """A call that took long says little of a clock, and its middle may be wrong: a fast one between the same machines,
    of another request, says at what moment at the latest and the earliest. Here m is 1,000,000 ahead."""
    ahead = 1_000_000
    rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "stitch": []}
    # (crumb, called, returned, arrived at the callee, replied), all on the caller's clock
    for crumb, called, returned, arrived, replied in (
        # waited 9,000 for the message to arrive: the middle of the call is 4,500 off
        (10, 0, 10_000, 9_000, 10_000),
        (20, 50_000, 50_100, 50_030, 50_060),
    ):
        rows["service_op"] += [
            {"crumb": crumb, "ts": called, "dur": returned - called, "client": "a"},
            {"crumb": crumb + 1, "ts": called, "dur": returned - called, "kind": "client"},
            {"node": "m", "crumb": crumb + 2, "ts": arrived + ahead, "dur": replied - arrived},
        ]
        rows["stitch"] += [
            {"crumb": crumb + 1, "ts": called, "parent_crumb": crumb, "kind": "split"},
            {
                "node": "m",
                "crumb": crumb + 2,
                "ts": arrived + ahead,
                "parent_crumb": crumb + 1,
                "kind": "rpc",
            },
        ]
    path = make(rows)
    trail = Trail(path)
    bounds = clocks.of_trail(trail)
    [slow] = paths(trail, [("n", 10)])
    alone, found = clocks.offsets(slow, {})["m"], clocks.offsets(slow, bounds)["m"]
    assert abs(alone.shift + ahead) == 4500
    assert found.error is not None and abs(found.shift + ahead) <= found.error <= 100
    shown = json.loads(ask(path, "--crumb", 10, "--node", "n", "--json"))
    assert shown[0]["clocks"]["m"] == {"shift_ns": found.shift, "error_ns": found.error}


def test_timeline(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bar a record; the clocks' offsets are said to be estimates."""
    monkeypatch.setenv("COLUMNS", "120")
    text = ask(store, "--crumb", 11, "--timeline")
    bars = {line.split("  ")[0]: line.count("█") for line in text.splitlines()}
    width = bars["head read"]
    # 12 of 20 µs, 4 of them, 8 of them
    assert bars["├ head calls read"] == pytest.approx(width * 12 / 20, abs=1)
    assert bars["├ head calls lookup"] == pytest.approx(width * 4 / 20, abs=1)
    assert bars["│ └ ⇢ storage read"] == pytest.approx(width * 8 / 20, abs=1)
    assert "estimated from the calls between them (at most 2.00 µs wrong)" in text


def test_missing_reply(store: Path) -> None:
    """The second replica never answered: both its call and its serving say so."""
    [path] = paths(Trail(store), [("head", 14)])
    assert path.holes == [
        "22 on head: head calls write never ended: its reply is missing",
        "90 on s3: storage write never ended: its reply is missing",
    ]
    assert clocks.offsets(path, {})["s3"].error is None


def test_serving_without_records(make: MakeTrail) -> None:
    """A call that nobody recorded the serving of, and one whose serving is only stitched."""
    trail = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 0, "dur": 100, "client": "a"},
                {"crumb": 2, "ts": 10, "dur": 20, "kind": "client"},
                {"crumb": 3, "ts": 40, "dur": 20, "kind": "client"},
            ],
            "stitch": [
                {"crumb": 2, "ts": 10, "parent_crumb": 1, "kind": "split"},
                {"crumb": 3, "ts": 40, "parent_crumb": 1, "kind": "split"},
                {"node": "m", "crumb": 9, "ts": 7, "parent_crumb": 3, "kind": "rpc"},
            ],
        }
    )
    [path] = paths(Trail(trail), [("n", 1)])
    assert path.holes == [
        "2 on n: a call whose serving nobody recorded",
        "9 on m: stitched to the path (rpc), but no record of it is in the trail",
    ]
    assert "⇢ no records" in ask(trail, "--crumb", 1)
    assert "m is not drawn: no call tells its clock" in ask(trail, "--crumb", 1, "--timeline")


def test_parent_without_records(make: MakeTrail) -> None:
    """A storage node's records without those of who called it: the path starts at the caller, as a hole."""
    trail = make(
        {
            "service_op": [{"crumb": 5, "ts": 0, "dur": 100}],
            "stitch": [{"crumb": 5, "ts": 0, "parent_node": "gone", "parent_crumb": 4, "kind": "rpc"}],
        }
    )
    text = ask(trail, "--crumb", 5)
    assert "5 on n works for request 4 on gone" in text
    assert "hole: 4 on gone: other breadcrumbs work for it, but no record of it is in the trail" in text


def test_circle(make: MakeTrail) -> None:
    """1 works for 2 and 2 for 1: shown once each, and said."""
    trail = make(
        {
            "service_op": [{"crumb": 1, "ts": 0, "dur": 9}, {"crumb": 2, "ts": 1, "dur": 5}],
            "stitch": [
                {"crumb": 2, "ts": 1, "parent_crumb": 1, "kind": "split"},
                {"crumb": 1, "ts": 0, "parent_crumb": 2, "kind": "split"},
            ],
        }
    )
    text = ask(trail, "--crumb", 1)
    assert "1 on n works for no request: its stitches lead in a circle" in text
    assert "hole: 2 on n: 1 on n works for it, and it for that one: stitches lead in a circle" in text
    assert (
        text.count("head read") == 4
    )  # the head line, both breadcrumbs, and the first once more as shown above


def test_out_of_order(make: MakeTrail) -> None:
    """A part that begins before the whole, on the same clock."""
    trail = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 100, "dur": 50},
                {"crumb": 2, "ts": 40, "dur": 80, "kind": "internal"},
            ],
            "stitch": [{"crumb": 2, "ts": 110, "parent_crumb": 1, "kind": "split"}],
        }
    )
    [path] = paths(Trail(trail), [("n", 1)])
    assert path.holes == ["1 on n: 2 on n, which works for it, began before it"]


def test_number_used_twice(make: MakeTrail) -> None:
    """Two servings under one number are two requests, and the path says that the number isn't one request's."""
    trail = make({"service_op": [{"crumb": 7, "ts": 0, "dur": 10}, {"crumb": 7, "ts": 500, "dur": 20}]})
    assert [r["n"] for r in Trail(trail).rows_of("SELECT n FROM request")] == [2, 2]
    assert "served 2 times: the number was used again" in ask(trail, "--crumb", 7)


def test_deep(make: MakeTrail) -> None:
    """A path deeper than Python's stack."""
    depth = 1500
    trail = make(
        {
            "service_op": [{"crumb": i, "ts": i, "dur": 10 * depth - 2 * i} for i in range(1, depth + 1)],
            "stitch": [
                {"crumb": i, "ts": i, "parent_crumb": i - 1, "kind": "split"} for i in range(2, depth + 1)
            ],
        }
    )
    [path] = paths(Trail(trail), [("n", 1)])
    assert len(path.crumbs) == depth
    assert path.holes == []


def test_works_for_many(make: MakeTrail) -> None:
    """A flush of thirty writes: the paths of ten are shown, JSON has all."""
    trail = make(
        {
            "service_op": [{"crumb": c, "ts": c, "dur": 1, "client": "a"} for c in range(1, 31)]
            + [{"crumb": 99, "ts": 50, "dur": 9, "kind": "internal", "op": "flush"}],
            "stitch": [{"crumb": 99, "ts": 50, "parent_crumb": c, "kind": "coalesce"} for c in range(1, 31)],
        }
    )
    text = ask(trail, "--crumb", 99)
    assert "10 on n and 20 more: --json has all" in text
    assert text.count("head flush") == 10
    assert len(json.loads(ask(trail, "--crumb", 99, "--json"))) == 30


def test_which_node(make: MakeTrail) -> None:
    """A number on two machines is two breadcrumbs."""
    trail = make({"service_op": [{"crumb": 7, "node": "a", "ts": 0}, {"crumb": 7, "node": "b", "ts": 0}]})
    with pytest.raises(UsageError, match="breadcrumb 7 is on a, b: which") as raised:
        ask(trail, "--crumb", 7)
    assert raised.value.hint == "--node a"
    assert "request 7 on b" in ask(trail, "--crumb", 7, "--node", "b")


def test_no_such_crumb(store: Path) -> None:
    """The nearest requests are named."""
    with pytest.raises(UnknownNameError, match="no breadcrumb 12") as raised:
        ask(store, "--crumb", 1234)
    assert (
        raised.value.hint
        == "the nearest requests are 30 (head), 15 (head), 14 (head); --slowest 10 shows some"
    )
    with pytest.raises(UnknownNameError, match="no breadcrumb 10 on node s1"):
        ask(store, "--crumb", 10, "--node", "s1")


def test_no_requests(make: MakeTrail) -> None:
    """A trail of file operations says what to do to see requests."""
    with pytest.raises(TrailError, match="no requests in this trail") as raised:
        ask(make({}), "--slowest", 1)
    assert "docs/requests.md" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slowest", "1", "--client", "alic"], "no client alic"),
        (["--slowest", "1", "--op", "raed"], "no op raed"),
        (["--slowest", "1", "--component", "haed"], "no component haed"),
        (["--slowest", "0"], "expected 1 or more"),
        (["--slowest", "1", "--from", "noon"], "--from: expected a moment, found 'noon'"),
        (["--slowest", "1", "--from", "+2s", "--to", "+1s"], "is not before --to"),
        (["--slowest", "1", "--from", "+9h"], "no request is of all of these"),
        (["--slowest", "1", "--node", "head"], "--node says which --crumb"),
        (["--crumb", "10", "--client", "bob"], "--crumb can't be combined with --client"),
        ([], "which request"),
    ],
)
def test_refused(store: Path, words: list[str], said: str) -> None:
    """Each says what was expected and found."""
    with pytest.raises(IotrailError, match=said):
        ask(store, *words)


def test_names_are_quoted(make: MakeTrail) -> None:
    """A name is data: no SQL, no markup."""
    trail = make(
        {
            "service_op": [
                {"crumb": 1, "node": "o'n", "ts": 0, "dur": 1, "client": "o'brien", "component": "[b]:x:"}
            ]
        }
    )
    assert "[b]:x: read" in ask(trail, "--crumb", 1)
    assert "for o'brien" in ask(trail, "--slowest", 1, "--client", "o'brien")
    assert find.of_crumb(Trail(trail), 1, "o'n") == (("o'n", 1), [("o'n", 1)])


def test_bounds(store: Path) -> None:
    """Every file says which breadcrumbs its row groups may hold, whatever its order: a path skips the others."""
    asked = set()
    for file in store.rglob("*.parquet"):
        footer = pq.ParquetFile(file).metadata
        for group in range(footer.num_row_groups):
            for column in map(footer.row_group(group).column, range(footer.num_columns)):
                if column.path_in_schema in ("crumb", "parent_crumb"):
                    assert column.is_stats_set and column.statistics.has_min_max, file
                    asked.add((file.parent.name, column.path_in_schema))
    assert {("cpu_slice", "crumb"), ("service_op", "crumb"), ("stitch", "parent_crumb")} <= asked


def test_at_is_since_the_request_came(make: MakeTrail) -> None:
    """CPU time spent on the way to it, in the loop that took it, is before; here and on the machine it goes to."""
    trail = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 10_000, "dur": 9_000, "client": "a"},
                {"crumb": 2, "ts": 11_000, "dur": 5_000, "kind": "client"},
                {"node": "m", "crumb": 3, "ts": 70_000, "dur": 2_000},
            ],
            "cpu_slice": [
                {"crumb": 1, "ts": 4_000, "dur": 2_000, "kind": "kernel"},
                {"node": "m", "crumb": 3, "ts": 60_000, "dur": 1_000, "kind": "kernel"},
                {"node": "m", "crumb": 3, "ts": 71_000, "dur": 1_000, "kind": "kernel"},
            ],
            "stitch": [
                {"crumb": 2, "ts": 11_000, "parent_crumb": 1, "kind": "split"},
                {"node": "m", "crumb": 3, "ts": 70_000, "parent_crumb": 2, "kind": "rpc"},
            ],
        }
    )
    lines = [line.split() for line in ask(trail, "--crumb", 1, "--node", "n").splitlines()[2:-1]]
    ats = [next(word + unit for word, unit in itertools.pairwise(line) if word[0] in "+−") for line in lines]
    assert ats == ["+0ns", "−6.00µs", "+1.00µs", "+0ns", "−10.0µs"]
