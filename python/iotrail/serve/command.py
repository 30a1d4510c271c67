"""`iotrail serve`: settle what is served to whom, and serve it until Ctrl-C."""

import asyncio
import contextlib
import errno
import html
import os
import signal
import socket
import ssl
import tempfile
import urllib.parse
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from iotrail.errors import IotrailError, ServeError, UsageError
from iotrail.serve.app import application
from iotrail.serve.children import Children
from iotrail.serve.connections import BACKLOG, Connections, most_connections
from iotrail.serve.guard import is_loopback
from iotrail.serve.relay import Collector
from iotrail.trail import Trail

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    trail: Path | None
    collector: str | None
    output: Path
    host: str
    port: int
    token_file: Path | None
    collector_token_file: Path | None
    collector_tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    insecure: bool
    agent: list[str]
    show: bool


def run(options: Options) -> None:
    """Serve."""
    token = _token(options.token_file) if options.token_file else None
    if token is None and not is_loopback(options.host):
        raise UsageError(
            f"--host {options.host}: refused: whoever reaches this machine could read everything",
            "--token-file F, with a secret in it; or leave the page on 127.0.0.1 and forward the port: ssh -L",
        )
    tls = _tls(options.tls_cert, options.tls_key)
    if token and options.tls_cert is None and not options.insecure and not is_loopback(options.host):
        raise UsageError(
            f"--host {options.host}: refused: browsers would send the token unencrypted",
            "--tls-cert F --tls-key F; --insecure where the network is trusted; or 127.0.0.1 and ssh -L",
        )
    with contextlib.ExitStack() as stack:
        children: Children | None = None
        collector: Collector | None
        if options.collector is not None:
            secret = _token(options.collector_token_file) if options.collector_token_file else None
            collector = Collector.parse(
                options.collector, secret, options.collector_tls_ca, insecure=options.insecure
            )
            trail = options.trail or collector.trail()
        elif options.trail is not None:
            collector, trail = None, options.trail
            Trail(trail)  # refused now, with a clear message, rather than in the page
        else:
            children = stack.enter_context(Children(options.output, options.agent))
            collector, trail = Collector.parse(children.address), options.output
        app = application(trail.absolute() if trail else None, collector, token)
        listener = stack.enter_context(_listen(options.host, options.port))
        _serve(app, listener, options, token, tls, trail, children)


def _serve(
    app: ASGIApp,
    listener: socket.socket,
    options: Options,
    token: str | None,
    tls: ssl.SSLContext | None,
    trail: Path | None,
    children: Children | None,
) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            http=Connections(most_connections(), tls).protocol,  # type: ignore[arg-type]
            backlog=BACKLOG,
            ws="websockets-sansio",
            # whose turn it is goes by address: without a token no proxy can be in front, and who asks could name any
            proxy_headers=token is not None,
            ws_max_size=1 << 20,
            timeout_graceful_shutdown=2,
        )
    )
    port = listener.getsockname()[1]
    name = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http{'s' if options.tls_cert else ''}://{name}:{port}/"
    failure: IotrailError | None = None

    async def serving() -> None:
        nonlocal failure
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        try:
            print(f"serving {trail or options.collector} on {address}", flush=True)
            if options.show:
                webbrowser.open(stack.enter_context(_to_open(address, token)))
            while not task.done():
                await asyncio.wait({task}, timeout=1)
                if children is not None and failure is None and (failure := children.tend()) is not None:
                    server.should_exit = True
        finally:
            # also if nobody reads the line above
            server.should_exit = True
            await task

    def end(*_: object) -> None:
        server.should_exit = True

    # once uvicorn has ended it raises the signal that ended it again: by SIGTERM the process would leave its files
    signal.signal(signal.SIGTERM, end)
    with contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serving())
    if failure is not None:
        raise failure


@contextlib.contextmanager
def _to_open(address: str, token: str | None) -> Iterator[str]:
    """What the browser is to open. A token isn't in it: every user of the machine sees the arguments of all programs.

    It is in a file of this user alone, which leads to the page, as Jupyter does it
    (jupyter_server, `ServerApp.write_browser_open_file`).
    """
    if token is None:
        yield address
        return
    # only its user may look into the folder
    with tempfile.TemporaryDirectory(prefix="iotrail-serve-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        url = html.escape(f"{address}?token={urllib.parse.quote(token, safe='')}")
        page.write_text(
            "<!doctype html>\n"
            '<meta charset="utf-8">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f'<meta http-equiv="refresh" content="0; url={url}">\n'
            "<title>iotrail</title>\n"
            f'<p><a href="{url}">Open the page of iotrail serve</a></p>\n',
            encoding="utf-8",
        )
        yield page.as_uri()


def _tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """How connections are encrypted; refuse now what can't be used."""
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    if cert is None or key is None:
        return None
    for path in (cert, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UsageError(f"{path}: can't be read: {os.strerror(error.errno or 0)}") from error
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key, password="")
        return context
    except ssl.SSLError as error:
        raise UsageError(
            f"{cert}, {key}: expected a certificate chain and its private key (PEM), found: {error.reason or 'neither'}",
            "the key must not have a password",
        ) from error


def _token(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "not text"
        raise UsageError(f"{path}: the token can't be read: {reason}") from error
    if mode & 0o007:
        raise UsageError(f"{path}: every user of this machine can read the token", f"chmod o= {path}")
    if len(text) < SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            f"{path}: expected a token of {SHORTEST_TOKEN} or more letters and digits, found {len(text)} characters",
            f"(umask 077; openssl rand -hex 32 > {path})",
        )
    return text


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, so that the port is known before the server runs."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        hint = "--port 0 takes a free one" if error.errno in (errno.EADDRINUSE, errno.EACCES) else None
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ServeError(f"can't listen on {host}, port {port}: {reason}", hint) from error
    return listener
