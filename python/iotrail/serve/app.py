"""The application behind `iotrail serve`: the page, questions to the trail, the live stream."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from iotrail import report
from iotrail.errors import (
    BusyError,
    IotrailError,
    QueryError,
    QueryInterrupted,
    ServeError,
    SweepError,
    TrailError,
    UnknownNameError,
    UsageError,
)
from iotrail.native import package_version
from iotrail.requests.find import Chosen
from iotrail.serve import anomalies, catalogue, frames, requests
from iotrail.serve.connections import HEAD_SECONDS
from iotrail.serve.guard import Guard, is_loopback
from iotrail.serve.readers import Readers
from iotrail.serve.relay import Collector, Sealer, relay
from iotrail.serve.sandbox import MOST_QUESTION, Sandbox
from iotrail.serve.turns import viewer_of
from iotrail.trail import Trail

WEB = Path(__file__).parents[1] / "_web"
PAGE = WEB / "serve.html"

# Close code of a stream that will never be there, in RFC 6455's private range.
NO_STREAM = 4404


def application(trail: Path | None, collector: Collector | None, token: str | None) -> ASGIApp:
    """The application over a trail, a collector's live stream, or both."""
    if not PAGE.is_file():
        raise ServeError(f"{PAGE}: the page is not built", "run make in a checkout, or install iotrail again")
    readers = Readers(trail) if trail else None
    sandbox = Sandbox(trail) if trail else None
    of_sweep = anomalies.Anomalies(trail) if trail else None
    sealer = Sealer(collector) if trail and collector else None

    async def page(_: Request) -> Response:
        # asks each time whether the page changed: the files it names carry hashes
        return FileResponse(PAGE, headers={"cache-control": "no-cache"})

    async def info(_: Request) -> Response:
        return JSONResponse(
            {
                "version": package_version(),
                "trail": str(trail) if trail else None,
                "live": collector is not None,
                "collector": collector.address if collector else None,
                "sweep": trail is not None and await asyncio.to_thread(anomalies.has_sweep, trail),
            }
        )

    async def answer(request: Request, question: Callable[[Trail], str], alone: bool = False) -> Response:
        if readers is None:
            raise _no_trail()
        packed = not is_loopback(
            request.client.host if request.client else ""
        ) and "gzip" in request.headers.get("accept-encoding", "")

        def asked(opened: Trail) -> bytes:
            text = question(opened).encode()
            # in the reader's thread: the event loop has viewers waiting
            return gzip.compress(text, compresslevel=1) if packed else text

        body = await readers.ask(asked, lambda: _gone(request), alone, _viewer(request))
        headers = {"content-encoding": "gzip"} if packed else {}
        return Response(body, media_type="application/json", headers=headers)

    async def ask_frames(request: Request) -> Response:
        wanted = frames.Span(
            start_ms=_number(request, "start_ms"),
            end_ms=_number(request, "end_ms"),
            every_ms=_number(request, "every_ms", 1000),
            by=request.query_params.get("by", "member"),
            members=_names(request, "members"),
            metrics=_names(request, "metrics"),
        )
        if sealer is not None:
            await sealer.upto(wanted.start_ms, wanted.end_ms)
        return await answer(request, lambda opened: frames.frames(opened, wanted))

    async def ask_members(request: Request) -> Response:
        at = _number(request, "at_ms") if "at_ms" in request.query_params else None
        return await answer(request, lambda opened: frames.members(opened, at))

    async def ask_span(request: Request) -> Response:
        return await answer(request, frames.span)

    async def ask_requests(request: Request) -> Response:
        chosen, slowest = _chosen(request), _number(request, "slowest", 50)
        return await answer(
            request,
            lambda opened: requests.overview(opened, chosen, slowest),
            alone=chosen.through is not None,
        )

    async def ask_heat(request: Request) -> Response:
        chosen, every = _chosen(request), _number(request, "every_ms")
        return await answer(
            request, lambda opened: requests.heat(opened, chosen, every), alone=chosen.through is not None
        )

    async def ask_graph(request: Request) -> Response:
        chosen = _chosen(request)
        return await answer(request, lambda opened: requests.latency_graph(opened, chosen), alone=True)

    async def ask_path(request: Request) -> Response:
        node, crumb = request.query_params.get("node", ""), _number(request, "crumb")
        return await answer(request, lambda opened: requests.one_path(opened, node, crumb), alone=True)

    async def ask_report(request: Request) -> Response:
        start, end = (
            _number(request, name) if name in request.query_params else None
            for name in ("start_ns", "end_ns")
        )

        def of_part(opened: Trail) -> str:
            if start is not None or end is not None:
                report.cut_between(opened, start, end, "start_ns and end_ns")
            return json.dumps(report.collect(opened))

        return await answer(request, of_part, alone=True)

    async def ask_anomalies(_: Request) -> Response:
        if trail is None or of_sweep is None:
            raise _no_trail()
        try:
            found = of_sweep.page()
        except IotrailError as error:
            return HTMLResponse(anomalies.refused(trail, error), status_code=_status(error))
        if found is None:
            # Accepted
            return HTMLResponse(anomalies.waiting(trail), status_code=202, headers=anomalies.AGAIN)
        return HTMLResponse(found)

    async def ask_modules(request: Request) -> Response:
        return await answer(request, catalogue.listing)

    async def ask_sql(request: Request) -> Response:
        if sandbox is None:
            raise _no_trail()
        body = bytearray()
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > MOST_QUESTION:
                        raise UsageError(f"expected at most {MOST_QUESTION:,} bytes of SQL, found more")
        except TimeoutError:
            raise UsageError(
                f"expected the SQL within {HEAD_SECONDS:g} s, found {len(body):,} bytes"
            ) from None
        except ClientDisconnect:
            raise QueryInterrupted("interrupted") from None
        sql = body.decode(errors="replace")
        answered = await sandbox.ask(sql, lambda: _gone(request), _viewer(request))
        return Response(answered, media_type="application/json")

    async def live(viewer: WebSocket) -> None:
        if collector is None:
            await viewer.accept()
            await viewer.close(NO_STREAM, "a trail without a collector has no live stream")
            return
        await relay(viewer, collector)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        yield
        if readers is not None:
            readers.close()

    inner = Starlette(
        routes=[
            Route("/", page),
            Mount("/assets", StaticFiles(directory=WEB / "assets", check_dir=False)),
            Route("/anomalies", ask_anomalies),
            Route("/api/info", info),
            Route("/api/span", ask_span),
            Route("/api/members", ask_members),
            Route("/api/frames", ask_frames),
            Route("/api/requests", ask_requests),
            Route("/api/heat", ask_heat),
            Route("/api/graph", ask_graph),
            Route("/api/path", ask_path),
            Route("/api/report", ask_report),
            Route("/api/modules", ask_modules),
            Route("/api/sql", ask_sql, methods=["POST"]),
            WebSocketRoute("/live", live),
        ],
        exception_handlers={IotrailError: _refused},  # type: ignore[dict-item]
        lifespan=life,
    )
    return Guard(inner, token)


def _no_trail() -> TrailError:
    return TrailError(
        "no trail: the collector writes it on another machine",
        "serve a copy of it too: iotrail serve X.trail --collector HOST:PORT",
    )


def _refused(_: Request, error: IotrailError) -> Response:
    return JSONResponse({"error": error.message, "hint": error.hint}, status_code=_status(error))


def _status(error: IotrailError) -> int:
    match error:
        case UnknownNameError():
            return 404
        case UsageError():
            return 400
        case SweepError():
            return 422
        case QueryInterrupted():
            # nobody reads it: nginx's number for that
            return 499
        case TrailError():
            return 503
        case BusyError():
            return 429
        case QueryError():
            return 504
        case _:
            return 500


def _number(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    # int() alone would take 1_000, and thousands of digits slowly
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise UsageError(f"{name}: expected a whole number, found {text!r}")
    # breadcrumbs have 63 bits
    if int(text) >= 1 << 63:
        raise UsageError(f"{name}: expected less than 2^63, found {text}")
    return int(text)


def _chosen(request: Request) -> Chosen:
    """The requests that the filters of the page leave."""
    word = request.query_params.get
    start, end = (_number(request, name, -1) for name in ("start_ms", "end_ms"))
    return Chosen(
        client=word("client"),
        op=word("op"),
        component=word("component"),
        start_ts=None if start < 0 else start * frames.MS,
        end_ts=None if end < 0 else end * frames.MS,
        through=word("through"),
    )


def _viewer(request: Request) -> str:
    return viewer_of(request.client.host if request.client else "")


async def _gone(request: Request) -> None:
    """Returns when nobody waits for the answer any more."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _names(request: Request, name: str) -> tuple[str, ...] | None:
    text = request.query_params.get(name)
    return tuple(part for part in text.split(",") if part) if text else None
