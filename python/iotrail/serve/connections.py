"""Connections to the server: how many there are, and how long one may take to say what it wants and to read the answer.

Whoever can reach the port can connect before any token is asked for. So a request's head must be complete ten seconds after
the connection was made or its first byte came, its TLS handshake included, and where connections are as many as the process can hold, the one that has
been without a request for longest makes room: people who ask are let in, those who only connect are not. An answer of
which nothing is read for ten seconds is given up: it may be of 32 MiB, and is held in memory.
"""

import asyncio
import contextlib
import resource
import ssl
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
READ_SECONDS = 10.0
MOST = 4_096
# How many are taken before they are looked at.
BACKLOG = 100
# Descriptors for these and for answering: trails' files, children, the collector.
_RESERVE = 256


def most_connections() -> int:
    """How many connections there may be. Raises the limit of descriptors as far as it goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + _RESERVE if hard == resource.RLIM_INFINITY else min(MOST + _RESERVE, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(16, min(MOST, soft - _RESERVE))


class Connections:
    """All connections that have no request now, those without one for longest first. With `tls` they are encrypted."""

    def __init__(self, most: int, tls: ssl.SSLContext | None = None) -> None:
        self.most = most
        self.tls = tls
        self.waiting: dict[Connection | Handshake, None] = {}
        self.handshakes = 0

    def protocol(self, *words: Any, **options: Any) -> "Connection | Handshake":
        """What uvicorn calls for each connection."""
        connection = Connection(self, *words, **options)
        return connection if self.tls is None else Handshake(self, connection, self.tls)

    def make_room(self, connections: int) -> bool:
        """End the one that waits for longest if, with those that aren't encrypted yet, there are too many. Whether there is
        room now."""
        if connections + self.handshakes <= self.most:
            return True
        longest = next(iter(self.waiting), None)
        if longest is not None:
            longest.leave()
        return longest is not None


class Handshake(asyncio.Protocol):
    """A connection until it is encrypted. asyncio's own servers tell of none before, and wait a minute for each."""

    def __init__(self, all_of_them: Connections, connection: "Connection", tls: ssl.SSLContext) -> None:
        self._all = all_of_them
        self._connection = connection
        self._tls = tls
        self._task: asyncio.Task[None] | None = None
        # What came behind the handshake.
        self._begin: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room first, if there is none."""
        self._transport = transport
        self._all.handshakes += 1
        self._all.waiting[self] = None
        self._task = asyncio.get_running_loop().create_task(self._encrypt())
        self._all.make_room(len(self._connection.connections))

    def data_received(self, data: bytes) -> None:
        """What is encrypted already."""
        self._begin.append(data)

    def leave(self) -> None:
        """End it: the handshake fails."""
        self._all.waiting.pop(self, None)
        self._transport.abort()

    async def _encrypt(self) -> None:
        loop = asyncio.get_running_loop()
        transport = None
        try:
            # who speaks no TLS, leaves, or takes too long
            with contextlib.suppress(OSError):
                transport = await loop.start_tls(
                    self._transport,
                    self,
                    self._tls,
                    server_side=True,
                    ssl_handshake_timeout=HEAD_SECONDS,
                )
        finally:
            self._all.handshakes -= 1
            self._all.waiting.pop(self, None)
        if transport is None or transport.is_closing():
            return
        transport.set_protocol(self._connection)
        self._connection.connection_made(transport)
        for data in self._begin:
            self._connection.data_received(data)


class Connection(H11Protocol):
    """HTTP/1.1, whose heads may not take forever."""

    def __init__(self, all_of_them: Connections, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self._all = all_of_them
        self._due: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room first, if there is none."""
        super().connection_made(transport)
        if not self._all.make_room(len(self.connections)):
            self.leave()
            return
        self._wait()
        self._start()

    def data_received(self, data: bytes) -> None:
        """Some bytes, which may complete a head or begin one."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self._due is None:
            self._start()

    def handle_events(self) -> None:
        """Whatever came, a request among it or not."""
        super().handle_events()
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._go_on()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From now on another protocol's."""
        self._go_on()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Another request may follow."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """The answer comes faster than it is read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Most of it was read."""
        super().resume_writing()
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing follows."""
        self._go_on()
        self._read()
        super().connection_lost(exc)

    def leave(self) -> None:
        """End it without an answer: nothing was asked, or nobody reads it."""
        self._go_on()
        self.transport.abort()

    def _watch(self) -> None:
        self._read()
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(READ_SECONDS, self._look, left)

    def _look(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._watch()
        else:
            self.leave()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _start(self) -> None:
        self._due = self.loop.call_later(HEAD_SECONDS, self.leave)

    def _wait(self) -> None:
        self._all.waiting.setdefault(self, None)

    def _go_on(self) -> None:
        self._all.waiting.pop(self, None)
        if self._due is not None:
            self._due.cancel()
            self._due = None
