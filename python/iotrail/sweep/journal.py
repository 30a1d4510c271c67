"""What a sweep has measured so far: a JSON value a line in a file beside the trail, so that nothing is lost however it ends.

The first line has the specification. `{"setting": …}` is a measurement, `{"restore": COMMAND}` puts back a setting that the
sweep changes, `{"restored": true}` says that all have been put back.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from iotrail.errors import SweepError
from iotrail.sweep import shell

# Seconds for each command that puts a setting back.
TIMEOUT_S = 30.0
VERSION = 1
# Lines are flushed to the disk so often: a power cut takes what was measured in the last second.
_EVERY_S = 1.0


@dataclass(frozen=True)
class Measurement:
    """One measurement of a setting, given by its codes. `ts` is on the clock of trails, `value` None if it failed; `layers`
    has what layers showed, as "layer/metric"."""

    setting: tuple[int, ...]
    purpose: str
    ts: int
    dur: int
    value: float | None
    detail: str = ""
    layers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """What a journal says; `restore` has the commands that put back what is still changed, in the order of the changes."""

    spec: str
    path: str
    seed: int
    # settings of an adaptive sweep; None if it isn't one
    adaptive: int | None
    measurements: tuple[Measurement, ...]
    restore: tuple[str, ...]


class Journal:
    """A journal that is written on. A context."""

    def __init__(self, path: Path) -> None:
        """Opens it, or makes it.

        Raises:
            SweepError: it can't be written, or another sweep writes it.
        """
        self.path = path
        self._flushed = time.monotonic()
        try:
            self._file = path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_line(path, self._file.fileno())
        except BlockingIOError:
            raise SweepError(f"{path}: another sweep is writing it") from None
        except OSError as error:
            raise SweepError(f"cannot write {path}: {error.strerror}") from error

    def begin(self, spec: str, path: str, seed: int, adaptive: int | None = None) -> None:
        """The first line; `adaptive` is how many settings an adaptive sweep measures."""
        more = {} if adaptive is None else {"adaptive": adaptive}
        self.add(sweep=VERSION, spec=spec, path=path, seed=seed, **more)

    def measured(self, measurement: Measurement) -> None:
        """Keep a measurement."""
        self.add(**asdict(measurement))

    def add(self, **line: Any) -> None:
        """Write a line; what says how to put a setting back is on the disk when this returns.

        Raises:
            SweepError: no space.
        """
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
            now = time.monotonic()
            if "restore" in line or now > self._flushed + _EVERY_S:
                os.fsync(self._file.fileno())
                self._flushed = now
        except OSError as error:
            raise SweepError(
                f"cannot write {self.path}: {error.strerror}",
                "what was measured before is kept: --resume goes on",
            ) from error

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _end_line(path: Path, descriptor: int) -> None:
    """Removes a line that was cut off, by a power cut or for want of space."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)


def read(path: Path) -> Content:
    """Reads a journal; a last line that was cut off is left out.

    Raises `SweepError` if it can't be read or is none.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise SweepError(f"cannot read {path}: {error.strerror}") from error
    begun: dict[str, Any] | None = None
    measurements: list[Measurement] = []
    restore: list[str] = []
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            if number == 1:
                begun = _first(line, path)
            elif "setting" in line:
                measurements.append(Measurement(**{**line, "setting": tuple(line["setting"])}))
            elif "restore" in line:
                restore.append(line["restore"])
            elif "restored" in line:
                restore.clear()
            else:
                raise ValueError
        except (ValueError, TypeError, KeyError) as error:
            raise SweepError(
                f"{path}:{number}: expected a line of a sweep's journal, found {text[:80].decode(errors='replace')!r}",
                "nothing can be resumed or put back from it: move it away",
            ) from error
    if begun is None:
        raise SweepError(f"{path}: no journal of a sweep: its first line is missing")
    return Content(
        begun["spec"],
        begun["path"],
        begun["seed"],
        begun.get("adaptive"),
        tuple(measurements),
        tuple(restore),
    )


def _first(line: dict[str, Any], path: Path) -> dict[str, Any]:
    if line["sweep"] != VERSION:
        raise SweepError(f"{path}: of version {line['sweep']}, expected {VERSION}")
    return line


def restore(path: Path) -> list[str]:
    """Puts back the settings that a sweep left changed, the last one first. Returns why that failed."""
    read(path)
    failed = []
    with Journal(path) as journal:
        commands = read(path).restore
        for command in reversed(commands):
            said = shell.run(command, TIMEOUT_S)
            if said.status != 0:
                failed.append(f"{command}: {said.why(TIMEOUT_S)}")
        if commands and not failed:
            journal.add(restored=True)
    return failed
