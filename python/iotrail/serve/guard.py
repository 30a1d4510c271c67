"""Who may ask: everybody on this machine, or whoever has the token.

Without a token the server listens on loopback only, and answers only requests for a loopback name: a page of another
site whose name was made to resolve to 127.0.0.1 (DNS rebinding) gets nothing. With one, the page is opened once with
`?token=…`, which becomes a cookie that scripts can't read; programs send `Authorization: Bearer …`. What a browser says
to come from a page must come from this one: it would send another one's WebSockets and simple POSTs too.
"""

import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "iotrail-token"

# Scripts and styles are the page's own (Graphviz, which draws graphs, is WebAssembly); the charts set style attributes, and images are drawn here.
# A view frames the page of anomalies; pages of other origins frame nothing of it.
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; frame-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._token is None:
            try:
                name = urlsplit(f"//{host}").hostname or ""
            except ValueError:
                return _said(400, "the request's Host is no name")
            if not is_loopback(name):
                return _said(421, f"this page is served to this machine only, not as {name}")
        else:
            if scope["type"] == "http" and (handed := self._handed(scope)) is not None:
                return handed
            if not self._knows(headers):
                return _said(401, "no token, or a wrong one", "open the page with ?token=… once")
        origin = headers.get("origin")
        if origin is not None and not _is_of(origin, host):
            return _said(403, f"a page of {origin} may not look in here")
        return None

    def _handed(self, scope: Scope) -> Response | None:
        """Make a cookie of the token in the address, so that it doesn't stay there."""
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token")
        if given is None or not self._right(given):
            return None
        rest = urlencode([pair for pair in query if pair[0] != "token"])
        answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return answer

    def _knows(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._right(given):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._right(cookie.value)

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def _said(status: int, error: str, hint: str | None = None) -> Response:
    return JSONResponse({"error": error, "hint": hint}, status_code=status)


def _with_headers(send: Send) -> Send:
    async def sending(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]  # type: ignore[misc]
        await send(message)

    return sending  # type: ignore[return-value]
