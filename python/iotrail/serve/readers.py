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
from iotrail.snapshot import newest_number
from iotrail.trail import Trail

T = TypeVar("T")


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
            # Cores are shared with the system that is looked at.
            self._trail.connection.execute("SET threads = 2; SET memory_limit = '1GB'")
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
    """As many questions at once as there are readers; further ones wait."""

    def __init__(self, path: Path, count: int = 2, seconds: float = 30) -> None:
        self.path = path
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reader")
        self._free: asyncio.Queue[Reader] = asyncio.Queue()
        for _ in range(count):
            self._free.put_nowait(Reader(path))

    async def ask(
        self, question: Callable[[Trail], T], gone: Callable[[], Awaitable[None]], alone: bool = False
    ) -> T:
        """The answer. `gone` returns when nobody waits for it any more; see Reader.ask for `alone`."""
        reader = await self._free.get()
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._threads, reader.ask, question, alone)
            leaver = asyncio.ensure_future(gone())
            try:
                either: set[asyncio.Future[Any]] = {answer, leaver}
                await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return await answer
                late = not leaver.done()
            finally:
                leaver.cancel()
                while not answer.done():
                    # again and again: an interrupt between two statements is lost
                    reader.stop()
                    await asyncio.wait({answer}, timeout=0.05)
            if answer.exception() is None:
                return answer.result()
            if late:
                raise QueryError(
                    f"{self.path}: no answer within {self._seconds:g} s: interrupted",
                    "ask for less: a shorter span, a larger every_ms, fewer members or metrics",
                )
            raise QueryInterrupted("interrupted")
        finally:
            self._free.put_nowait(reader)

    def close(self) -> None:
        """Let no thread outlive the server."""
        self._threads.shutdown(wait=False, cancel_futures=True)
