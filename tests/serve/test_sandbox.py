"""A query that runs for ever, or whose asker leaves, is killed with its process; what it may use is bounded."""

import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from iotrail.errors import QueryError, QueryInterrupted
from iotrail.serve.sandbox import LIMITS, Sandbox
from tests.sql.tiny import write_trail

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "python/iotrail/_native/iotrail-native"
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


HUNGRY = [
    "SELECT len(range(1000000000))",
    "SELECT array_agg(repeat('x', 1000) || range) FROM range(100000000)",
    "SELECT string_agg(repeat('x', 100000), ',') FROM range(100000)",
    "SELECT string_split(repeat('x,', 100000000), ',')",
    "SELECT list_distinct(range(200000000))",
    "SELECT printf('%2000000000d', 1)",
    "SELECT list_transform(range(100000000), lambda x: CAST(x AS HUGEINT) * 3)",
    "WITH RECURSIVE r AS (SELECT repeat('x', 1000) AS x, 0 AS n UNION ALL SELECT x || x, n + 1 FROM r WHERE n < 40) "
    "SELECT MAX(length(x)) FROM r",
]


def main() -> None:
    """Asks what is hungry; prints the answers and the most memory that one of them had, in KiB, as JSON."""
    sandbox = Sandbox(Path(sys.argv[1]))

    async def answer(sql: str) -> str:
        try:
            return (await sandbox.ask(sql, never)).decode()
        except QueryError as error:
            return json.dumps({"error": error.message, "hint": error.hint})

    answers = [asyncio.run(answer(sql)) for sql in HUNGRY]
    print(json.dumps({"answers": answers, "most": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))


def test_memory_is_bounded(store: Path) -> None:
    """What needs more is refused in words, whatever part of DuckDB wants it; it doesn't spill to disk."""
    asked = [sys.executable, "-c", "from tests.serve.test_sandbox import main; main()", store]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    for sql, answer in zip(HUNGRY, map(json.loads, found["answers"]), strict=True):
        assert "too much memory" in answer["error"] and "\n" not in answer["error"], (sql, answer)
        assert "ask for less" in answer["hint"]
    assert found["most"] << 10 <= LIMITS[resource.RLIMIT_AS]
    assert done.stderr == ""


def test_an_answer_is_bounded(store: Path) -> None:
    """The server holds all of it."""
    columns = ", ".join(f"repeat('x', 2000) AS c{number}" for number in range(5))
    answer = asyncio.run(Sandbox(store).ask(f"SELECT {columns} FROM range(5000)", never))
    assert "larger than 32 MiB" in json.loads(answer)["error"]


def test_one_viewer_leaves_room_for_others(store: Path) -> None:
    """However many endless queries one has running and waiting, another's is answered before the first of them ends."""

    async def both() -> None:
        sandbox = Sandbox(store, seconds=30)
        hostile = [asyncio.ensure_future(sandbox.ask(ENDLESS, never, "192.0.2.1")) for _ in range(10)]
        await asyncio.sleep(0.5)
        answer = await sandbox.ask("SELECT 7 AS n", never, "192.0.2.2")
        assert json.loads(answer)["rows"] == [[7]]
        assert not any(query.done() for query in hostile)
        for query in hostile:
            query.cancel()
        await asyncio.wait(hostile)

    asyncio.run(asyncio.wait_for(both(), 25))
