"""A collector as seen by viewers: `/info` and `/live`, which sends the recorded samples of a cluster as if they
happened now. For tests of the page's live side that need a stream they can end, silence and bring back.

A process of its own, so that it can be killed: `python -m tests.serve.peer X.trail PORT`.
"""

import asyncio
import json
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from iotrail.serve import frames
from iotrail.trail import Trail


class Peer:
    """Recorded seconds, over and over, at the time it is."""

    def __init__(self, trail: Path) -> None:
        self.trail = Trail(trail)
        found = json.loads(frames.span(self.trail))
        self.start, self.end = found["start_ms"], found["end_ms"]

    def recorded(self, by: str, metrics: list[str] | None) -> dict[str, list[dict[str, Any]]]:
        """All frames of the trail."""
        wanted = tuple(metrics) if metrics else None
        answer: dict[str, list[dict[str, Any]]] = json.loads(
            frames.frames(self.trail, frames.Span(self.start, self.end, 1000, by, None, wanted))
        )
        return answer

    async def live(self, viewer: ServerConnection) -> None:
        """Serve one viewer: hello after each see, then a frame each 250 ms."""
        await viewer.send(json.dumps({"hello": self.hello([])}))
        see: dict[str, Any] | None = None
        step = 0
        found: dict[str, list[dict[str, Any]]] = {}
        try:
            while True:
                try:
                    text = await asyncio.wait_for(viewer.recv(), 0.25 if see else None)
                    see = json.loads(text)["see"]
                    found = self.recorded(see["by"], see["metrics"])
                    newest: dict[str, dict[str, Any]] = {}
                    for member in found["members"]:
                        newest.setdefault(member["member"], member)
                    await viewer.send(json.dumps({"hello": self.hello(list(newest.values()))}))
                    first = True
                except TimeoutError:
                    frame = found["frames"][step % len(found["frames"])]
                    step += 1
                    now = round(time.time() * 1000)
                    changed = [] if step > len(found["frames"]) else self.changed(found, frame)
                    message = {
                        "ts_ms": now - 300,
                        "members": self.said(changed, now - 300),
                        "series": found["series"] if first else [],
                        "values": frame["values"],
                        "late_ms": 300,
                        "samples_late": 0,
                    }
                    first = False
                    await viewer.send(json.dumps({"frame": message}))
        except ConnectionClosed:
            pass

    def hello(self, members: list[dict[str, Any]]) -> dict[str, Any]:
        """The first message; places without host and rack, as the collector sends them."""
        now = round(time.time() * 1000)
        return {"version": 1, "now_ms": now, "window_ms": 100, "members": self.said(members, now - 60_000)}

    def changed(self, found: dict[str, list[dict[str, Any]]], frame: dict[str, Any]) -> list[dict[str, Any]]:
        """Members that joined, failed or came back in the second that a frame ends."""
        return [row for row in found["members"] if frame["ts_ms"] - 1000 < row["since_ms"] <= frame["ts_ms"]]

    def said(self, members: list[dict[str, Any]], since: int) -> list[dict[str, Any]]:
        """Members as the collector sends them: places without host and rack."""
        return [
            {k: v for k, v in member.items() if k not in ("host", "rack")} | {"since_ms": since}
            for member in members
        ]

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Plain HTTP: /info."""
        if request.path == "/info":
            folder = self.trail.path.stat()
            trail = {"path": str(self.trail.path), "device": folder.st_dev, "inode": folder.st_ino}
            return connection.respond(HTTPStatus.OK, json.dumps({"version": "test", "trail": trail}))
        return None


async def main(trail: Path, port: int) -> None:
    """Serve until killed."""
    peer = Peer(trail)
    async with serve(peer.live, "127.0.0.1", port, process_request=peer.answer, max_size=1 << 20):
        print("ready", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
