"""Requests to a file or block device, each timed by `iotrail-native device probe`.

Times are nanoseconds. A batch of requests is done one at a time, each a delay after the end of the one before, or with a
number of requests in flight.
"""

import json
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iotrail import native
from iotrail.device.observed import Floats, Ints
from iotrail.errors import DeviceError

READ, WRITE, FLUSH, TRIM = range(4)


@dataclass(frozen=True)
class Times:
    """When requests started and ended, by request, in ns of the monotonic clock."""

    start: Ints
    end: Ints

    @property
    def took(self) -> Floats:
        """Response times."""
        return (self.end - self.start).astype(float)


@dataclass(frozen=True)
class Target:
    """What is measured."""

    path: str
    size: int
    # the smallest request
    sector: int
    # what the system says; None if it says nothing
    rotational: bool | None
    model: str | None
    # whether probes run with real-time priority
    realtime: bool


class Prober(AbstractContextManager["Prober"]):
    """A running prober, within a `with`.

    With `write` it reads each place before it writes there, and fails if that holds anything but zeros; at the end it writes
    zeros back. With `overwrite` too, it does neither.

    `seconds` is what all requests together should take: `left` says how much remains. `progress` gets the share used.
    """

    def __init__(
        self,
        target: Path,
        *,
        write: bool = False,
        overwrite: bool = False,
        seconds: float = 60.0,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Starts it.

        Raises:
            DeviceError: the target can't or must not be measured.
        """
        options = [*(["--write"] if write else []), *(["--overwrite"] if overwrite else [])]
        self.write = write
        self.requests = 0
        self._seconds, self._progress = seconds, progress
        self._process = subprocess.Popen(
            [native.binary(), "device", "probe", *options, "--", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._began = time.monotonic()
        line = self._output.readline()
        if not line:
            raise self._failure()
        said: dict[str, Any] = json.loads(line)
        self.target = Target(
            said["path"],
            said["size_bytes"],
            said["sector_bytes"],
            said["rotational"],
            said["model"],
            said["realtime"],
        )

    @property
    def _output(self) -> BinaryIO:
        return cast(BinaryIO, self._process.stdout)

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds of the budget that remain; not less than 0."""
        return max(0.0, self._seconds - self.used)

    @property
    def seconds(self) -> float:
        """The whole budget."""
        return self._seconds

    def __exit__(self, *_: object) -> None:
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:
                # it has ended, and what it left is of no use
                self._process.kill()
        self._process.wait()
        self._output.close()
        if self._process.stderr:
            self._process.stderr.close()

    def run(
        self, op: ArrayLike, pos: ArrayLike, length: ArrayLike, delay: ArrayLike = 0, depth: int = 1
    ) -> Times:
        """Do requests; arguments are broadcast against each other.

        Raises:
            DeviceError: a request failed.
        """
        columns = np.broadcast_arrays(np.atleast_1d(op), pos, length, delay)
        batch: NDArray[np.uint64] = np.stack([np.rint(column) for column in columns], axis=1).astype("<u8")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<QQ", len(batch), depth) + batch.tobytes())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        size = len(batch) * 24
        answer = self._output.read(size)
        if len(answer) < size:
            raise self._failure()
        table = np.frombuffer(answer, "<i8").reshape(-1, 3)
        if failed := np.flatnonzero(table[:, 2]).tolist():
            pos_, errno = int(batch[failed[0], 1]), int(table[failed[0], 2])
            words = ("read", "write", "flush", "trim")[int(batch[failed[0], 0])]
            raise DeviceError(
                f"{self.target.path}: {len(failed)} of {len(batch)} requests failed, the first a {words} at byte "
                f"{pos_}: {OSError(errno, '').errno} ({_name(errno)})",
                "dmesg shows what the kernel says about the device",
            )
        self.requests += len(batch)
        if self._progress:
            self._progress(min(1.0, self.used / self._seconds))
        return Times(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64))

    def read(self, pos: ArrayLike, length: ArrayLike, delay: ArrayLike = 0, depth: int = 1) -> Times:
        """Read."""
        return self.run(READ, pos, length, delay, depth)

    def _failure(self) -> DeviceError:
        self._process.wait()
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        message, _, hint = said.removeprefix("iotrail: error: ").partition("\n  hint: ")
        return DeviceError(message.strip() or "the prober ended early", hint.strip() or None)


def _name(errno: int) -> str:
    import os

    return os.strerror(errno)
