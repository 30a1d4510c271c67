"""Foreign files as streams: opened whatever compressed them, read in blocks of whole lines, counted.

Compression is told by magic, not by name, so that a renamed file reads too. Progress is counted in
bytes of the file as it lies on disk, the only size known beforehand. What can't be read twice (standard input,
a pipe, `<(…)`) is read once: what was looked at to guess the format is kept. The files of a tar archive are
sources each; they are unpacked into a private folder that is removed at the end, and to a multiple of the archive's
bytes at most.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import stat
import sys
import tarfile
import tempfile
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
# Lines of more bytes are left out and counted. strace's are the longest: -v -s 65536 prints 256 KiB a string.
LONGEST_LINE = 1 << 20
# Characters kept of a line that is too long.
_EXCERPT = 200

_XZ_MAGIC = b"\xfd7zXZ\x00"
# xz needs as much as its file says, up to 4 GiB; what `xz -9` makes needs 65 MiB.
_MOST_XZ = 256 << 20


class _Xz(io.RawIOBase):
    """What xz made, as `lzma.LZMAFile` has it, which can't bound its memory."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.begin = b""
        self.stream = lzma.LZMADecompressor(memlimit=_MOST_XZ)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            if self.stream.eof and not self._next():
                return 0
            data, self.begin = self.begin, b""
            if not data and self.stream.needs_input and not (data := self.raw.read(1 << 16)):
                raise EOFError("it ends within")
            try:
                made = self.stream.decompress(data, len(buffer))
            except lzma.LZMAError as error:
                if str(error).startswith("Memory"):
                    raise lzma.LZMAError(f"it needs more than {_MOST_XZ >> 20} MiB of memory") from None
                raise
            if made:
                buffer[: len(made)] = made
                return len(made)

    def _next(self) -> bool:
        """Whether another stream follows, maybe after zeros (xz(1)). What else follows is left, as xz leaves it."""
        rest = self.stream.unused_data.lstrip(b"\0")
        while len(rest) < len(_XZ_MAGIC) and (more := self.raw.read(1 << 16)):
            rest = (rest + more).lstrip(b"\0")
        if not rest.startswith(_XZ_MAGIC):
            return False
        self.begin, self.stream = rest, lzma.LZMADecompressor(memlimit=_MOST_XZ)
        return True


_DECOMPRESS: dict[bytes, tuple[str, Callable[[BinaryIO], BinaryIO]]] = {
    b"\x1f\x8b": ("gzip", lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw))),
    _XZ_MAGIC: ("xz", lambda raw: cast(BinaryIO, io.BufferedReader(_Xz(raw)))),
    b"BZh": ("bzip2", lambda raw: cast(BinaryIO, bz2.BZ2File(raw))),
    b"\x28\xb5\x2f\xfd": (
        "zstd",
        lambda raw: cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)),
    ),
}
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")
_BROKEN = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
# Where a tar archive says that it is one (pax(1), ustar).
_TAR_MAGIC = slice(257, 262)
# Bytes of a name, or of attributes, of which tarfile reads as many as the archive says at once: four times a longest path.
_MOST_HEADER = 16 << 10
# How often tarfile may meet the end of an archive: it skips a file that isn't there in steps, without looking.
_MOST_ENDS = 100
# What an archive may unpack to: so many times its bytes, or so much in any case. A loop of three calls
# in strace's text is packed 16 times by gzip and 21 times by xz; gzip packs zeros a thousand times.
_MOST_TIMES = 200
_LEAST_UNPACKED = 1 << 30
# What a file takes on disk at least, as most file systems have it.
_FILE_BYTES = 4096


class _Counted(io.RawIOBase):
    """A file that tells how many of its bytes were read; `begin` was read before."""

    def __init__(self, file: io.RawIOBase, begin: bytes, progress: Callable[[int], None]) -> None:
        self.file = file
        self.begin = begin
        self.progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.begin:
            count = min(len(self.begin), len(buffer))
            buffer[:count], self.begin = self.begin[:count], self.begin[count:]
        else:
            count = self.file.readinto(buffer) or 0
        self.progress(count)
        return count


@dataclass(frozen=True)
class LongLine:
    """A line that was left out because it is too long."""

    number: int
    size: int
    begin: bytes


@dataclass(eq=False)
class Source:
    """A file to import."""

    # What it is called.
    path: Path
    # Bytes on disk; 0 where nobody knows (a pipe).
    size: int
    compression: str | None = None
    progress: Callable[[int], None] = field(default=lambda _: None, repr=False)
    # Where it lies, if not at its path.
    place: Path | None = None
    # What can be read once: its stream, and what was read of it.
    stream: io.RawIOBase | None = field(default=None, repr=False)
    begin: bytes = field(default=b"", repr=False)
    # Lines that were too long, until they are taken.
    long_lines: list[LongLine] = field(default_factory=list, repr=False)

    @classmethod
    def at(cls, path: Path) -> "Source":
        """The file at a path, `-` is standard input; refuses what can't be read before anything is written."""
        if str(path) == "-":
            return cls._once(Path("stdin"), io.FileIO(sys.stdin.fileno(), closefd=False))
        try:
            mode = path.stat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                # `<(…)` is /dev/fd/N
                return cls._once(Path("pipe" if path.name.isdecimal() else path.name), io.FileIO(path))
            with path.open("rb") as file:
                magic = file.read(6)
        except FileNotFoundError:
            raise TraceError(f"{path}: no such file", "name the trace to import") from None
        except IsADirectoryError:
            raise TraceError(
                f"{path}: is a folder; expected a trace",
                "only a folder of blktrace's per-CPU files (NAME.blktrace.0 …), or of Recorder (recorder.mt …),"
                " can be imported as one",
            ) from None
        except OSError as error:
            raise TraceError(f"{path}: can't be read: {error.strerror}") from None
        return cls(path, path.stat().st_size, _compression(magic))

    @classmethod
    def _once(cls, name: Path, stream: io.RawIOBase) -> "Source":
        begin = b""
        try:
            while len(begin) < HEAD and (data := stream.read(HEAD - len(begin))):
                begin += data
        except OSError as error:
            raise TraceError(f"{name}: can't be read: {error.strerror}") from None
        return cls(name, 0, _compression(begin), stream=stream, begin=begin)

    @property
    def name(self) -> str:
        """The file's name without what says compression."""
        return without_compression(self.path.name)

    def open(self) -> BinaryIO:
        """The decompressed bytes as a stream."""
        raw = self.stream or io.FileIO(self.place or self.path)
        begin, self.begin = self.begin, b""
        return self._decompressed(_Counted(raw, begin, self.progress))

    def _decompressed(self, raw: io.RawIOBase) -> BinaryIO:
        counted = cast(BinaryIO, io.BufferedReader(raw, 1 << 20))
        for name, decompress in _DECOMPRESS.values():
            if name == self.compression:
                return decompress(counted)
        return counted

    def head(self) -> bytes:
        """The first bytes, to guess by; fewer where the compressed data is broken."""
        raw = io.BytesIO(self.begin) if self.stream else io.FileIO(self.place or self.path)
        parts, size = [], HEAD
        with contextlib.suppress(*_BROKEN, OSError), self._decompressed(cast(io.RawIOBase, raw)) as stream:
            # what can be had without an error: a pipe's beginning ends anywhere
            while size > 0 and (data := cast(io.BufferedReader, stream).read1(size)):
                parts.append(data)
                size -= len(data)
        return b"".join(parts)

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        """`size` bytes, fewer at the end only."""
        parts = []
        try:
            while size > 0 and (data := stream.read(size)):
                parts.append(data)
                size -= len(data)
        except _BROKEN as error:
            raise self._broken(error) from None
        except OSError as error:
            # bzip2's own
            if self.compression == "bzip2" and error.errno is None:
                raise self._broken(error) from None
            raise TraceError(f"{self.path}: can't be read: {error.strerror}") from None
        return b"".join(parts)

    def _broken(self, error: Exception) -> TraceError:
        return TraceError(
            f"{self.path}: its {self.compression} data is broken or cut off: {error}",
            f"{self.compression} -t {self.path} checks it; fetch it again or decompress what is whole",
        )

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The bytes, a block at a time."""
        with self.open() as stream:
            while block := self._read(stream, size):
                yield block

    def lines(self, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines with the number of their first; a last line without an end gets none.

        An empty line is in the place of one of more than LONGEST_LINE bytes, which `long_lines` has.
        """
        number, rest = 1, b""
        # Bytes of a line that is too long, of which `rest` is the beginning.
        dropped = 0
        for data in self.blocks(size):
            if dropped:
                end = data.find(b"\n")
                dropped += len(data) if end < 0 else end
                if end < 0:
                    continue
                self._too_long(number, dropped, rest)
                rest, data, dropped = b"", data[end:], 0
            end = data.rfind(b"\n") + 1
            if end == 0:
                rest += data
            else:
                block, rest = rest + data[:end], data[end:]
                block = self._without_long(number, block)
                yield number, block
                number += block.count(b"\n")
            if len(rest) > LONGEST_LINE:
                rest, dropped = rest[:_EXCERPT], len(rest)
        if dropped:
            self._too_long(number, dropped, rest)
            yield number, b"\n"
        elif rest:
            yield number, rest

    def _without_long(self, number: int, block: bytes) -> bytes:
        """A block of whole lines without those that are too long."""
        parts = []
        begin = at = 0
        while len(block) - at > LONGEST_LINE:
            end = block.rfind(b"\n", at, at + LONGEST_LINE + 1)
            if end < 0:
                end = block.index(b"\n", at)
                parts.append(block[begin:at])
                self._too_long(number + block.count(b"\n", 0, at), end - at, block[at : at + _EXCERPT])
                begin = end
            at = end + 1
        return b"".join([*parts, block[begin:]]) if parts else block

    def _too_long(self, number: int, size: int, begin: bytes) -> None:
        self.long_lines.append(LongLine(number, size, begin[:_EXCERPT]))


def _compression(magic: bytes) -> str | None:
    return next((name for mark, (name, _) in _DECOMPRESS.items() if magic.startswith(mark)), None)


def without_compression(name: str) -> str:
    """A file's name without what says that it is compressed."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@contextlib.contextmanager
def opened(paths: list[Path]) -> Iterator[list[Source]]:
    """The files at these paths; of a tar archive those inside."""
    with contextlib.ExitStack() as stack:
        sources: list[Source] = []
        for path in paths:
            source = Source.at(path)
            if source.head()[_TAR_MAGIC] == b"ustar":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iotrail-"))
                sources += _unpacked(source, Path(folder))
            else:
                sources.append(source)
        yield sources


class _Member(tarfile.TarInfo):
    """A file of an archive, whose name and attributes are not larger than such are."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        about = self.type in (
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
            tarfile.SOLARIS_XHDTYPE,
        )
        if about and self.size > _MOST_HEADER:
            raise tarfile.ReadError(
                f"expected a name and attributes of at most {_MOST_HEADER:,} bytes, found {self.size:,}"
            )
        member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return member


class _Archive:
    """The bytes of an archive, of which tarfile may not ask again and again beyond their end."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.ends = 0

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.ends += not data
        if self.ends > _MOST_ENDS:
            raise tarfile.ReadError("it ends within a file")
        return data


class _Room:
    """What an archive may unpack to, by how many of its bytes were read."""

    def __init__(self, archive: Source) -> None:
        self.archive = archive
        self.read = 0
        self.unpacked = 0
        archive.progress = self.count

    def count(self, read: int) -> None:
        self.read += read

    def take(self, unpacked: int) -> None:
        """Raises `TraceError` if there is no room for so many bytes more."""
        self.unpacked += unpacked
        # a pipe's size is known at its end alone
        size = self.archive.size or self.read
        most = max(_LEAST_UNPACKED, _MOST_TIMES * size)
        if self.unpacked > most:
            raise TraceError(
                f"{self.archive.path}: expected a tar archive of {size:,} bytes to unpack to at most {most:,} bytes,"
                f" found more",
                f"tar -tvf {self.archive.path} lists its files; if they are a trace, unpack them and import them by name",
            )


def _unpacked(archive: Source, folder: Path) -> list[Source]:
    """The regular files of a tar archive, unpacked under numbers: their names may be anything."""
    sources = []
    room = _Room(archive)
    try:
        with (
            archive.open() as stream,
            tarfile.open(fileobj=cast(BinaryIO, _Archive(stream)), mode="r|", tarinfo=_Member) as tar,
        ):
            for number, member in enumerate(tar):
                inside = tar.extractfile(member) if member.isfile() and member.size else None
                if inside is None:
                    continue
                place = folder / str(number)
                room.take(_FILE_BYTES)
                with place.open("wb") as file:
                    while data := inside.read(1 << 20):
                        room.take(len(data))
                        file.write(data)
                plain = Source.at(place)
                sources.append(
                    Source(archive.path / Path(member.name).name, plain.size, plain.compression, place=place)
                )
    except (tarfile.TarError, *_BROKEN, OSError) as error:
        raise TraceError(
            f"{archive.path}: the tar archive can't be unpacked into {folder}: {error}",
            f"tar -tf {archive.path} checks the archive; TMPDIR names another place with more room",
        ) from None
    if not sources:
        raise TraceError(f"{archive.path}: the tar archive has no file: nothing to import")
    return sources
