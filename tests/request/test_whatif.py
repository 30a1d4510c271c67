"""`iotrail whatif ram`, `move`, `merge` and `encode` on a store whose every change is known: it is run changed, too."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iotrail import units
from tests.command import iotrail, run
from tests.request.conftest import MakeTrail, write_rows
from tests.request.tiny_store import BLOCK, Setup, Store

SETUP = Setup({"ada": ("n1", "n2"), "bob": ("n3",)})
OPERATIONS, BLOCKS = 1500, 200
# What is asked of the caches of each trail in one command, in blocks.
HEAD_SIZES, NODE_SIZES = (16, 32, SETUP.head_blocks, 128), (16, 128)

# `recorded(seed)`: the trail of SETUP's run with it.
MakeRecorded = Callable[[int], Path]


def ran(setup: Setup, seed: int, writes: float = 0.15) -> Store:
    store = Store(setup)
    store.run(seed, OPERATIONS, BLOCKS, writes)
    return store


@pytest.fixture(scope="module")
def recorded(native: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeRecorded:
    """The trails that several tests ask, each made once."""

    @cache
    def make_recorded(seed: int) -> Path:
        return write_rows(native, ran(SETUP, seed).rows, tmp_path_factory.mktemp("recorded") / "made.trail")

    return make_recorded


def whatif(trail: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(iotrail("whatif", words[0], trail, *words[1:], "--json"))
    return found


@cache
def of_sizes(trail: Path, name: str, sizes: Sequence[int]) -> dict[str, Any]:
    """What caches of these sizes would bring: asked once."""
    return whatif(trail, "ram", "--cache", name, "--size", ",".join(f"{size * BLOCK}" for size in sizes))


def case_of(blocks: int) -> str:
    """How the answer calls a cache of so many blocks."""
    return units.size(blocks * BLOCK)


def client(found: dict[str, Any], case: str, name: str) -> dict[str, Any]:
    [only] = [each for each in found["clients"] if each["case"] == case and each["client"] == name]
    return dict(only)


def hits(found: dict[str, Any], case: str) -> dict[str, float]:
    return {
        each["cache"].split("/")[0]: each["hit_share"] for each in found["caches"] if each["case"] == case
    }


def truth(store: Store) -> dict[str, float]:
    return {node: 1 - missed / reads for node, (reads, missed) in store.reads.items() if reads}


def mean(store: Store, name: str) -> float:
    return sum(store.responses[name]) / len(store.responses[name])


@pytest.mark.parametrize("seed", range(2))
def test_nothing_changes(recorded: MakeRecorded, seed: int) -> None:
    """The model gives what was recorded, and so does a cache of the size that it had."""
    store = ran(SETUP, seed)
    found = of_sizes(recorded(seed), "head", HEAD_SIZES)
    same = case_of(SETUP.head_blocks)
    for name in SETUP.place:
        for case in ("simulated", same):
            said, was = client(found, case, name), client(found, "as recorded", name)
            assert said["mean_ns"] == pytest.approx(mean(store, name), rel=0.01)
            assert said["mean_at_recorded_times_ns"] == pytest.approx(mean(store, name), rel=0.01)
            assert said["disk_requests"] == pytest.approx(was["disk_requests"], rel=0.01)
    assert hits(found, "as recorded") == pytest.approx(truth(store))
    assert hits(found, same) == pytest.approx(truth(store), abs=0.01)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("blocks", sorted({*HEAD_SIZES} - {SETUP.head_blocks}))
def test_more_or_less_memory_of_the_head(recorded: MakeRecorded, seed: int, blocks: int) -> None:
    found = of_sizes(recorded(seed), "head", HEAD_SIZES)
    changed = ran(replace(SETUP, head_blocks=blocks), seed)
    case = case_of(blocks)
    assert hits(found, case)["head"] == pytest.approx(truth(changed)["head"], abs=0.02)
    for node, share in truth(changed).items():
        assert hits(found, case)[node] == pytest.approx(share, abs=0.02)
    for name in SETUP.place:
        assert client(found, case, name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.05)
    said = sum(client(found, case, name)["disk_requests"] for name in SETUP.place)
    assert said == pytest.approx(sum(changed.disk_requests.values()), rel=0.03)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("blocks", NODE_SIZES)
def test_more_or_less_memory_of_nodes(recorded: MakeRecorded, seed: int, blocks: int) -> None:
    found = of_sizes(recorded(seed), "node", NODE_SIZES)
    changed = ran(replace(SETUP, node_blocks=blocks), seed)
    case = case_of(blocks)
    for node, share in truth(changed).items():
        assert hits(found, case)[node] == pytest.approx(share, abs=0.02)
    for name in SETUP.place:
        assert client(found, case, name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.05)


@pytest.mark.parametrize("seed", range(2))
def test_a_merge(make: MakeTrail, seed: int) -> None:
    setup = Setup({"ada": ("n1",), "bob": ("n2",)})
    trail = make(ran(setup, seed).rows)
    found = whatif(trail, "merge", "--client", "ada", "--with", "bob")
    moved = whatif(trail, "move", "--client", "bob", "--from", "n2", "--to", "n1")
    assert found["clients"] == moved["clients"]
    changed = ran(Setup({"ada": ("n1",), "bob": ("n1",)}), seed)
    assert hits(found, "changed")["n1"] == pytest.approx(truth(changed)["n1"], abs=0.02)
    for name in setup.place:
        assert client(found, "changed", name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.08)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("copies", [1, 3])
def test_copies(recorded: MakeRecorded, seed: int, copies: int) -> None:
    found = whatif(recorded(seed), "encode", "--client", "ada", "--copies", str(copies))
    changed = ran(Setup({"ada": ("n1", "n2", "n3")[:copies], "bob": ("n3",)}), seed)
    for name in SETUP.place:
        assert client(found, "changed", name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.15)
    said = sum(client(found, "changed", name)["disk_requests"] for name in SETUP.place)
    assert said == pytest.approx(sum(changed.disk_requests.values()), rel=0.08)


def refused(trail: Path, *words: str) -> str:
    done = run("whatif", words[0], trail, *words[1:])
    assert done.returncode in (1, 2) and done.stdout == "" and "Traceback" not in done.stderr
    return done.stderr


def test_what_is_not_there_is_refused(make: MakeTrail) -> None:
    store = Store(SETUP)
    store.run(0, 100, BLOCKS, 0.2)
    trail = make(store.rows)
    for words, said in {
        ("ram", "--size", "1M"): "--cache: expected which",
        ("ram", "--size", "1M", "--cache", "hed"): "no cache hed",
        ("ram", "--size", "1k", "--cache", "head"): "expected at least a block, 65536 bytes, found 1024",
        ("ram", "--size", "1M", "--cache", "head", "--policy", "mru"): "mru",
        ("ram", "--size", "1M", "--cache", "head", "--on", "no-such-disk"): "no-such-disk",
        ("move", "--client", "eve", "--to", "n1"): "no client eve",
        (
            "move",
            "--client",
            "ada",
            "--to",
            "n1",
        ): "--to: expected 2 machines, one for each of n1, n2, found 1",
        ("move", "--client", "bob", "--from", "n3", "--to", "n9"): "no storage node n9",
        ("move", "--client", "bob", "--from", "n1", "--to", "n2"): "no files of bob on n1",
        ("merge", "--client", "bob", "--with", "bob"): "all files of bob are on machines of bob",
        ("encode", "--client", "ada", "--copies", "4"): "expected 1 to 3",
        ("encode", "--client", "ada", "--copies", "0"): "expected 1 to 3",
    }.items():
        assert said in refused(trail, *words), words


def test_a_trail_of_something_else_is_refused(make: MakeTrail, tmp_path: Path) -> None:
    request = {"ts": 5, "dur": 10, "node": "head", "crumb": 1, "client": "ada"}
    trail = make({"service_op": [request | {"client": None}]})
    assert "no requests of clients" in refused(trail, "ram", "--size", "1M")


def test_a_sample_is_refused(make: MakeTrail) -> None:
    trail = make(
        {"service_op": [{"ts": 5, "dur": 10, "node": "head", "crumb": 1, "client": "ada", "weight": 7}]}
    )
    assert "a sample of the requests" in refused(trail, "ram", "--size", "1M")


def test_without_caches_and_disks(make: MakeTrail) -> None:
    trail = make(
        {"service_op": [{"ts": 5, "dur": 10, "node": "head", "crumb": 1, "client": "ada", "file": 3}]}
    )
    assert "no accesses to buffer caches" in refused(trail, "ram", "--size", "1M")
    assert "no storage node" in refused(trail, "move", "--client", "ada", "--from", "head", "--to", "head")


def test_a_hit_whose_miss_nobody_knows_is_refused(make: MakeTrail) -> None:
    """Nothing in the record says what a miss costs: no number is made up."""
    rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "buffer_op": []}
    for at in range(8):
        rows["service_op"].append(
            {"ts": 1000 * at, "dur": 500, "node": "head", "crumb": at + 1, "client": "ada"}
        )
        kind = "write" if at < 4 else "read_hit"
        rows["buffer_op"].append(
            {
                "ts": 1000 * at + 100,
                "node": "head",
                "crumb": at + 1,
                "kind": kind,
                "file": 3,
                "pos": at % 4 * 4096,
                "length": 4096,
            }
        )
    trail = make(rows)
    assert "what a miss of head on head costs" in refused(trail, "ram", "--size", "4k")
    found = whatif(trail, "ram", "--size", "64k")
    assert client(found, "64.0 KiB", "ada")["mean_ns"] == 500


def test_answers_for_people(make: MakeTrail) -> None:
    store = Store(SETUP)
    store.run(0, 200, BLOCKS, 0.2)
    trail = make(store.rows)
    said = iotrail("whatif", "encode", trail, "--client", "ada", "--copies", "1")
    assert "ada's files in 1 copies" in said and "1 file of ada: 2 → 1 copies" in said
    for name in ("as recorded", "simulated", "changed", "disk I/Os", "none waits"):
        assert name in said


def test_what_an_answer_does_not_rest_on_is_said(make: MakeTrail) -> None:
    """Lost records, a request without a reply, and one that waits for what waits for it."""
    rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "stitch": [], "buffer_op": []}
    for crumb, ts, dur, kind, name in (
        (1, 0, 100, "server", "ada"),
        (2, 10, 40, "internal", None),
        (3, 10, 30, "internal", None),
        (4, 500, None, "server", "ada"),
        (5, 600, 100, "server", "bob"),
    ):
        rows["service_op"].append(
            {"ts": ts, "dur": dur, "node": "head", "crumb": crumb, "kind": kind, "client": name}
        )
    for child, parent in ((2, 1), (2, 3), (3, 2)):
        rows["stitch"].append(
            {"ts": 10, "node": "head", "crumb": child, "parent_node": "head", "parent_crumb": parent}
        )
        rows["stitch"][-1] |= {"kind": "coalesce"}
    rows["buffer_op"].append(
        {"ts": 610, "node": "head", "crumb": 5, "kind": "write", "file": 3, "pos": 0, "length": 4096}
    )
    rows["unseen"] = [
        {"node": "head", "kind": "dropped", "amount": 1203, "detail": "records that found no room"}
    ]
    found = whatif(make(rows), "ram", "--size", "1M")
    assert found["left_out"] == {
        "requests without a reply, whose response times aren't known": 1,
        "records that found no room": 1203,
    }
    assert any("1 request would wait for itself" in note for note in found["notes"])
    assert client(found, "as recorded", "ada")["mean_ns"] == 100
    assert client(found, "simulated", "ada")["mean_ns"] is None
    assert client(found, "simulated", "bob")["mean_ns"] == 100


CHOSEN = {"ada": ("n1", "n2"), "amy": ("n1", "n2"), "bob": ("n3", "n4"), "bea": ("n3", "n4")}


@pytest.mark.parametrize("seed", range(2))
def test_a_merge_where_the_least_busy_copy_is_read(make: MakeTrail, seed: int) -> None:
    setup = Setup({**CHOSEN, "bea": ("n5", "n6")}, read="least_busy")
    trail = make(ran(setup, seed).rows)
    found = whatif(trail, "move", "--client", "bob", "--from", "n3,n4", "--to", "n1,n2")
    changed = ran(replace(setup, place={**setup.place, "bob": ("n1", "n2")}), seed)
    for name in setup.place:
        assert client(found, "simulated", name)["mean_ns"] == pytest.approx(
            client(found, "as recorded", name)["mean_ns"], rel=0.05
        )
        assert client(found, "changed", name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.1)
    assert any(note.startswith("reads go to the least busy copy") for note in found["notes"])


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ("by_region", ""),
        ("in_turn", "each is taken to come from"),
        ("least_busy", "reads go to the least busy copy"),
    ],
)
def test_how_copies_are_chosen_is_said(make: MakeTrail, read: str, said: str) -> None:
    """Where nothing says how, nothing is claimed."""
    store = Store(Setup(CHOSEN, read=read))  # type: ignore[arg-type]
    store.run(0, 400, BLOCKS, 0.2)
    notes = whatif(make(store.rows), "ram", "--cache", "head", "--size", "2M")["notes"]
    about = [note for note in notes if "copies" in note or "copy" in note]
    assert [said in note for note in about] == ([True] if said else [])
