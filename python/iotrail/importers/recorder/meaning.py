"""What Recorder's signatures mean: columns of rows, one value for each signature (lib/recorder-posix.c)."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrail.importers.base import Job
from iotrail.importers.calls import CALLS, plain
from iotrail.importers.recorder.files import Signature

# What a call does to a file's position.
NOTHING, OPEN, CLOSE, SEEK, MOVE = range(5)
_SEEK_SET, _SEEK_CUR, _SEEK_END = range(3)
_O_APPEND = 0o2000
_TOP = 1 << 62
_NUMBER = re.compile(r"-?\d{1,19}")


class _Order(NamedTuple):
    """Which of a function's arguments is what."""

    path: int | None = 0
    # The second file of rename and link.
    path2: int | None = None
    # Bytes: the product of these.
    length: tuple[int, ...] = ()
    pos: int | None = None
    flags: int | None = None
    fd: int | None = None
    does: int = NOTHING
    stream: bool = False


_PATH_ONLY = _Order()
_ORDER = {
    "open": _Order(flags=1, does=OPEN),
    "creat": _Order(does=OPEN),
    "close": _Order(does=CLOSE),
    "fopen": _Order(does=OPEN, stream=True),
    # its stream begins where its descriptor was
    "fdopen": _Order(stream=True),
    "fclose": _Order(does=CLOSE, stream=True),
    "read": _Order(length=(2,), does=MOVE),
    "write": _Order(length=(2,), does=MOVE),
    "readv": _Order(length=(1,), does=MOVE),
    "writev": _Order(length=(1,), does=MOVE),
    "pread": _Order(length=(2,), pos=3),
    "pwrite": _Order(length=(2,), pos=3),
    "fread": _Order(path=3, length=(1, 2), does=MOVE, stream=True),
    "fwrite": _Order(path=3, length=(1, 2), does=MOVE, stream=True),
    "lseek": _Order(flags=2, does=SEEK),
    "fseek": _Order(flags=2, does=SEEK, stream=True),
    "fseeko": _Order(flags=2, does=SEEK, stream=True),
    "xstat": _Order(path=1),
    "lxstat": _Order(path=1),
    "fxstat": _Order(path=1),
    "truncate": _Order(length=(1,)),
    "ftruncate": _Order(length=(1,)),
    "rename": _Order(path2=1),
    "link": _Order(path2=1),
    "linkat": _Order(path=1, path2=3),
    "symlink": _Order(path2=1),
    "symlinkat": _Order(path=0, path2=2),
    "readlinkat": _Order(path=1),
    "faccessat": _Order(path=1, flags=3),
    "mmap": _Order(path=4, length=(1,), pos=5, flags=2),
    "msync": _Order(path=None, length=(1,), flags=2),
    "dup": _Order(path=None, fd=0),
    "dup2": _Order(path=None, fd=0),
    "readdir": _Order(path=None),
    "closedir": _Order(path=None),
}


def layer(function: str) -> str:
    """The layer that a function without a row is of."""
    for begin, name in (
        ("MPI_File", "MPI-IO"),
        ("MPI_", "MPI"),
        ("H5", "HDF5"),
        ("ncmpi_", "PnetCDF"),
        ("nc_", "NetCDF"),
    ):
        if function.startswith(begin):
            return name
    return "the program" if function.startswith("function ") else "POSIX"


class Calls:
    """The signatures of a rank, or of all."""

    def __init__(
        self, job: Job, signatures: list[Signature], file: Callable[[str], int], steps: bool
    ) -> None:
        """`file` gives ids of paths; with `steps` offsets are given as the step from the last call."""
        size = len(signatures)
        self.thread = np.array([signature.thread for signature in signatures], np.int64)
        # -1: no call on a file
        self.call = np.full(size, -1, np.int32)
        self.does = np.zeros(size, np.int8)
        # Whether it was somewhere in the file.
        self.placed = np.zeros(size, bool)
        # Which position, and what sets it or moves it on; whence is Recorder's.
        self.handle = np.full(size, -1, np.int64)
        self.pos, self.length, self.whence, self.step = (np.full(size, -1, np.int64) for _ in range(4))
        file1, file2, fd, flags = (np.full(size, -1, np.int64) for _ in range(4))
        layers = []
        handles: dict[tuple[str, bool], int] = {}
        self._steps = steps
        for number, signature in enumerate(signatures):
            name = plain(signature.function)
            call = CALLS.get(name)
            layers.append("" if call else layer(signature.function))
            if call is None:
                continue
            order = _ORDER.get(name, _PATH_ONLY)
            arguments = _Arguments(signature.arguments)
            path = arguments.path(order.path)
            self.call[number] = job.output.call[call]
            file1[number] = -1 if path is None else file(path)
            second = arguments.path(order.path2)
            file2[number] = -1 if second is None else file(second)
            self.length[number] = arguments.product(order.length)
            fd[number] = arguments.positive(order.fd)
            flags[number] = arguments.positive(order.flags)
            if order.pos is not None and not self._stepped(name):
                self.pos[number] = arguments.positive(order.pos)
            if self.length[number] > _TOP - max(self.pos[number], 0):
                self.pos[number] = -1
            self.does[number] = order.does
            self.placed[number] = order.does == MOVE or name in ("pread", "pwrite")
            if path is not None:
                self.handle[number] = handles.setdefault((path, order.stream), len(handles))
            self._position(number, name, arguments)
        names: tuple[Any, Any] = np.unique(np.array(layers, str), return_inverse=True)
        self._layers, self._layer = names
        # what a call returned isn't in the trace: reads and writes are taken as whole
        moved = np.where(self.placed, self.length, -1)
        self.columns = {
            name: pa.array(column, mask=column < 0)
            for name, column in (
                ("file", file1),
                ("file2", file2),
                ("fd", fd),
                ("length", self.length),
                ("result", moved),
                ("flags", flags),
            )
        }

    def _stepped(self, name: str) -> bool:
        return self._steps and name in ("lseek", "pread", "pwrite")

    def _position(self, number: int, name: str, arguments: "_Arguments") -> None:
        """What a call does to the position."""
        does = self.does[number]
        if does == OPEN:
            appends = (
                arguments.text(1).startswith("a")
                if name == "fopen"
                else name == "open" and bool(max(arguments.positive(1), 0) & _O_APPEND)
            )
            self.step[number] = -1 if appends else 0
        elif does == SEEK:
            step = arguments.number(1)
            whence = arguments.positive(2)
            known = step is not None and whence in (_SEEK_SET, _SEEK_CUR) and not self._stepped(name)
            self.whence[number] = whence if known else _SEEK_END
            self.step[number] = step if known and step is not None else 0
        elif does == MOVE:
            self.step[number] = self.length[number]

    def others(self, numbers: npt.NDArray[np.int32]) -> Iterator[tuple[str, int]]:
        """How many of these calls have no row, by layer."""
        counts = np.bincount(self._layer[numbers], minlength=len(self._layers))
        for name, count in zip(self._layers.tolist(), counts.tolist(), strict=True):
            if name and count:
                yield name, count


class _Arguments:
    """A signature's arguments. Those that Recorder couldn't tell are ???, pointers %p."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def text(self, at: int | None) -> str:
        return "" if at is None or at >= len(self.words) else self.words[at]

    def path(self, at: int | None) -> str | None:
        text = self.text(at)
        return text if text and text not in ("???", "%p", "NULL") and "\0" not in text else None

    def number(self, at: int | None) -> int | None:
        text = self.text(at)
        value = int(text) if _NUMBER.fullmatch(text) else None
        return value if value is not None and abs(value) <= _TOP else None

    def positive(self, at: int | None) -> int:
        value = self.number(at)
        return -1 if value is None or value < 0 else value

    def product(self, places: tuple[int, ...]) -> int:
        """Bytes; -1 where they aren't known."""
        if not places:
            return -1
        value = 1
        for at in places:
            factor = self.positive(at)
            if factor < 0:
                return -1
            value *= factor
        return value if value <= _TOP else -1
