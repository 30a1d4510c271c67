"""The command `iotrail`, run in the process of the tests: each start of Python with what it imports takes most of a second."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn
from unittest import mock

from iotrail.__main__ import main


class _Replaced(BaseException):
    """The process would be another program now."""

    def __init__(self, path: str, words: Sequence[str]) -> None:
        super().__init__(path)
        self.words = [path, *words[1:]]


def _replace(path: str, words: Sequence[str]) -> NoReturn:
    raise _Replaced(path, words)


def run(
    *words: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A command, its output, errors and status. `env` is added to the environment; it runs in the folder `cwd`.

    A verb of the native binary, which takes the place of Python's process, is a process of its own.
    """
    argv = ["iotrail", *map(str, words)]
    out, errors, status = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    with (
        chdir(cwd) if cwd else nullcontext(),
        redirect_stdout(out),
        redirect_stderr(errors),
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, env or {}),
        mock.patch.object(os, "execv", _replace),
        # which writes to descriptor 1
        mock.patch("iotrail.__main__._open_stdout", lambda plain: plain),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except _Replaced as replaced:
            done = subprocess.run(replaced.words, capture_output=True, text=True, check=False)
            status = done.returncode
            out.write(done.stdout)
            errors.write(done.stderr)
        finally:
            signal.signal(signal.SIGTERM, handler)
    out.seek(0)
    return subprocess.CompletedProcess(argv, status, out.read(), errors.getvalue())


def iotrail(*words: object, fails: bool = False, env: Mapping[str, str] | None = None) -> str:
    """What a command prints; of one that `fails`, its errors."""
    done = run(*words, env=env)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout
