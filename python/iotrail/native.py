"""Run the verbs of the native binary, `iotrail-native`.

Most verbs are exec()ed: what this module imports before delays each of them, and counts as CPU of a recording. So
imports of what only some verbs need stand where it is needed.
"""

from __future__ import annotations

import os
import sys

from iotrail.errors import IotrailError, NativeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Any, BinaryIO, NoReturn

# Verb of the binary -> its line in `iotrail --help`.
VERBS = {
    "record": "Run a program and record its I/O (--summary prints where the time went).",
    "replay": "Run the I/O of a trail on other storage, and record it.",
    "agent": "Sample this machine and its storage systems, and send the samples to a collector.",
    "collect": "Collect records of many machines into one trail, and show them live.",
    "emudisk": "Serve a disk that has the response times of a simulated device.",
    "trail": "Inspect, check, compact, merge and prune trails.",
    "types": "Switch record types of a running program on and off.",
    "ingest": "Create a trail from Arrow streams.",
    "schema": "Print the tables of a trail and the calls iotrail knows, as JSON.",
}

# Options of `record` that take the next word as their value.
_WITH_VALUE = (
    "-o",
    "--output",
    "--memory",
    "--node",
    "--kernel-via",
    "--announce",
    "--prune",
    "--python",
    "--throttle",
    "--period",
)

_NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")


def binary() -> Path:
    """The binary: that of `IOTRAIL_NATIVE` if set, else the one in the package."""
    from pathlib import Path

    return Path(_find_binary())


def _find_binary() -> str:
    override = os.environ.get("IOTRAIL_NATIVE")
    path = override or os.path.join(_NATIVE, "iotrail-native")
    if not os.path.isfile(path):
        raise NativeError(
            f"{path}: no iotrail-native there" + (", but IOTRAIL_NATIVE says so" if override else ""),
            "unset IOTRAIL_NATIVE, or let it name the binary"
            if override
            else "in a checkout `make` builds it; an installed iotrail without it is incomplete: install again",
        )
    if not os.access(path, os.X_OK):
        raise NativeError(f"{path}: no permission to run it")
    return path


def sdk_folder() -> Path:
    """Where `libiotrail.so` and `iotrail.h` lie."""
    from pathlib import Path

    folder = Path(_NATIVE)
    if not (folder / "libiotrail.so").is_file():
        raise NativeError(f"{folder}: no libiotrail.so there", "in a checkout `make` builds it")
    return folder


def package_version() -> str | None:
    """The version of this package; None when it runs without being installed.

    Its installer leaves a folder of that name (PEP 376); importlib.metadata, which reads it, takes 10 ms to import.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("iotrail-") and name.endswith(".dist-info"):
                return name.removeprefix("iotrail-").removesuffix(".dist-info")
    return None


def native_version(path: Path | str) -> str:
    """The version the binary reports."""
    import subprocess

    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise NativeError(f"{path}: doesn't run: {error}") from error
    return done.stdout.split()[-1] if done.stdout.split() else "unknown"


def check_version(path: Path | str) -> None:
    """Say on stderr if the binary is of another version than this package."""
    ours = package_version()
    theirs = native_version(path)
    if ours is not None and ours != theirs:
        print(
            f"iotrail: warning: {path} is version {theirs}, the Python package {ours}\n"
            "  hint: in a checkout run `make`, else install iotrail again",
            file=sys.stderr,
        )


def clock() -> tuple[str, int]:
    """This machine's name in trails, and what CLOCK_MONOTONIC lacks to their time, in ns."""
    import json
    import subprocess

    path = binary()
    try:
        answer = json.loads(subprocess.run([path, "clock"], capture_output=True, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NativeError(f"{path}: doesn't run: {error}") from error
    return answer["node"], answer["offset"]


def answers(words: Sequence[str | Path], questions: Iterable[object] = ()) -> list[Any]:
    """What a verb of the binary prints, a JSON value a line, for questions on its standard input, a JSON value a line.

    Raises `UsageError` with its message if it refuses something.
    """
    import json
    import subprocess

    from iotrail.errors import UsageError

    done = subprocess.run(
        [binary(), *words],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(done.stderr.removeprefix("iotrail: error: ").strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def said(errors: BinaryIO) -> tuple[str, str | None]:
    """The message and hint that a native verb left in the file that was its stderr; empty and None if it said nothing."""
    errors.seek(0)
    message, _, hint = errors.read().decode("utf-8", "replace").strip().partition("\n")
    return message.removeprefix("iotrail: error: "), hint.strip().removeprefix("hint: ") or None


def run(arguments: list[str]) -> NoReturn:
    """Run a native verb and end the process: exec the binary, or print after `record --summary` and `replay`."""
    if arguments[:2] == ["trail", "prune"]:
        from iotrail.requests import prune_verb

        prune_verb.app(arguments[2:], prog_name="iotrail trail prune")
        sys.exit(0)
    path = _find_binary()
    if os.environ.get("IOTRAIL_NATIVE"):
        check_version(path)
    elif version := package_version():
        # the binary of the package compares it with its own: asking it would be a process more
        os.environ["IOTRAIL_PACKAGE_VERSION"] = version
    if has_option(arguments, "--prune"):
        # the recorder runs `trail prune` as a child
        arguments = [arguments[0], "--python", sys.executable, *arguments[1:]]
    if has_option(arguments, "--summary"):
        _record_and_summarise(path, arguments)
    if arguments[0] == "replay":
        _replay_and_judge(path, arguments)
    try:
        # as iotrail, so that its usage lines say what the user typed
        os.execv(path, ["iotrail", *arguments])
    except OSError as error:
        raise NativeError(f"{path}: {error.strerror}") from error


def _record_and_summarise(path: str, arguments: list[str]) -> NoReturn:
    """Record, then print the summary of the trail that the recorder says it wrote."""
    status, trail = _announced(path, arguments)
    if trail:
        from iotrail import summary

        summary.show(trail)
    sys.exit(status)


def _replay_and_judge(path: str, arguments: list[str]) -> NoReturn:
    """Replay, then print how faithful that was."""
    status, said = _announced(path, arguments)
    if said:
        from iotrail.diff import fidelity

        fidelity.judge(said)
    sys.exit(status)


def _announced(path: str, arguments: list[str]) -> tuple[int, str]:
    """Run a verb; its exit status and what it announced when it was done, nothing if it wasn't."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="iotrail-announce-") as announced:
        verb, *rest = arguments
        status = _wait_for(path, ["iotrail", verb, "--announce", announced.name, *rest])
        return status, os.fsdecode(announced.read()).rstrip("\n")


def _wait_for(path: str, argv: list[str]) -> int:
    """Run the binary and return its exit status.

    Signals are the recorder's business: Ctrl-C reaches it by the terminal, SIGTERM is passed on. A
    handler, unlike SIG_IGN, isn't inherited through exec.
    """
    import signal
    import subprocess

    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: object) -> None:
        if child is not None:
            child.send_signal(number)

    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGQUIT, lambda *_: None)
    signal.signal(signal.SIGTERM, pass_on)
    child = subprocess.Popen(argv, executable=path)
    status = child.wait()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return 128 - status if status < 0 else status


def has_option(arguments: list[str], option: str) -> bool:
    """Whether these are arguments of `record` with this option of its own: what follows `--` or the first word
    that is neither an option nor the value of one belongs to the recorded program."""
    if arguments[0] != "record":
        return False
    words = iter(arguments[1:])
    for word in words:
        if word == "--" or not word.startswith("-"):
            return False
        if word == option or word.startswith(f"{option}="):
            return True
        if word in _WITH_VALUE:
            next(words, None)
    return False


__all__ = ["VERBS", "IotrailError", "binary", "check_version", "run"]
