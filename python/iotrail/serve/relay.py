"""The collector's live stream, relayed unchanged in both directions, and its seals.

The viewer reads as fast as it can; what it doesn't read stays with the collector, which skips frames for it: nothing
piles up here.
"""

import asyncio
import contextlib
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from iotrail.errors import ServeError, UsageError
from iotrail.serve.guard import is_loopback

# Of 10,000 members, a hello is a few MB.
LARGEST_MESSAGE = 64 << 20
# What is older was sealed by itself: agents send each second, the collector seals each 5 s.
SETTLED_MS = 12_000
# Between two seals, and how long samples travel: a seal has what is older.
AGAIN_MS = 1_000
# RFC 6455's registry: "try again later".
AGAIN_LATER = 1013


@dataclass(frozen=True)
class Collector:
    """Where a collector listens."""

    address: str
    # how it is known to be the one; None: without TLS
    tls: ssl.SSLContext | None = None
    token: str | None = None

    @classmethod
    def parse(
        cls, text: str, token: str | None = None, ca: Path | None = None, *, insecure: bool = False
    ) -> "Collector":
        """HOST:PORT, or https://HOST:PORT of one that speaks TLS, as all do for which a `ca` vouches."""
        parts = urlsplit(text if "://" in text else f"http{'s' if ca else ''}://{text}")
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
            raise UsageError(
                f"--collector: expected HOST:PORT or https://HOST:PORT, found {text!r}",
                "`iotrail collect` prints where it listens",
            )
        if parts.scheme == "http":
            if token is not None and not insecure and not is_loopback(parts.hostname):
                raise UsageError(
                    f"--collector {text}: its token would go there unencrypted",
                    "https://HOST:PORT, or --collector-tls-ca F; or --insecure",
                )
            return cls(parts.netloc, None, token)
        try:
            return cls(parts.netloc, ssl.create_default_context(cafile=ca), token)
        except OSError as error:
            # of the file's text it says no more than that it isn't PEM
            reason = "no certificate as PEM in it" if isinstance(error, ssl.SSLError) else error.strerror
            raise UsageError(f"{ca}: the certificates can't be read: {reason}") from error

    @property
    def headers(self) -> dict[str, str]:
        """What it wants to see."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def url(self, path: str, scheme: str = "http") -> str:
        """Of something it serves."""
        return f"{scheme}{'s' if self.tls else ''}://{self.address}{path}"

    def trail(self) -> Path | None:
        """The trail it writes, if that lies on this machine; blocks for at most 5 s."""
        try:
            found = json.loads(self._ask("/info"))["trail"]
            path, folder = Path(found["path"]), (found["device"], found["inode"])
        except urllib.error.HTTPError as error:
            said = error.read(200).decode(errors="replace").strip()
            raise ServeError(
                f"collector {self.address}: refused with status {error.code}: {said or error.reason}",
                "--collector-token-file F, with the secret that the collector was given"
                if error.code == 401
                else None,
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise ServeError(
                f"collector {self.address}: what answers at {self.url('/info')} is not iotrail's collector, or an older one",
                "`iotrail collect` prints where it listens",
            ) from error
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                hint = "--collector-tls-ca F, with the certificates (PEM) that vouch for it"
            elif isinstance(reason, ssl.SSLError | HTTPException):
                hint = "one speaks TLS, the other doesn't: https://HOST:PORT, or --collector-tls-ca F"
            else:
                hint = "is it running? `iotrail collect` prints where it listens"
            raise ServeError(
                f"collector {self.address}: no answer from {self.url('/info')}: {reason}", hint
            ) from error
        with contextlib.suppress(OSError):
            here = path.stat()
            # another machine's may have the same name
            if (here.st_dev, here.st_ino) == folder:
                return path
        return None

    def seal(self) -> None:
        """Have it write to the trail what it has, if it can; blocks for at most 5 s."""
        with contextlib.suppress(OSError, HTTPException):
            self._ask("/seal", "POST")

    def _ask(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(self.url(path), method=method, headers=self.headers)
        # a proxy is for what lies outside
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls)
        )
        with opener.open(request, timeout=5) as answer:
            body: bytes = answer.read(1 << 20)
            return body


class Sealer:
    """Has a collector seal when somebody asks for what may not be in its trail yet, at most once a second."""

    def __init__(self, collector: Collector) -> None:
        """Nothing is asked of it before somebody asks for a span."""
        self._collector = collector
        self._turn = asyncio.Lock()
        # ms since the epoch: when the last seal began
        self._begun = 0.0

    async def upto(self, start_ms: int, end_ms: int) -> None:
        """Returns once what happened in a span is in the trail, as far as it reached the collector.

        A collector that doesn't answer is no error: the trail then ends before.
        """
        asked = time.time() * 1000
        if start_ms >= asked or end_ms < asked - SETTLED_MS:
            return
        async with self._turn:
            # a seal that began while this one waited will do
            if end_ms > self._begun - AGAIN_MS and asked - self._begun > AGAIN_MS:
                self._begun = time.time() * 1000
                await asyncio.to_thread(self._collector.seal)


async def relay(viewer: WebSocket, collector: Collector) -> None:
    """Connect a viewer with the collector until one of them leaves."""
    await viewer.accept()
    try:
        async with connect(
            collector.url("/live", "ws"),
            additional_headers=collector.headers,
            max_size=LARGEST_MESSAGE,
            open_timeout=5,
            proxy=None,
            compression=None,
            ssl=collector.tls,
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
