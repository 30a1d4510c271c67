"""Foreign files as streams: opened whatever compressed them, read in blocks of whole lines, counted.

Compression is told by magic, not by name, so that a renamed file reads too. Progress is counted in
bytes of the file as it lies on disk, the only size known beforehand.
"""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from iotrail.errors import TraceError

# Of lines or records read at a time: big enough that work by columns pays, small beside the memory
# an import may take (1 GiB for any length of input).
BLOCK = 8 << 20
# What is looked at to guess a format.
HEAD = 256 << 10

_DECOMPRESS: dict[bytes, tuple[str, Callable[[BinaryIO], BinaryIO]]] = {
    b"\x1f\x8b": ("gzip", lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw))),
    b"\xfd7zXZ\x00": ("xz", lambda raw: cast(BinaryIO, lzma.LZMAFile(raw))),  # noqa: SIM115 (the caller closes it)
    b"\x28\xb5\x2f\xfd": (
        "zstd",
        lambda raw: cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)),
    ),
}
_BROKEN = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


class _Counted(io.RawIOBase):
    """A file that tells how many of its bytes were read."""

    def __init__(self, file: io.FileIO, progress: Callable[[int], None]) -> None:
        self.file = file
        self.progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self.file.readinto(buffer) or 0
        self.progress(count)
        return count


@dataclass(eq=False)
class Source:
    """A file to import."""

    path: Path
    size: int
    compression: str | None = None
    progress: Callable[[int], None] = field(default=lambda _: None, repr=False)

    @classmethod
    def at(cls, path: Path) -> "Source":
        """The file at a path; refuses what can't be read before anything is written."""
        try:
            with path.open("rb") as file:
                magic = file.read(6)
        except FileNotFoundError:
            raise TraceError(f"{path}: no such file", "name the trace to import") from None
        except IsADirectoryError:
            raise TraceError(
                f"{path}: is a folder; expected a trace",
                "only a folder of blktrace's per-CPU files (NAME.blktrace.0 …) can be imported as one",
            ) from None
        except OSError as error:
            raise TraceError(f"{path}: can't be read: {error.strerror}") from None
        compression = next((name for mark, (name, _) in _DECOMPRESS.items() if magic.startswith(mark)), None)
        return cls(path, path.stat().st_size, compression)

    def open(self) -> BinaryIO:
        """The decompressed bytes as a stream."""
        counted = cast(BinaryIO, io.BufferedReader(_Counted(io.FileIO(self.path), self.progress), 1 << 20))
        for name, decompress in _DECOMPRESS.values():
            if name == self.compression:
                return decompress(counted)
        return counted

    def head(self) -> bytes:
        """The first bytes, to guess by."""
        progress, self.progress = self.progress, lambda _: None
        try:
            with self.open() as stream:
                return self._read(stream, HEAD)
        except TraceError:
            return b""
        finally:
            self.progress = progress

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        """`size` bytes, fewer at the end only."""
        parts = []
        try:
            while size > 0 and (data := stream.read(size)):
                parts.append(data)
                size -= len(data)
        except _BROKEN as error:
            raise TraceError(
                f"{self.path}: its {self.compression} data is broken or cut off: {error}",
                f"{self.compression} -t {self.path} checks it; fetch it again or decompress what is whole",
            ) from None
        return b"".join(parts)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The bytes, a block at a time."""
        with self.open() as stream:
            while block := self._read(stream, size):
                yield block

    def lines(self, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines with the number of their first; a last line without an end gets none."""
        number, rest = 1, b""
        for data in self.blocks(size):
            end = data.rfind(b"\n") + 1
            if end == 0:
                rest += data
                continue
            block, rest = rest + data[:end], data[end:]
            yield number, block
            number += block.count(b"\n")
        if rest:
            yield number, rest
