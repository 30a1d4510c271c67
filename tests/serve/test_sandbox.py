"""A query that runs for ever, or whose asker leaves, is killed with its process."""

import asyncio
from pathlib import Path

import pytest

from iotrail.errors import QueryError, QueryInterrupted
from iotrail.serve.sandbox import Sandbox
from tests.sql.tiny import write_trail

NATIVE = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT (x + 1) % 1000 FROM r) SELECT MAX(x) FROM r"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Any trail."""
    return write_trail(NATIVE, Path(__file__).parents[1] / "sql/store", tmp_path_factory.mktemp("store"))


def children() -> set[str]:
    """Processes that this one started and that still run."""
    return set(Path("/proc/thread-self/children").read_text().split())


async def never() -> None:
    """Somebody who waits."""
    await asyncio.sleep(3600)


def test_an_endless_query_is_stopped(store: Path) -> None:
    """And nothing of it is left."""
    before = children()
    with pytest.raises(QueryError, match="no answer within 2 s"):
        asyncio.run(Sandbox(store, seconds=2).ask(ENDLESS, never))
    assert children() <= before


def test_one_that_nobody_waits_for_is_stopped(store: Path) -> None:
    """The page was closed."""

    async def leaves() -> None:
        await asyncio.sleep(0.5)

    before = children()
    with pytest.raises(QueryInterrupted):
        asyncio.run(Sandbox(store).ask(ENDLESS, leaves))
    assert children() <= before


def test_memory_is_bounded(store: Path) -> None:
    """What needs more is told so, or stopped; it doesn't spill to disk."""
    sql = "SELECT array_agg(repeat('x', 1000) || range) FROM range(100000000)"
    try:
        answer = asyncio.run(Sandbox(store, seconds=15).ask(sql, never)).decode()
    except QueryError as error:
        answer = error.message
    assert "memory" in answer.lower() or "too much" in answer or "no answer" in answer
