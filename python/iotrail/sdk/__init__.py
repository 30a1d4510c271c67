"""Following requests: what a component written in Python posts. `docs/requests.md` says what the records mean.

    from iotrail import sdk

    with sdk.request("gateway", "put", client="alice", length=4096) as request:
        ...                                  # records and calls in here carry the request's breadcrumb
        with sdk.call("gateway", "storage write") as call:
            headers = call.headers()         # traceparent and tracestate for the message

Without a recording nothing is posted. A breadcrumb is kept in a context variable, and the thread that runs the context
has it meanwhile, so that its calls and its CPU time are for it: each task of asyncio (or uvloop) its own, and what is
submitted to a pool of threads that of who submitted it (`tasks.py`).
"""

import contextlib
import contextvars
import ctypes
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from iotrail.errors import IotrailError
from iotrail.sdk.tasks import Follow

NULL = -(1 << 63)

STITCHES = ("rpc", "split", "coalesce")
SERVICES = ("server", "client", "internal")
BUFFERS = ("read_hit", "read_miss", "write", "read_ahead", "flush", "evict")
_REFUSED = {
    -1: "its description is wrong: names have lower-case letters, digits and _, are no words of SQL and no "
    "tables of iotrail; types are BIGINT, DOUBLE, VARCHAR; at most 32 columns",
    -2: "this process declared another one of this name",
    -3: "a process can't declare so many",
    -4: "no memory",
}
_TRACEPARENT, _TRACESTATE = 56, 800


class DeclarationError(IotrailError):
    """A record type that can't be declared."""


class _Record(ctypes.Structure):
    """`iotrail_record_t` of iotrail.h."""

    _fields_ = (
        ("number", ctypes.c_uint16),
        ("kind", ctypes.c_uint8),
        ("extra", ctypes.c_uint8),
        ("small", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("dur", ctypes.c_uint64),
        ("crumb", ctypes.c_int64),
        ("words", ctypes.c_int64 * 4),
    )


def library() -> Path:
    """The C library; its header lies beside it."""
    return Path(__file__).parent.parent / "_native" / "libiotrail.so"


def _load() -> ctypes.CDLL:
    loaded = ctypes.CDLL(os.fspath(library()))
    crumb, symbol, text = ctypes.c_int64, ctypes.c_uint32, ctypes.c_char_p
    record = ctypes.POINTER(_Record)
    whole, words = ctypes.c_int, ctypes.POINTER(ctypes.c_int64)
    for name, result, arguments in (
        ("init", whole, ()),
        ("symbol", symbol, (text,)),
        ("role", None, (text,)),
        ("file", ctypes.c_int64, (text,)),
        ("crumb_new", crumb, ()),
        ("crumb_set", crumb, (crumb,)),
        ("crumb_take", crumb, (crumb,)),
        ("stitch", None, (symbol, crumb, crumb, whole, ctypes.c_int64)),
        ("inject", whole, (crumb, crumb, text, text)),
        ("extract", crumb, (text, text)),
        ("service_begin", _Record, (whole, symbol, symbol, crumb)),
        ("service_about", None, (record, *[ctypes.c_int64] * 3)),
        ("service_end", None, (record, symbol, whole)),
        ("buffer", None, (symbol, symbol, whole, crumb, *[ctypes.c_int64] * 3)),
        ("transmit", None, (symbol, symbol, crumb, ctypes.c_int64)),
        ("disk_begin", _Record, (symbol, symbol, crumb, ctypes.c_int64, ctypes.c_int64)),
        ("disk_issued", None, (record,)),
        ("disk_end", None, (record,)),
        ("declare", whole, (text,)),
        ("on", whole, (whole,)),
        ("post", None, (whole, crumb, words, ctypes.c_size_t)),
    ):
        function = getattr(loaded, f"iotrail_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


_lib = _load()
_crumb: contextvars.ContextVar[int] = contextvars.ContextVar("iotrail_crumb", default=0)
_request: contextvars.ContextVar[int] = contextvars.ContextVar("iotrail_request", default=0)
# the trace and state that came with the request, which go on with its messages: other tracing systems see one trace
_came: contextvars.ContextVar[tuple[str, str]] = contextvars.ContextVar("iotrail_came", default=("", ""))
_symbols: dict[str, int] = {}
_follow = Follow(_crumb, _lib.iotrail_crumb_set, _lib.iotrail_crumb_take)
_follow.install()


def init() -> bool:
    """Join the recording this program runs in; whether there is one."""
    return bool(_lib.iotrail_init())


def role(name: str) -> None:
    """Say what this process is in its system."""
    _lib.iotrail_role(name.encode())


def file(path: str | os.PathLike[str]) -> int:
    """Name a file; its id, by which records name it."""
    return int(_lib.iotrail_file(os.fsencode(os.path.abspath(path))))


def current() -> int:
    """The breadcrumb of this context; 0 none."""
    return _crumb.get()


def fresh() -> int:
    """A breadcrumb for a request that begins here; 0 while nothing is recorded."""
    init()
    return int(_lib.iotrail_crumb_new())


@contextlib.contextmanager
def within(crumb: int, *, taken: bool = False) -> Iterator[int]:
    """Work for a breadcrumb, handed over from another thread or through a queue. `taken`: in a loop that does nothing
    but take such work, so that the CPU time since the work before, by which this was got, is for it too."""
    # a loop that is told only now is still in a step that it won't end: the thread stays without
    follows = not _follow.install() and _follow.follows
    token = _crumb.set(crumb)
    if follows:
        (_follow.take if taken else _follow.enter)(crumb)
    try:
        yield crumb
    finally:
        _crumb.reset(token)
        if _follow.follows:
            # not the thread's before: another task may have run on it since, and ended
            _follow.enter(_crumb.get())


def stitch(parent: int, child: int, kind: str, *, node: str = "", weight: int = 1) -> None:
    """Say that `child` works for `parent`, which is on `node` (this one, unless said)."""
    _lib.iotrail_stitch(_symbol(node), parent, child, STITCHES.index(kind), weight)


def split(parent: int | None = None) -> int:
    """A part of this context's work, or of `parent`: a new breadcrumb, stitched to it."""
    child = fresh()
    stitch(current() if parent is None else parent, child, "split")
    return child


def coalesce(parents: Mapping[int, int]) -> int:
    """One piece of work made of several, each with its weight: a new breadcrumb, stitched to them."""
    child = fresh()
    for parent, weight in parents.items():
        stitch(parent, child, "coalesce", weight=weight)
    return child


def extract(headers: Mapping[str, str]) -> int:
    """A breadcrumb for serving a message with these headers; a request begins here if they say nothing."""
    init()
    parent, state = _context_of(headers)
    return int(_lib.iotrail_extract(parent.encode(), state.encode()))


def _context_of(headers: Mapping[str, str]) -> tuple[str, str]:
    """Traceparent and tracestate of a message; empty where it has none."""
    found = {name.lower(): value for name, value in headers.items()}
    return found.get("traceparent", ""), found.get("tracestate", "")


def _trace_of(headers: Mapping[str, str]) -> tuple[str, str]:
    """The trace that a message belongs to, and the state that goes on with it; empty where it names none."""
    parent, state = _context_of(headers)
    found = re.fullmatch(
        r"\s*(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\s*", parent
    )
    return (found[1], state) if found else ("", "")


class Service:
    """A request at a component, under way."""

    def __init__(self, crumb: int, record: _Record) -> None:
        """Wrap a record that was begun."""
        self.crumb = crumb
        self.status = 0
        self._record = record

    def headers(self) -> dict[str, str]:
        """The headers of a message sent for it; empty while nothing is recorded."""
        parent, state = (ctypes.create_string_buffer(room) for room in (_TRACEPARENT, _TRACESTATE))
        if not _lib.iotrail_inject(_request.get() or self.crumb, self.crumb, parent, state):
            return {}
        version, trace, span, flags = parent.value.decode().split("-")
        came_trace, came_state = _came.get()
        others = [member for member in map(str.strip, came_state.split(",")) if member]
        # at most 32 members (W3C Trace Context, 3.3.1.1)
        states = [state.value.decode(), *(o for o in others if not o.startswith("iotrail="))][:32]
        return {
            "traceparent": f"{version}-{came_trace or trace}-{span}-{flags}",
            "tracestate": ",".join(states),
        }

    def environment(self) -> dict[str, str]:
        """Variables for the environment of a program that is started for it, which then works for it from its start: the
        names that OpenTelemetry gives them. Empty while nothing is recorded."""
        return {name.upper(): value for name, value in self.headers().items()}


@contextlib.contextmanager
def service(
    component: str,
    op: str,
    kind: str,
    crumb: int,
    *,
    client: str = "",
    file: int = NULL,
    pos: int = NULL,
    length: int = NULL,
) -> Iterator[Service]:
    """Work on a request, and post its row at the end. An exception is a failure: its errno, or 1."""
    with within(crumb):
        record = _lib.iotrail_service_begin(SERVICES.index(kind), _symbol(component), _symbol(op), crumb)
        _lib.iotrail_service_about(record, file, pos, length)
        work = Service(crumb, record)
        try:
            yield work
        except BaseException as error:
            work.status = (error.errno if isinstance(error, OSError) else 0) or 1
            raise
        finally:
            _lib.iotrail_service_end(record, _symbol(client), work.status)


@contextlib.contextmanager
def request(
    component: str,
    op: str,
    *,
    client: str = "",
    headers: Mapping[str, str] | None = None,
    file: int = NULL,
    pos: int = NULL,
    length: int = NULL,
) -> Iterator[Service]:
    """Serve a request: one that enters the system here, or that came with `headers`."""
    crumb = fresh() if headers is None else extract(headers)
    token, came = _request.set(crumb), _came.set(_trace_of(headers or {}))
    try:
        about = service(component, op, "server", crumb, client=client, file=file, pos=pos, length=length)
        with about as work:
            yield work
    finally:
        _request.reset(token)
        _came.reset(came)


@contextlib.contextmanager
def call(
    component: str, op: str, *, file: int = NULL, pos: int = NULL, length: int = NULL
) -> Iterator[Service]:
    """Ask another component and wait for it: a breadcrumb of its own, split off this context's."""
    with service(component, op, "client", split(), file=file, pos=pos, length=length) as work:
        yield work


def buffer(
    component: str,
    cache: str,
    kind: str,
    *,
    file: int = NULL,
    pos: int = NULL,
    length: int = NULL,
    crumb: int | None = None,
) -> None:
    """Post one access to a buffer cache."""
    _lib.iotrail_buffer(
        _symbol(component), _symbol(cache), BUFFERS.index(kind), _or_current(crumb), file, pos, length
    )


def transmit(sender: str, receiver: str, length: int, *, crumb: int | None = None) -> None:
    """Post one message, sent now."""
    _lib.iotrail_transmit(_symbol(sender), _symbol(receiver), _or_current(crumb), length)


@contextlib.contextmanager
def disk(
    dev: str, op: str, pos: int = NULL, length: int = NULL, *, crumb: int | None = None
) -> Iterator[None]:
    """One request to a disk, from the begin of the block to its end."""
    record = _lib.iotrail_disk_begin(_symbol(dev), _symbol(op), _or_current(crumb), pos, length)
    _lib.iotrail_disk_issued(record)
    try:
        yield
    finally:
        _lib.iotrail_disk_end(record)


class RecordType:
    """A record type of this program's own: a table of its name."""

    def __init__(self, name: str, meaning: str, columns: Sequence[tuple[str, str, str, str]]) -> None:
        """Declare it. `columns` are (name, BIGINT, DOUBLE or VARCHAR, unit, meaning).

        Raises DeclarationError, which says why.
        """
        lines = [f"{name}\t{meaning}", *("\t".join(column) for column in columns)]
        self.name = name
        self._types = [column[1] for column in columns]
        self._number = int(_lib.iotrail_declare("\n".join(lines).encode()))
        if self._number < 0:
            raise DeclarationError(f"record type {name!r}: {_REFUSED[self._number]}")

    @property
    def on(self) -> bool:
        """Whether its records are wanted now."""
        return bool(_lib.iotrail_on(self._number))

    def post(self, *values: int | float | str | None, crumb: int | None = None) -> None:
        """Post a record of this instant: a value for each column, in order."""
        if not self.on:
            return
        if len(values) > len(self._types):
            raise ValueError(f"{self.name} has {len(self._types)} columns, not {len(values)}")
        words = (ctypes.c_int64 * len(values))(*map(_word, self._types, values))
        _lib.iotrail_post(self._number, _or_current(crumb), words, len(values))


def _word(kind: str, value: int | float | str | None) -> int:
    if value is None:
        return NULL
    if kind == "VARCHAR":
        return _symbol(str(value))
    if kind == "DOUBLE":
        return ctypes.c_int64.from_buffer(ctypes.c_double(float(value) + 0.0)).value
    return int(value)


def _or_current(crumb: int | None) -> int:
    return current() if crumb is None else crumb


def _symbol(text: str) -> int:
    known = _symbols.get(text)
    if known is None:
        known = int(_lib.iotrail_symbol(text.encode()))
        # a forked child has its parent's, under the same numbers
        _symbols[text] = known
    return known
