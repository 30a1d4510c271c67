"""Puts settings back if a sweep is killed: a process of its own, which waits until the sweep is done or gone.

Standard input has a JSON value a line: `{"restore": COMMAND}` for each setting that will have to be put back, and `{"done": true}`.
If it ends without that, the sweep was killed: all settings are put back, the last one first. Ctrl-C and the end of the terminal
do nothing to it.
"""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from iotrail.errors import SweepError
from iotrail.sweep import shell

# Seconds for each command that puts a setting back.
TIMEOUT_S = 30.0


class Guard:
    """The sweep's side. A context: leaving it by its end says that there is nothing to put back any more."""

    def __enter__(self) -> "Guard":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "iotrail.sweep.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        return self

    def tell(self, **what: Any) -> None:
        """Say something to it.

        Raises:
            SweepError: it is gone, so that nobody would put settings back.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SweepError("the process that puts settings back was killed") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(SweepError):
            self.tell(done=True)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def watch(lines: Iterable[str]) -> None:
    """The guard's side: until the sweep is done, or gone."""
    restore: list[str] = []
    for line in lines:
        match json.loads(line):
            case {"restore": command}:
                restore.append(command)
            case {"done": _}:
                return
    for command in reversed(restore):
        said = shell.run(command, TIMEOUT_S)
        if said.status != 0:
            print(f"iotrail: error: {command}: {said.why(TIMEOUT_S)}", file=sys.stderr)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin)
