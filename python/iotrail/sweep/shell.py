"""Shell commands of a specification, each in a process group of its own, with a time limit."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from iotrail.anomaly.space import Value
from iotrail.errors import SweepError

_PLACE = re.compile(r"\{(\w+)\}")
# Bytes of output that are kept for messages.
_MOST_SAID = 2000
# Seconds that a command which is ended has for it.
_GRACE_S = 2.0


@dataclass(frozen=True)
class Said:
    """What a command printed and how it ended; `status` is None if it took too long."""

    status: int | None
    out: str
    errors: str

    def why(self, timeout_s: float) -> str:
        """How it failed, in words."""
        said = " ".join((self.errors or self.out).split())[-200:]
        ended = (
            f"did not end within {timeout_s:g} s"
            if self.status is None
            else f"ended with status {self.status}"
        )
        return f"{ended}: {said}" if said else ended


def fill(command: str, values: Mapping[str, Value]) -> str:
    """A command with values for `{name}`, quoted for the shell. Braces around other words belong to the command."""
    return _PLACE.sub(
        lambda found: shlex.quote(str(values[found[1]])) if found[1] in values else found[0], command
    )


# Makes a context in which a command runs, from its process group.
Running = Callable[[int], AbstractContextManager[None]]


def alone(_: int) -> AbstractContextManager[None]:
    """Runs a command that nobody else is to end."""
    return contextlib.nullcontext()


def run(command: str, timeout_s: float, running: Running = alone) -> Said:
    """Runs a shell command; what it started is ended with it if it takes too long. `running` makes a context for its
    process group, in which it runs.

    Raises `SweepError` if no shell can be started.
    """
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise SweepError(f"cannot start /bin/sh: {error.strerror}") from error
    try:
        with running(process.pid):
            out, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end(process)
        return Said(None, "", "")
    except BaseException:
        end(process)
        raise
    return Said(process.returncode, out[-_MOST_SAID:], errors[-_MOST_SAID:])


def end(process: "subprocess.Popen[str]") -> None:
    """Ends a command and what it started, by SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.communicate(timeout=_GRACE_S)
            break
        except subprocess.TimeoutExpired:
            continue
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
