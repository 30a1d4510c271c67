"""Breadcrumbs follow tasks: whichever thread runs one works for the task's breadcrumb meanwhile, and for none after.

A task's breadcrumb is in its context (contextvars). What runs contexts is told to set the thread's: the event loops of
asyncio and uvloop for each step of a task and each callback, and the pools of concurrent.futures (with them `to_thread`
and `run_in_executor`) for what is submitted to them. Under another loop the thread's breadcrumb is left alone: better
that its calls and CPU time are for nobody than for whichever task happened to be next.
"""

import contextvars
import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_Set = Callable[[int], int]

# Modules that run contexts, and what makes each follow breadcrumbs: once, when it is there.
_waiting: dict[str, Callable[[ModuleType, "Follow"], None]] = {}


class Follow:
    """How the thread's breadcrumb is set, and where a context's is."""

    def __init__(self, crumb: contextvars.ContextVar[int], enter: _Set, take: _Set) -> None:
        """`crumb` is the context's; `enter` and `take` set the thread's and return the one before."""
        self.crumb, self.enter, self.take = crumb, enter, take

    def install(self) -> bool:
        """Make the modules follow breadcrumbs that were imported since the last time; whether a loop is running that was
        not told before."""
        told = False
        while found := [name for name in _waiting if name in sys.modules]:
            told = True
            for name in found:
                _waiting.pop(name)(sys.modules[name], self)
        return told and _running() is not None

    @property
    def follows(self) -> bool:
        """Whether the thread's breadcrumb follows what runs now: there is no loop, or one that was told to."""
        for name, says in _OTHERS.items():
            module = sys.modules.get(name)
            if module is not None and getattr(module, says)():
                return False
        loop = _running()
        return loop is None or hasattr(type(loop), "_iotrail_follows")


# Loops that can't be told, and what says that one runs.
_OTHERS = {"trio.lowlevel": "in_trio_run", "curio.meta": "curio_running"}


def _running() -> object | None:
    """The calling thread's loop of asyncio's kind; None if it runs none."""
    events = sys.modules.get("asyncio.events")
    return None if events is None else events._get_running_loop()


def _asyncio(events: ModuleType, follow: Follow) -> None:
    """Each step of a task and each callback is a handle's run, in the handle's context."""
    # what to_thread imports at its first use, inside a request
    importlib.import_module("concurrent.futures.thread")
    run = events.Handle._run
    crumb, enter = follow.crumb, follow.enter

    @functools.wraps(run)
    def _run(self: Any) -> None:
        context = self._context
        if mine := context.get(crumb, 0):
            enter(mine)
        try:
            run(self)
        finally:
            if mine or context.get(crumb, 0):
                enter(0)

    events.Handle._run = _run


def _connections(selectors: ModuleType, follow: Follow) -> None:
    """What a connection reads is for whoever asked for it, and not for the request that opened the connection, whose
    context its callbacks would keep."""
    for name in ("_add_reader", "_add_writer"):
        add = getattr(selectors.BaseSelectorEventLoop, name)
        setattr(selectors.BaseSelectorEventLoop, name, _for_nobody(add, follow.crumb))


def _for_nobody(method: Callable[..., Any], crumb: contextvars.ContextVar[int]) -> Callable[..., Any]:
    """The method, in a context without a breadcrumb."""

    @functools.wraps(method)
    def called(*arguments: Any) -> Any:
        if not crumb.get():
            return method(*arguments)
        context = contextvars.copy_context()
        context.run(crumb.set, 0)
        return context.run(method, *arguments)

    return called


def _asyncio_loops(loops: ModuleType, follow: Follow) -> None:
    loops.BaseEventLoop._iotrail_follows = True


def _uvloop(module: ModuleType, follow: Follow) -> None:
    """Its handles are in C: what is handed to them is wrapped."""
    crumb, enter = follow.crumb, follow.enter

    def in_crumb(callback: Callable[..., Any], *arguments: Any) -> None:
        if mine := crumb.get():
            enter(mine)
        try:
            callback(*arguments)
        finally:
            if mine or crumb.get():
                enter(0)

    def wrapped(name: str, before: int) -> Callable[..., Any]:
        """The loop's method of this name, whose callback is its argument after `before` others."""
        method = getattr(module.Loop, name)

        @functools.wraps(method)
        def called(self: Any, *arguments: Any, **options: Any) -> Any:
            return method(self, *arguments[:before], in_crumb, *arguments[before:], **options)

        return called

    for name, before in (("call_soon", 0), ("call_soon_threadsafe", 0), ("call_later", 1), ("call_at", 1)):
        setattr(module.Loop, name, wrapped(name, before))
    module.Loop._iotrail_follows = True


def _pool(thread: ModuleType, follow: Follow) -> None:
    """What is submitted to a pool's thread is for whom it was submitted."""
    item = thread._WorkItem
    begin, run = item.__init__, item.run
    crumb = follow.crumb

    @functools.wraps(begin)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self._iotrail_crumb = crumb.get()

    @functools.wraps(run)
    def run_in_crumb(self: Any) -> None:
        mine = getattr(self, "_iotrail_crumb", 0)
        if not mine:
            run(self)
            return
        token = crumb.set(mine)
        follow.take(mine)
        try:
            run(self)
        finally:
            follow.enter(0)
            crumb.reset(token)

    item.__init__, item.run = __init__, run_in_crumb


_waiting |= {
    "asyncio.events": _asyncio,
    "asyncio.base_events": _asyncio_loops,
    "asyncio.selector_events": _connections,
    "uvloop": _uvloop,
    "concurrent.futures.thread": _pool,
}
