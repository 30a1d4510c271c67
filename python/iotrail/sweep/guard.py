"""Cleans up if a sweep is killed: a process of its own, which waits until the sweep is done or gone.

Its argument is the sweep's journal. Standard input has a JSON value a line: `{"running": [PID, START]}` for a command that was
started, `{"setting": [PID, START]}` for one that changes a setting, `{"serving": [PID, START]}` for one that settings are made of,
`{"ended": PID}` when one ended, and `{"done": true}`. If it ends without that, the sweep was killed: commands that change a setting are
waited for, others ended, the last one first, settings are put back, and what served them is ended. Ctrl-C and the end of the
terminal do nothing to it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from iotrail.errors import SweepError
from iotrail.sweep import journal

# Seconds that a command has to end by itself.
_GRACE_S = 10.0


class Guard:
    """The sweep's side. A context: leaving it says that there is nothing to clean up any more."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def __enter__(self) -> "Guard":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "iotrail.sweep.guard", self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        return self

    def _tell(self, **what: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SweepError("the process that cleans up after a sweep was killed") from None

    def running(self, pid: int) -> contextlib.AbstractContextManager[None]:
        """While a process group runs that is to end with the sweep.

        Raises:
            SweepError: the guard is gone, so that nobody would clean up.
        """
        return self._alive(pid, "running")

    def setting(self, pid: int) -> contextlib.AbstractContextManager[None]:
        """The same of one that changes a setting, and so has to end before that is put back."""
        return self._alive(pid, "setting")

    def serving(self, pid: int) -> contextlib.AbstractContextManager[None]:
        """The same of one that has to live until settings are put back."""
        return self._alive(pid, "serving")

    @contextlib.contextmanager
    def _alive(self, pid: int, what: str) -> Iterator[None]:
        self._tell(**{what: [pid, _start(pid)]})
        try:
            yield
        finally:
            with contextlib.suppress(SweepError):
                self._tell(ended=pid)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(SweepError):
            self._tell(done=True)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def _start(pid: int) -> int | None:
    """When a process started, in ticks since boot (proc_pid_stat(5)): a later one of that number started later. None if
    there is no such process, or it has ended and nobody has asked how."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in ("Z", "X") else int(numbers[18])
    except (OSError, ValueError, IndexError):
        return None


def _until_gone(lines: Iterable[str], sweep: int) -> Iterator[str]:
    """The lines, then nothing until the sweep is gone: its end of the pipe is closed before it gives the journal up."""
    yield from lines
    patience = time.monotonic() + _GRACE_S
    while os.getppid() == sweep and time.monotonic() < patience:
        time.sleep(0.01)


def watch(lines: Iterable[str], path: Path) -> None:
    """The guard's side: until the sweep is done, or gone."""
    running: dict[int, int | None] = {}
    setting: dict[int, int | None] = {}
    serving: dict[int, int | None] = {}
    for line in lines:
        match json.loads(line):
            case {"running": [pid, start]}:
                running[pid] = start
            case {"setting": [pid, start]}:
                setting[pid] = start
            case {"serving": [pid, start]}:
                serving[pid] = start
            case {"ended": pid}:
                for alive in (running, setting, serving):
                    alive.pop(pid, None)
            case {"done": _}:
                return
    # the kernel refuses a setting while another one is made, and what is cut short may leave something worse
    for pid, start in setting.items():
        _wait(pid, start, journal.TIMEOUT_S)
    for pid, start in reversed([*setting.items(), *running.items()]):
        _end(pid, start)
    for failed in journal.restore(path):
        print(f"iotrail: error: {failed}", file=sys.stderr)
    for pid, start in reversed(serving.items()):
        _end(pid, start)


def _wait(pid: int, start: int | None, seconds: float) -> None:
    """Until a command has ended, for so long at most."""
    patience = time.monotonic() + seconds
    while start is not None and _start(pid) == start and time.monotonic() < patience:
        time.sleep(0.05)


def _end(pid: int, start: int | None) -> None:
    """Ends a command and what it started, if it still is the process that started then: by SIGTERM, then SIGKILL."""
    if start is None or _start(pid) != start:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        _wait(pid, start, _GRACE_S)
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sweep = os.getppid()
    watch(_until_gone(sys.stdin, sweep), Path(sys.argv[1]))
