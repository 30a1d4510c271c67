"""Questions to a trail that may grow: a few readers, each with a connection of its own, off the event loop.

A reader pins a snapshot; before each question it is opened anew if there is a newer one. A question that takes too
long, or whose asker is gone, is interrupted: DuckDB stops within milliseconds, and the reader serves the next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from iotrail.errors import QueryError, QueryInterrupted
from iotrail.serve.turns import Turns
from iotrail.snapshot import newest_number
from iotrail.trail import Trail

T = TypeVar("T")


def limit(trail: Trail) -> None:
    """Let a trail's connection take little: cores are shared with the system that is looked at."""
    trail.connection.execute("SET threads = 2; SET memory_limit = '1GB'")


class Reader:
    """One connection to the newest snapshot. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._trail: Trail | None = None
        self._stopped = False

    def ask(self, question: Callable[[Trail], T], alone: bool) -> T:
        """Answer from the newest snapshot; `alone` from a trail that only this question changes."""
        self._stopped = False
        if alone or self._trail is None or self._trail.snapshot < newest_number(self._path):
            self._trail = Trail(self._path)
            limit(self._trail)
        if self._stopped:
            raise QueryInterrupted("interrupted")
        try:
            return question(self._trail)
        finally:
            if alone:
                self._trail = None

    def stop(self) -> None:
        """Interrupt the question under way; from any thread."""
        self._stopped = True
        trail = self._trail
        if trail is not None:
            trail.connection.interrupt()


class Readers:
    """As many questions at once as there are readers, of one viewer one fewer; further ones wait."""

    def __init__(self, path: Path, count: int = 3, seconds: float = 30) -> None:
        self.path = path
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reader")
        self._turns = Turns(count, max(1, count - 1))
        self._free = [Reader(path) for _ in range(count)]

    async def ask(
        self,
        question: Callable[[Trail], T],
        gone: Callable[[], Awaitable[object]],
        alone: bool = False,
        viewer: str = "",
    ) -> T:
        """The answer. `gone` returns when nobody waits for it any more; see Reader.ask for `alone`."""
        leaver = asyncio.ensure_future(gone())
        try:
            async with self._turns.turn(viewer, leaver):
                return await self._ask(question, leaver, alone)
        finally:
            leaver.cancel()

    async def _ask(self, question: Callable[[Trail], T], leaver: asyncio.Future[Any], alone: bool) -> T:
        reader = self._free.pop()
        answer = asyncio.get_running_loop().run_in_executor(self._threads, reader.ask, question, alone)
        try:
            either: set[asyncio.Future[Any]] = {answer, leaver}
            await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return await answer
            late = not leaver.done()
        finally:
            while not answer.done():
                # again and again: an interrupt between two statements is lost
                reader.stop()
                await asyncio.wait({answer}, timeout=0.05)
            self._free.append(reader)
        if answer.exception() is None:
            return answer.result()
        if late:
            raise QueryError(
                f"{self.path}: no answer within {self._seconds:g} s: interrupted",
                "ask for less: a shorter span, a larger every_ms, fewer members or metrics",
            )
        raise QueryInterrupted("interrupted")

    def close(self) -> None:
        """Let no thread outlive the server."""
        self._threads.shutdown(wait=False, cancel_futures=True)
