"""The collector and the agent that `iotrail serve` starts itself: started again when they die, and ended when it
ends, however it ends.
"""

import ctypes
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from iotrail import native
from iotrail.errors import ServeError

READY_SECONDS = 20
LEAVING_SECONDS = 15
# One that ends by itself sooner was started wrongly, and would end again.
SETTLED_SECONDS = 5.0
# Before a dead one is started again: twice as long each time, until it has lived for a while.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0

_READY = re.compile(rb"^collecting into .+ on ([^\s,]+), ([^\s,]+)$")
# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


class _Child:
    """One of them, over all its lives."""

    def __init__(self, verb: str, options: list[str]) -> None:
        self.verb = verb
        self.options = options
        self.settled = False
        # when it is to be started again; None while it runs
        self.again: float | None = None
        self._pause = FIRST_PAUSE
        self.start()

    def start(self) -> None:
        """Starts it, for the first time or again."""
        self.again = None
        self._started = time.monotonic()
        self._errors: BinaryIO = tempfile.TemporaryFile(prefix=f"iotrail-{self.verb}-")  # noqa: SIM115
        self.process = subprocess.Popen(
            [native.binary(), self.verb, *self.options],
            stdout=subprocess.PIPE if self.verb == "collect" else subprocess.DEVNULL,
            stderr=self._errors,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for us: we end them in order, the agent first
            process_group=0,
            preexec_fn=_die_with_parent,
        )

    def watch(self) -> str | None:
        """What is to be said of it: that it died just now."""
        now = time.monotonic()
        if self.again is not None:
            if now >= self.again:
                self.close()
                self.start()
            return None
        lived = now - self._started
        if self.process.poll() is None:
            self.settled |= lived >= SETTLED_SECONDS
            return None
        pause = self._pause = FIRST_PAUSE if lived >= STEADY_SECONDS else self._pause
        self._pause = min(LONGEST_PAUSE, 2 * pause)
        self.again = now + pause
        return f"{self.ended().message}; started again in {pause:g} s"

    def ended(self) -> ServeError:
        """What to say of one that ended by itself."""
        message, hint = native.said(self._errors)
        status = self.process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return ServeError(f"iotrail {self.verb} {how}" + (f": {message}" if message else ""), hint)

    def close(self) -> None:
        """Lets go of what is known of an ended one."""
        self._errors.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Children:
    """Both children. Use as a context: they are ended at its end."""

    def __init__(self, trail: Path, agent_options: list[str]) -> None:
        self.trail = trail
        self.address = ""
        self._agent_options = agent_options
        self._children: dict[str, _Child] = {}

    def __enter__(self) -> "Children":
        try:
            collector = self._start("collect", self._collector_options("127.0.0.1:0", "127.0.0.1:0"))
            addresses = self._wait_for_addresses(collector)
            self.address = addresses[0]
            # when it comes back it is where agent and viewers look for it
            collector.options = self._collector_options(*addresses)
            self._start("agent", ["--collector", self.address, *self._agent_options])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def tend(self) -> ServeError | None:
        """Sees to it that both run, without blocking; what to say of one that could not even begin."""
        for child in self._children.values():
            if (died := child.watch()) is not None:
                # whatever killed it, the next one can live
                if not child.settled and child.process.returncode >= 0:
                    return child.ended()
                print(f"iotrail: {died}", file=sys.stderr, flush=True)
        return None

    def _collector_options(self, *addresses: str) -> list[str]:
        return ["-o", str(self.trail), *(word for address in addresses for word in ("--listen", address))]

    def _start(self, verb: str, options: list[str]) -> _Child:
        child = self._children[verb] = _Child(verb, options)
        return child

    def _wait_for_addresses(self, collector: _Child) -> tuple[str, str]:
        assert collector.process.stdout is not None
        until = time.monotonic() + READY_SECONDS
        with selectors.DefaultSelector() as waiting:
            waiting.register(collector.process.stdout, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0 and waiting.select(left):
                line = collector.process.stdout.readline()
                if ready := _READY.match(line):
                    return ready[1].decode(), ready[2].decode()
                if not line:
                    collector.process.wait()
                    raise collector.ended()
        raise ServeError(
            f"iotrail collect: not ready within {READY_SECONDS} s", f"is {self.trail} on a slow disk?"
        )

    def _end(self) -> None:
        # the agent hands over what it has before its collector goes
        for verb in ("agent", "collect"):
            child = self._children.pop(verb, None)
            if child is None:
                continue
            child.process.send_signal(signal.SIGTERM)
            try:
                child.process.wait(LEAVING_SECONDS)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            child.close()


def _die_with_parent() -> None:
    # SIGKILL of us must not leave a collector that nobody sees
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
