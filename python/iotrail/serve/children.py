"""The collector and the agent that `iotrail serve` starts itself, and ends when it ends, however it ends."""

import ctypes
import re
import selectors
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from iotrail import native
from iotrail.errors import ServeError

READY_SECONDS = 20
LEAVING_SECONDS = 15

_READY = re.compile(rb"^collecting into .+ on ([^\s,]+)")
# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


class Children:
    """Both children. Use as a context: they are ended at its end."""

    def __init__(self, trail: Path, agent_options: list[str]) -> None:
        self.trail = trail
        self.address = ""
        self._agent_options = agent_options
        self._running: dict[str, tuple[subprocess.Popen[bytes], BinaryIO]] = {}

    def __enter__(self) -> "Children":
        try:
            collector = self._start(
                "collect", ["-o", str(self.trail), "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
            )
            self.address = self._wait_for_address(collector)
            self._start("agent", ["--collector", self.address, *self._agent_options])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ended(self) -> ServeError | None:
        """What to say of a child that ended by itself."""
        for verb, (child, errors) in self._running.items():
            if child.poll() is not None:
                message, hint = native.said(errors)
                return ServeError(
                    f"iotrail {verb} ended with status {child.returncode}"
                    + (f": {message}" if message else ""),
                    hint,
                )
        return None

    def _start(self, verb: str, options: list[str]) -> subprocess.Popen[bytes]:
        errors: BinaryIO = tempfile.TemporaryFile(prefix=f"iotrail-{verb}-")  # noqa: SIM115
        child = subprocess.Popen(
            [native.binary(), verb, *options],
            stdout=subprocess.PIPE if verb == "collect" else subprocess.DEVNULL,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for us: we end them in order, the agent first
            process_group=0,
            preexec_fn=_die_with_parent,
        )
        self._running[verb] = (child, errors)
        return child

    def _wait_for_address(self, collector: subprocess.Popen[bytes]) -> str:
        assert collector.stdout is not None
        until = time.monotonic() + READY_SECONDS
        with selectors.DefaultSelector() as waiting:
            waiting.register(collector.stdout, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0 and waiting.select(left):
                line = collector.stdout.readline()
                if ready := _READY.match(line):
                    return ready[1].decode()
                if not line:
                    collector.wait()
                    raise self.ended() or ServeError("iotrail collect ended without a word")
        raise ServeError(
            f"iotrail collect: not ready within {READY_SECONDS} s", f"is {self.trail} on a slow disk?"
        )

    def _end(self) -> None:
        # the agent hands over what it has before its collector goes
        for verb in ("agent", "collect"):
            child, errors = self._running.pop(verb, (None, None))
            if child is None or errors is None:
                continue
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(LEAVING_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            errors.close()
            if child.stdout is not None:
                child.stdout.close()


def _die_with_parent() -> None:
    # SIGKILL of us must not leave a collector that nobody sees
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
