"""`iotrail demand`: who pays for what, to the last nanosecond and byte."""

import json
import random
from fractions import Fraction
from typing import Any

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import IotrailError, TrailError
from iotrail.trail import Trail

from .conftest import MakeTrail

SUMS = "SUM(n) AS n, SUM(time_ns) AS time_ns, SUM(bytes) AS bytes, SUM(hits) AS hits"


def ask(*words: object) -> str:
    """What `iotrail demand` prints; its error is raised."""
    result = CliRunner().invoke(app, ["demand", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_table(store: Any) -> None:
    """The story's demand as a person reads it: the golden of module demand has the numbers."""
    rows = [line.split() for line in ask(store).splitlines()]
    assert rows[0] == ["client", "resource", "n", "time_ns", "bytes", "hits"]
    assert ["alice", "cpu", "1", "1.10", "µs", "–", "–"] in rows
    assert ["bob", "disk", "2", "10.8", "µs", "16.0", "KiB", "–"] in rows
    assert rows[-1] == ["unattributed", "disk", "1", "1.00", "µs", "512", "B", "–"]


def test_every(store: Any) -> None:
    """By 20 µs from 0: the flush of 40 µs is billed when it was done, not when it was asked for."""
    rows = json.loads(ask(store, "--by", "client,resource", "--every", "20us", "--to", "+1s", "--json"))
    assert [r["time_ns"] for r in rows if (r["client"], r["resource"]) == ("alice", "cpu")] == [800, 300]
    assert [r["ts"] for r in rows if (r["client"], r["resource"]) == ("alice", "cpu")] == [0, 40_000]


def test_from_to(store: Any) -> None:
    """From 30,000 until before 34,000 of the head's clock: both writes into the cache."""
    rows = json.loads(ask(store, "--from", "+29us", "--to", "+33us", "--json"))
    assert rows == [
        {
            "client": "alice",
            "resource": "cache",
            "n": 1,
            "time_ns": 0,
            "bytes": 4096,
            "hits": 0,
            "unknown": 0,
        },
        {"client": "bob", "resource": "cache", "n": 1, "time_ns": 0, "bytes": 8192, "hits": 0, "unknown": 0},
    ]


def test_program_and_kernel(make: MakeTrail) -> None:
    """A thread's tasks and the kernel's slices of it are the same time but for its waiting, a disk's I/O seen twice is one."""
    trail = Trail(
        make(
            {
                "service_op": [{"crumb": 1, "ts": 0, "dur": 100, "client": "a"}],
                "cpu_slice": [
                    {"thread": 1, "crumb": 1, "ts": 0, "dur": 30, "kind": "kernel"},
                    {"thread": 1, "crumb": 0, "ts": 40, "dur": 50, "kind": "kernel"},
                    {"thread": 1, "crumb": 1, "ts": 0, "dur": 40, "kind": "user"},
                    {"thread": 2, "crumb": 1, "ts": 0, "dur": 12, "cpu_ns": 7, "kind": "user"},
                    {"thread": 3, "crumb": 1, "ts": 9, "dur": None, "kind": "kernel"},
                ],
                "disk_op": [
                    {"crumb": 1, "ts": 0, "dur": 50, "kind": "program", "length": 10},
                    {"crumb": 1, "ts": 1, "dur": 40, "issued": 11, "kind": "kernel", "length": 10},
                    {
                        "crumb": 1,
                        "ts": 1,
                        "dur": 40,
                        "issued": 11,
                        "kind": "kernel",
                        "length": 6,
                        "merged": 1,
                    },
                    {"crumb": 1, "ts": 0, "dur": 5, "kind": "program", "dev": "sdb", "length": 1},
                ],
            }
        )
    )
    rows = trail.rows_of(f"SELECT client, resource, {SUMS} FROM demand GROUP BY ALL ORDER BY ALL")
    assert [(r["client"], r["resource"], r["n"], r["time_ns"], r["bytes"]) for r in rows] == [
        ("a", "cpu", 3, 37, 0),
        ("a", "disk", 3, 30 + 5, 17),
        (None, "cpu", 1, 50, 0),
    ]


def test_time_on_a_cpu_that_nobody_measured_is_unknown(make: MakeTrail) -> None:
    """Neither the time between a program's switches nor 0; what is known of others stays."""
    path = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 0, "dur": 100, "client": "a"},
                {"crumb": 2, "ts": 0, "dur": 100, "client": "b"},
            ],
            "cpu_slice": [
                {"thread": 1, "crumb": 1, "ts": 0, "dur": 40, "kind": "user"},
                {"thread": 2, "crumb": 2, "ts": 0, "dur": 40, "kind": "user"},
                {"thread": 2, "crumb": 2, "ts": 50, "dur": 40, "cpu_ns": 3, "kind": "user"},
                {"thread": 3, "crumb": 2, "ts": 0, "dur": None, "kind": "kernel"},
            ],
        }
    )
    done = CliRunner().invoke(app, ["demand", str(path), "--json"])
    assert [(r["client"], r["n"], r["time_ns"], r["unknown"]) for r in json.loads(done.stdout)] == [
        ("a", 1, None, 1),
        ("b", 3, 3, 2),
    ]
    assert "of 3 of 4 slices nobody knows how much was on a CPU" in done.stderr


class Story:
    """Random stitches: mostly from new to old breadcrumbs, some in circles, some to nothing, and their costs."""

    def __init__(self, seed: int) -> None:
        random.seed(seed)
        self.crumbs = list(range(1, 60))
        self.weights: dict[tuple[int, int], int] = {}
        for child in self.crumbs[8:]:
            for _ in range(random.choice([0, 1, 1, 1, 2, 3, 6])):
                back = random.random() < 0.03
                parent = (
                    random.choice(self.crumbs[child:] or [child]) if back else random.randint(1, child - 1)
                )
                if random.random() < 0.03:
                    parent += 1000
                weight = random.choice([0, 1, 4096, 8192, 3, 10**9, 7, -5])
                self.weights[child, parent] = self.weights.get((child, parent), 0) + max(weight, 0)
        self.client = {c: random.choice(["a", "b", "c", None]) for c in self.crumbs}
        self.cost = {c: random.choice([0, 1, 2, 9, 1000, 12_345, 2**40 + 1, 10**15]) for c in self.crumbs}

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """As a trail's tables."""
        return {
            "service_op": [{"crumb": c, "ts": c, "dur": 1, "client": self.client[c]} for c in self.crumbs],
            "stitch": [
                {"crumb": c, "ts": c, "parent_crumb": p, "kind": "coalesce", "weight": w}
                for (c, p), w in self.weights.items()
            ],
            "cpu_slice": [
                {"crumb": c, "ts": c, "dur": cost, "kind": "kernel"} for c, cost in self.cost.items()
            ],
        }

    def owed(self) -> dict[int, dict[int | None, Fraction]]:
        """Breadcrumb -> request -> part, by plain recursion; None what leads in a circle."""
        parents: dict[int, dict[int, Fraction]] = {}
        for child in self.crumbs:
            given = {p: w for (c, p), w in self.weights.items() if c == child}
            total = sum(given.values())
            parents[child] = {
                p: Fraction(w, total) if total else Fraction(1, len(given)) for p, w in given.items()
            }

        def up(crumb: int, seen: frozenset[int]) -> dict[int | None, Fraction]:
            if crumb in seen:
                return {None: Fraction(1)}
            if not parents.get(crumb):
                return {crumb: Fraction(1)}
            found: dict[int | None, Fraction] = {}
            for parent, part in parents[crumb].items():
                for root, share in up(parent, seen | {crumb}).items():
                    found[root] = found.get(root, Fraction(0)) + part * share
            return found

        return {crumb: up(crumb, frozenset()) for crumb in self.crumbs}


@pytest.mark.parametrize("seed", range(6))
def test_exact(make: MakeTrail, seed: int) -> None:
    """However breadcrumbs are stitched: what all are billed is what was used, and each is billed its part."""
    story = Story(seed)
    trail = Trail(make(story.rows()))
    assert trail.rows_of(f"SELECT resource, {SUMS} FROM demand GROUP BY ALL") == trail.rows_of(
        f"SELECT resource, {SUMS} FROM resource_use GROUP BY ALL"
    )
    covered = trail.rows_of("SELECT crumb, lo, hi FROM share WHERE crumb < 1000 ORDER BY crumb, lo")
    for crumb in story.crumbs:
        parts = [(r["lo"], r["hi"]) for r in covered if r["crumb"] == crumb]
        assert [lo for lo, _ in parts] == [0, *(hi for _, hi in parts[:-1])]
        assert parts[-1][1] == 1 << 30
    circular = {crumb for crumb, roots in story.owed().items() if None in roots}
    found: dict[tuple[int, int | None], int] = {}
    for row in trail.rows_of("SELECT crumb, root_crumb, hi - lo AS part FROM share"):
        key = row["crumb"], row["root_crumb"]
        found[key] = found.get(key, 0) + row["part"]
    for crumb, roots in story.owed().items():
        if crumb not in circular:
            assert {root for root, part in roots.items() if part} >= {
                root for (c, root), part in found.items() if c == crumb
            }
            for root, part in roots.items():
                # each step rounds by one part at most
                assert abs(Fraction(found.get((crumb, root), 0), 1 << 30) - part) < Fraction(200, 1 << 30)


def test_circles_are_paid_by_nobody(make: MakeTrail) -> None:
    """2 works half for 1 and half for 3, which works for it: half of it is owed by nobody."""
    trail = Trail(
        make(
            {
                "service_op": [{"crumb": c, "ts": c, "dur": 1, "client": "a"} for c in (1, 2, 3)],
                "stitch": [
                    {"crumb": 2, "ts": 2, "parent_crumb": 1, "kind": "coalesce"},
                    {"crumb": 2, "ts": 2, "parent_crumb": 3, "kind": "coalesce"},
                    {"crumb": 3, "ts": 3, "parent_crumb": 2, "kind": "split"},
                ],
                "cpu_slice": [{"crumb": 2, "ts": 2, "dur": 1001, "kind": "kernel"}],
            }
        )
    )
    rows = trail.rows_of("SELECT client, time_ns FROM demand ORDER BY client NULLS LAST")
    assert [(r["client"], r["time_ns"]) for r in rows] == [("a", 500), (None, 501)]


def test_depth(make: MakeTrail) -> None:
    """Sixty-four stitches up are billed, what is further isn't."""
    trail = Trail(
        make(
            {
                "service_op": [{"crumb": 1, "ts": 1, "dur": 1, "client": "a"}],
                "stitch": [
                    {"crumb": c, "ts": c, "parent_crumb": c - 1, "kind": "split"} for c in range(2, 80)
                ],
                "cpu_slice": [{"crumb": c, "ts": c, "dur": 1, "kind": "kernel"} for c in range(1, 80)],
            }
        )
    )
    rows = trail.rows_of("SELECT client, SUM(time_ns) AS time_ns FROM demand GROUP BY ALL ORDER BY ALL")
    assert [(r["client"], r["time_ns"]) for r in rows] == [("a", 65), (None, 14)]


MODULES = (
    "request",
    "record",
    "crumb_parent",
    "share",
    "demand",
    "point",
    "crumb_span",
    "branch",
    "graph_edge",
)


def rows_of_modules(trail: Trail) -> dict[str, list[Any]]:
    """All that the modules of requests say."""
    return {name: trail.query(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in MODULES}


def test_numbered_nodes(store: Any) -> None:
    """Numbers for the names of machines change no row, nor does asking for them again."""
    trail = Trail(store)
    named = rows_of_modules(trail)
    trail.number_nodes()
    assert trail.query("SELECT node FROM service_op").types[0].id == "enum"
    assert rows_of_modules(trail) == named
    trail.number_nodes()
    assert rows_of_modules(trail) == named
    assert all(named.values())


def test_numbered_parent(make: MakeTrail) -> None:
    """The machine of a parent need have no record of its own."""
    trail = Trail(
        make(
            {
                "service_op": [{"crumb": 1, "ts": 1, "dur": 1, "client": "a"}],
                "stitch": [{"crumb": 1, "ts": 1, "parent_node": "away", "parent_crumb": 7, "kind": "rpc"}],
            }
        )
    )
    trail.number_nodes()
    assert trail.rows_of("SELECT crumb, root_node, root_crumb, client FROM share") == [
        {"crumb": 1, "root_node": "away", "root_crumb": 7, "client": None}
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "clint"], "no dimension clint"),
        (["--by", ""], "expected one or more names"),
        (["--every", "often"], "expected a time, found 'often'"),
        (["--from", "later"], "--from: expected a moment"),
    ],
)
def test_refused(store: Any, words: list[str], said: str) -> None:
    """What was expected and found."""
    with pytest.raises(IotrailError, match=said):
        ask(store, *words)


def test_no_requests(make: MakeTrail) -> None:
    """Nothing to bill to."""
    with pytest.raises(TrailError, match="no requests in this trail"):
        ask(make({}))
