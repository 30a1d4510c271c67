"""SQL of whoever sees the page: one SELECT over a trail, in a process of its own that can be killed.

The process reads the question from stdin and writes the answer to stdout, both JSON. DuckDB there has no access to
files but the trail's, to the network, to extensions or to its own settings, no room on disk, and bounded memory;
what runs too long is killed with its process.
"""

import asyncio
import ctypes
import json
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from iotrail.errors import IotrailError, QueryError, QueryInterrupted
from iotrail.serve.turns import Turns

SECONDS = 20.0
MOST_ROWS = 5_000
# Characters of one cell, and bytes of a question and of an answer.
MOST_TEXT = 2_000
MOST_QUESTION = 100_000
MOST_ANSWER = 32 << 20
MEMORY = "1GB"
# DuckDB doesn't count all that it takes. Beside MEMORY a query has 270 MB of addresses before it begins (threads, libraries)
# and was seen to need 400 MB more.
LIMITS = {resource.RLIMIT_AS: 2 << 30, resource.RLIMIT_CPU: 120, resource.RLIMIT_CORE: 0}
# JSON's numbers are doubles in a browser: larger ids would change.
_EXACT = 1 << 53
_PR_SET_PDEATHSIG = 1


class Sandbox:
    """Asks in processes, few at once, one of each viewer."""

    def __init__(self, trail: Path, at_once: int = 2, seconds: float = SECONDS) -> None:
        """Of the trail's newest snapshot, each time."""
        self._trail = trail
        self._seconds = seconds
        self._turns = Turns(at_once, 1)

    async def ask(self, sql: str, gone: Callable[[], Awaitable[None]], viewer: str = "") -> bytes:
        """The answer as JSON. `gone` returns when nobody waits for it any more."""
        leaver = asyncio.ensure_future(gone())
        try:
            async with self._turns.turn(viewer, leaver):
                return await self._ask(sql, leaver)
        finally:
            leaver.cancel()

    async def _ask(self, sql: str, leaver: asyncio.Future[None]) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            # -I leaves out PYTHONPATH and the working directory: the package is named
            f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
            "from iotrail.serve.sandbox import main; main()",
            str(self._trail),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            # each of glibc's arenas reserves 64 MiB, and each thread would have one (mallopt(3))
            env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        )
        answer = asyncio.ensure_future(process.communicate(sql.encode()))
        try:
            either: set[asyncio.Future[Any]] = {answer, leaver}
            await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                if leaver.done():
                    raise QueryInterrupted("interrupted")
                raise QueryError(
                    f"no answer within {self._seconds:g} s: stopped",
                    "ask for less: a WHERE on ts, fewer joins; or iotrail sql on the command line, which waits",
                )
        finally:
            if process.returncode is None:
                process.kill()
            await asyncio.wait({answer})
        out, err = answer.result()
        if process.returncode != 0:
            raise _died(process.returncode or 0, err.decode(errors="replace"))
        return out


def _died(status: int, said: str) -> QueryError:
    if status < 0:
        # what can't get memory aborts or crashes, if it doesn't say so; others may have killed it
        return _too_much(f"was ended by {signal.Signals(-status).name}, probably for using too much memory")
    last = said.strip().splitlines()[-1:] or [f"status {status}"]
    return QueryError(f"the query's process ended: {last[0]}")


def _too_much(how: str = "used too much memory and was stopped") -> QueryError:
    return QueryError(
        f"the query {how}: it may use {MEMORY}",
        "ask for less: a WHERE on ts, fewer groups or joins, no lists; or iotrail sql on the command line, which has it all",
    )


def main() -> None:
    """The process: one question, one answer."""
    # Nobody may be left to read the answer: then this process ends too.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(10)
    for limit, most in LIMITS.items():
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    try:
        text = _json(select(Path(sys.argv[1]), sys.stdin.buffer.read().decode()))
        if len(text) > MOST_ANSWER:
            raise QueryError(
                f"the answer is larger than {MOST_ANSWER >> 20} MiB",
                "ask for fewer rows, columns or letters of them",
            )
    except (IotrailError, MemoryError) as error:
        refusal = _too_much() if _is_memory(error) else error
        assert isinstance(refusal, IotrailError)
        text = _json({"error": refusal.message, "hint": refusal.hint})
    sys.stdout.buffer.write(text)


def _json(answer: dict[str, Any]) -> bytes:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode(errors="replace")


def _is_memory(error: BaseException) -> bool:
    """Whether memory was what lacked. Libraries within DuckDB have no error of their own for that."""
    cause = error.__cause__ or error
    return (
        isinstance(cause, MemoryError)
        or type(cause).__name__ == "OutOfMemoryException"
        or re.search(r"\bbad.?alloc|^(\w+ Error: )?(Allocation failure|Failed to allocate)", str(cause), re.I)
        is not None
    )


def select(path: Path, sql: str) -> dict[str, Any]:
    """The rows of one SELECT over a trail, in a DuckDB that can do nothing else."""
    import duckdb

    from iotrail.ask import units_of
    from iotrail.trail import Trail

    trail = Trail(path)
    connection = trail.connection
    connection.execute(f"SET memory_limit = '{MEMORY}'; SET threads = 2; SET enable_progress_bar = false")
    # The views of what it names are made while that is still allowed.
    trail.prepare(sql)
    folder = str(path.absolute()).replace("'", "''")
    connection.execute(
        f"SET allowed_directories = ['{folder}/']; SET temp_directory = ''; SET enable_external_access = false; "
        "SET lock_configuration = true"
    )
    with trail.errors(sql):
        statements = duckdb.extract_statements(sql)
        if not statements:
            raise QueryError("nothing to ask", "SELECT * FROM member_state")
        if len(statements) > 1:
            raise QueryError(f"expected one statement, found {len(statements)}", "ask one after the other")
        if statements[0].type != duckdb.StatementType.SELECT:
            kind = re.sub(r".*\.", "", str(statements[0].type))
            raise QueryError(f"only a SELECT is answered here, not {kind}", "iotrail sql on the command line")
        asked = connection.sql(statements[0].query)
        names, types = list(asked.columns), [str(kind) for kind in asked.types]
        shown = asked.project(", ".join(f"{_shown(at, kind)}" for at, kind in enumerate(types, start=1)))
        rows = shown.limit(MOST_ROWS + 1).fetchall()
    units = units_of(trail, sql)
    return {
        "columns": [
            {"name": name, "type": kind, "unit": units.get(name, "")}
            for name, kind in zip(names, types, strict=True)
        ],
        "rows": [[_cell(value) for value in row] for row in rows[:MOST_ROWS]],
        "more": len(rows) > MOST_ROWS,
    }


def _shown(column: int, kind: str) -> str:
    """A column, by its number, as what JSON has for it: Python's own conversion may need more than there is."""
    plain = re.match(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL|BOOLEAN)\b", kind)
    return f"#{column}" if plain else f"left(CAST(#{column} AS VARCHAR), {MOST_TEXT})"


def _cell(value: object) -> object:
    """What JSON has for it: large integers and all that isn't a number, a text or nothing as text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) < _EXACT else str(value)
        case Decimal():
            return float(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case _:
            return str(value)
