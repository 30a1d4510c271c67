"""Who holds everybody up: planted causes are named over several seeds, and of balanced programs nothing is said."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from iotrail.trail import Trail

from ..causal.synthetic import Step, Work, lock_tables, tables
from ..sql.tiny import ingest

US, MS = 1_000, 1_000_000
SEEDS = range(5)


def ask(tmp_path: Path, native: Path, made: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """The rows of the finding."""
    made.setdefault("file_op", pa.table({"ts": pa.array([], pa.int64())}))
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    return Trail(ingest(native, made, folder / "x.trail")).rows_of("SELECT * FROM finding_held_up")


def noise(rng: Random, mean: int) -> int:
    """A latency of a shared disk: seldom far above its mean."""
    return int(rng.expovariate(1 / mean)) + 1


def balanced(rank: int, turn: int, rng: Random) -> list[Step]:
    """Computes as much as the others, give or take a tenth, without a CPU some of the time; writes as much to one file."""
    return [
        ("compute", rng.randrange(900 * US, 1100 * US), rng.choice([0, 0, 2 * MS])),
        ("pwrite", "/scratch/out", noise(rng, 300 * US)),
    ]


def slow_computing(rank: int, turn: int, rng: Random) -> list[Step]:
    steps = balanced(rank, turn, rng)
    return [("compute", 5 * MS, 0), *steps] if rank == 2 else steps


def slow_io(rank: int, turn: int, rng: Random) -> list[Step]:
    return balanced(rank, turn, rng) + [("pwrite", "/scratch/log", 4 * MS + noise(rng, MS))] * (rank == 1)


def slow_file(rank: int, turn: int, rng: Random) -> list[Step]:
    """Each in its turn writes a file that takes longer."""
    return balanced(rank, turn, rng) + [("pwrite", "/slow/index", 6 * MS)] * (turn % 4 == rank)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_mpi", [True, False])
def test_held_up_fires(seed: int, is_mpi: bool, tmp_path: Path, native: Path) -> None:
    """For one rank that computes more."""
    [row] = ask(tmp_path, native, tables(slow_computing, seed=seed, is_mpi=is_mpi))
    who = "rank 2" if is_mpi else "thread 1003"
    assert row["title"].startswith(f"solver: {who} holds the others up: they wait ")
    assert row["thread"] == 13
    assert row["file"] is None
    assert row["severity"] == "high"
    assert row["evidence"].startswith("Mostly it computes meanwhile")
    assert row["evidence"].endswith("nothing recorded explains 0 %.")
    # 100 rounds of 5 ms, less what the others had computed themselves
    assert 300 * MS < row["cost_ns"] < 500 * MS


@pytest.mark.parametrize("seed", SEEDS)
def test_held_up_fires_for_a_rank_with_more_io(seed: int, tmp_path: Path, native: Path) -> None:
    made = tables(slow_io, seed=seed)
    [row] = ask(tmp_path, native, made)
    assert row["title"].startswith("solver: rank 1 holds the others up: ")
    assert row["evidence"].startswith("Mostly it is in pwrite of /scratch/log meanwhile (")
    paths = dict(zip(made["file"]["file"].to_pylist(), made["file"]["path"].to_pylist(), strict=True))
    assert (row["thread"], paths[row["file"]]) == (12, "/scratch/log")


@pytest.mark.parametrize("seed", SEEDS)
def test_held_up_fires_for_a_slow_file(seed: int, tmp_path: Path, native: Path) -> None:
    """Whoever writes it."""
    [row] = ask(tmp_path, native, tables(slow_file, seed=seed))
    assert row["title"].startswith("solver: /slow/index holds the others up: ")
    assert (row["process"], row["thread"]) == (None, None)
    assert row["file"] is not None
    assert row["severity"] == "high"


@pytest.mark.parametrize("seed", SEEDS)
def test_held_up_fires_for_a_lock_held_long(seed: int, tmp_path: Path, native: Path) -> None:
    made = lock_tables(
        lambda thread, rng: 5 * MS if thread == 3 else rng.randrange(50 * US, 100 * US), seed=seed
    )
    [row] = ask(tmp_path, native, made)
    assert row["title"].startswith("server: thread 1004 holds the others up with a lock: ")
    assert row["thread"] == 14
    assert row["evidence"].startswith("Mostly it computes meanwhile")


def private(rank: int, turn: int, rng: Random) -> list[Step]:
    return [("compute", rng.randrange(MS, 2 * MS), 0), ("pwrite", f"/scratch/part.{rank}", noise(rng, MS))]


def in_turn(rank: int, turn: int, rng: Random) -> list[Step]:
    """As much work for all, but not in each round: nobody in particular is late."""
    return [("compute", 2 * MS if turn % 4 == rank else 500 * US, 0), *balanced(rank, turn, rng)]


def not_on_a_cpu(rank: int, turn: int, rng: Random) -> list[Step]:
    """One rank waits for a CPU each time: its core is taken, it isn't slow."""
    return [("compute", MS, 5 * MS if rank == 0 else 0)]


QUIET: dict[str, tuple[Work, int]] = {
    "balanced ranks": (balanced, 4),
    "two balanced ranks": (balanced, 2),
    "sixteen balanced ranks": (balanced, 16),
    "a file each": (private, 4),
    "ranks that are late in turn": (in_turn, 4),
    "a rank without a CPU": (not_on_a_cpu, 4),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", QUIET)
def test_held_up_spares_balanced_programs(name: str, seed: int, tmp_path: Path, native: Path) -> None:
    work, ranks = QUIET[name]
    made = tables(work, seed=seed, ranks=ranks)
    assert ask(tmp_path, native, made) == []
    # they do wait
    waited = sum(made["wait"]["dur"].to_pylist())
    assert waited > 0.05 * sum(made["critical_path"]["dur"].to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_held_up_spares_locks_that_all_hold_alike(seed: int, tmp_path: Path, native: Path) -> None:
    made = lock_tables(lambda _, rng: rng.randrange(500 * US, 700 * US), seed=seed)
    assert made["wait"].num_rows > 100
    assert ask(tmp_path, native, made) == []


def test_held_up_spares_waiting_that_is_not_explained(tmp_path: Path, native: Path) -> None:
    """Of more than half of what they wait nobody knows for what."""
    made = tables(slow_computing)
    assert len(ask(tmp_path, native, made)) == 1
    waits = made["wait"].to_pylist()
    for row in waits[: len(waits) * 6 // 10]:
        row.update(edge=None, kind="socket", how="none", within=None)
    made["wait"] = pa.Table.from_pylist(waits)
    assert ask(tmp_path, native, made) == []


def test_held_up_spares_what_costs_little(tmp_path: Path, native: Path) -> None:
    def seldom(rank: int, turn: int, rng: Random) -> list[Step]:
        return [("compute", 10 * MS, 0)] + [("compute", 20 * MS, 0)] * (rank == 1 and turn == 5)

    assert ask(tmp_path, native, tables(seldom)) == []
