"""The collector's live stream, relayed unchanged in both directions.

The viewer reads as fast as it can; what it doesn't read stays with the collector, which skips frames for it: nothing
piles up here.
"""

import asyncio
import contextlib
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from iotrail.errors import ServeError, UsageError

# Of 10,000 members, a hello is a few MB.
LARGEST_MESSAGE = 64 << 20
# RFC 6455's registry: "try again later".
AGAIN_LATER = 1013


@dataclass(frozen=True)
class Collector:
    """Where a collector listens."""

    address: str
    secure: bool = False
    token: str | None = None

    @classmethod
    def parse(cls, text: str, token: str | None) -> "Collector":
        """HOST:PORT, or https://HOST:PORT of one that speaks TLS."""
        parts = urlsplit(text if "://" in text else f"http://{text}")
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
            raise UsageError(
                f"--collector: expected HOST:PORT or https://HOST:PORT, found {text!r}",
                "`iotrail collect` prints where it listens",
            )
        return cls(parts.netloc, parts.scheme == "https", token)

    @property
    def headers(self) -> dict[str, str]:
        """What it wants to see."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def trail(self) -> str | None:
        """The trail it writes, as it says; blocks for at most 5 s."""
        url = f"http{'s' if self.secure else ''}://{self.address}/health"
        try:
            request = urllib.request.Request(url, headers=self.headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                found = json.loads(answer.read(1 << 20))
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ServeError(
                f"collector {self.address}: no answer from {url}: {reason}",
                "is it running? `iotrail collect` prints where it listens",
            ) from error
        path = found.get("trail") if isinstance(found, dict) else None
        return path if isinstance(path, str) else None


async def relay(viewer: WebSocket, collector: Collector) -> None:
    """Connect a viewer with the collector until one of them leaves."""
    await viewer.accept()
    url = f"ws{'s' if collector.secure else ''}://{collector.address}/live"
    try:
        async with connect(
            url,
            additional_headers=collector.headers,
            max_size=LARGEST_MESSAGE,
            open_timeout=5,
            proxy=None,
            compression=None,
            ssl=ssl.create_default_context() if collector.secure else None,
        ) as live:

            async def up() -> None:
                async for text in viewer.iter_text():
                    await live.send(text)

            async def down() -> None:
                async for message in live:
                    await viewer.send_text(message if isinstance(message, str) else message.decode())

            ways = {asyncio.create_task(up()), asyncio.create_task(down())}
            _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in left:
                way.cancel()
            for result in await asyncio.gather(*ways, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(
                    result, ConnectionClosed | WebSocketDisconnect | RuntimeError
                ):
                    raise result
    except (OSError, TimeoutError, WebSocketException) as error:
        await _leave(viewer, f"collector {collector.address}: {error}")
    else:
        await _leave(viewer, f"collector {collector.address} ended the stream")


async def _leave(viewer: WebSocket, reason: str) -> None:
    # a close frame holds 123 bytes of reason
    # the viewer may have left first
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        await viewer.close(AGAIN_LATER, reason.encode()[:120].decode(errors="ignore"))
