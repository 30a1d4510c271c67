"""Whose turn it is: so many questions at once, fewer of one viewer, and of those who wait who has fewest under way."""

import asyncio
import ipaddress
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from iotrail.errors import BusyError, QueryInterrupted

# Questions of one viewer that wait: a page asks a handful at once, and several people may share an address.
MOST_WAITING = 64


class Turns:
    """`count` at once, `each` of one viewer: with fewer than `count`, no viewer alone can hold them all."""

    def __init__(self, count: int, each: int) -> None:
        self._count = count
        self._each = each
        self._running: Counter[str] = Counter()
        # those who had a turn longest ago first
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, viewer: str, leaver: asyncio.Future[Any]) -> AsyncIterator[None]:
        """Waits for a turn, which lasts as long as the context. Raises QueryInterrupted if `leaver` is done before it,
        BusyError if the viewer has too many waiting."""
        if len(self._waiting.get(viewer, ())) >= MOST_WAITING:
            raise BusyError(
                f"{MOST_WAITING} questions from {viewer or 'here'} wait already",
                "ask again when some are answered",
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(viewer, deque()).append(place)
        self._next()
        try:
            either: set[asyncio.Future[Any]] = {place, leaver}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not place.done():
                raise QueryInterrupted("interrupted")
            yield
        finally:
            if place.done():
                self._running -= Counter([viewer])
                self._next()
            else:
                self._waiting[viewer].remove(place)
                if not self._waiting[viewer]:
                    del self._waiting[viewer]

    def _next(self) -> None:
        while self._running.total() < self._count:
            free = [viewer for viewer in self._waiting if self._running[viewer] < self._each]
            if not free:
                return
            viewer = min(free, key=self._running.__getitem__)
            places = self._waiting.pop(viewer)
            places.popleft().set_result(None)
            if places:
                self._waiting[viewer] = places
            self._running[viewer] += 1


def viewer_of(host: str) -> str:
    """Who asks, by address: of IPv6 by network, of which one machine has all addresses (RFC 4291, 2.5.4)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))
