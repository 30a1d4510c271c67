"""`iotrail whatif ram`, `move`, `merge` and `encode` on a store whose every change is known: it is run changed, too."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.request.conftest import MakeTrail
from tests.request.tiny_store import BLOCK, Setup, Store

SETUP = Setup({"ada": ("n1", "n2"), "bob": ("n3",)})
OPERATIONS, BLOCKS = 1500, 200


def ran(setup: Setup, seed: int, writes: float = 0.15) -> Store:
    store = Store(setup)
    store.run(seed, OPERATIONS, BLOCKS, writes)
    return store


def whatif(trail: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "iotrail", "whatif", words[0], str(trail), *words[1:], "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
def test_nothing_changes(make: MakeTrail, seed: int) -> None:
    """The model gives what was recorded, and so does a cache of the size that it had."""
    store = ran(SETUP, seed)
    trail = make(store.rows)
    found = whatif(trail, "ram", "--cache", "head", "--size", f"{SETUP.head_blocks * BLOCK}")
    last = found["clients"][-1]["case"]
    for name in SETUP.place:
        for case in ("simulated", last):
            said, was = client(found, case, name), client(found, "as recorded", name)
            assert said["mean_ns"] == pytest.approx(mean(store, name), rel=0.01)
            assert said["mean_at_recorded_times_ns"] == pytest.approx(mean(store, name), rel=0.01)
            assert said["disk_requests"] == pytest.approx(was["disk_requests"], rel=0.01)
    assert hits(found, "as recorded") == pytest.approx(truth(store))
    assert hits(found, last) == pytest.approx(truth(store), abs=0.01)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("blocks", [16, 32, 128])
def test_more_or_less_memory_of_the_head(make: MakeTrail, seed: int, blocks: int) -> None:
    found = whatif(make(ran(SETUP, seed).rows), "ram", "--cache", "head", "--size", f"{blocks * BLOCK}")
    changed = ran(replace(SETUP, head_blocks=blocks), seed)
    case = found["clients"][-1]["case"]
    assert hits(found, case)["head"] == pytest.approx(truth(changed)["head"], abs=0.02)
    for node, share in truth(changed).items():
        assert hits(found, case)[node] == pytest.approx(share, abs=0.02)
    for name in SETUP.place:
        assert client(found, case, name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.05)
    said = sum(client(found, case, name)["disk_requests"] for name in SETUP.place)
    assert said == pytest.approx(sum(changed.disk_requests.values()), rel=0.03)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("blocks", [16, 128])
def test_more_or_less_memory_of_nodes(make: MakeTrail, seed: int, blocks: int) -> None:
    found = whatif(make(ran(SETUP, seed).rows), "ram", "--cache", "node", "--size", f"{blocks * BLOCK}")
    changed = ran(replace(SETUP, node_blocks=blocks), seed)
    case = found["clients"][-1]["case"]
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
def test_copies(make: MakeTrail, seed: int, copies: int) -> None:
    found = whatif(make(ran(SETUP, seed).rows), "encode", "--client", "ada", "--copies", str(copies))
    changed = ran(Setup({"ada": ("n1", "n2", "n3")[:copies], "bob": ("n3",)}), seed)
    for name in SETUP.place:
        assert client(found, "changed", name)["mean_ns"] == pytest.approx(mean(changed, name), rel=0.15)
    said = sum(client(found, "changed", name)["disk_requests"] for name in SETUP.place)
    assert said == pytest.approx(sum(changed.disk_requests.values()), rel=0.08)
