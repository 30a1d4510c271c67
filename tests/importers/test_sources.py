"""Where traces come from: standard input, pipes, archives; lines without end; lines made to be slow."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib
from pathlib import Path

import pytest
import zstandard

from iotrail import importers
from iotrail.errors import TraceError
from iotrail.importers import source
from iotrail.importers.base import Options
from iotrail.importers.command import FORMATS
from iotrail.importers.source import LONGEST_LINE, Source

from .held import hold

CSV = b"t_s,offset,size,op\n1,0,512,r\n2,512,512,w\n"


def tar(**files: bytes) -> bytes:
    """An archive of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"../x/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


PACKED = {
    "gz": gzip.compress(CSV),
    "bz2": bz2.compress(CSV),
    "xz": lzma.compress(CSV),
    "zst": zstandard.compress(CSV),
    "tar": tar(a=CSV),
    "tgz": gzip.compress(tar(a=CSV)),
    "tbz2": bz2.compress(tar(a=CSV)),
    "gz in tar": tar(a=gzip.compress(CSV)),
}


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_and_archived(bring, tmp_path, monkeypatch, kind):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    got = bring(PACKED[kind], name="disk.anything")
    assert got.rows("SELECT call, pos FROM file_op ORDER BY ts") == [("pread", 0), ("pwrite", 512)]
    assert "looks like csv" in got.said
    # what was unpacked is gone, and nothing was written where the archive's names point; DuckDB's folder is this process's
    assert [path for path in temporary.iterdir() if not path.name.startswith("iotrail-duckdb-")] == []
    assert not (tmp_path.parent / "x").exists()


def test_several_files_of_an_archive_are_one_trail(bring):
    got = bring(tar(a=CSV, b=CSV), name="two.tar")
    assert got.one("SELECT count(*) FROM file_op") == 4


@pytest.mark.parametrize("kind", ["bz2", "tar", "tbz2"])
def test_a_broken_one_is_refused_in_words(bring, kind):
    with pytest.raises(TraceError, match=r"broken or cut off|can't be unpacked|isn't known|is empty"):
        bring("csv", PACKED[kind][: 530 if kind == "tar" else len(PACKED[kind]) // 2], name="cut")


def header(name: str, kind: bytes, size: int) -> bytes:
    """A header of tar(5) that says any size."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = b"\x80" + size.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def feed(pipe: Path, data: bytes) -> None:
    """Writes into a pipe until its reader has enough."""
    with contextlib.suppress(BrokenPipeError):
        pipe.write_bytes(data)


def unpacking(monkeypatch, tmp_path) -> Path:
    """Where archives are unpacked, by at most 1 MiB or 200 times their bytes."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(source, "_LEAST_UNPACKED", 1 << 20)
    return temporary


@pytest.mark.parametrize("kind", ["one", "many", "sparse"])
@pytest.mark.parametrize("piped", [False, True])
def test_an_archive_that_unpacks_to_much_is_refused(bring, tmp_path, monkeypatch, kind, piped):
    """A large file, many small ones (each takes a block on disk), or one that tar itself makes long."""
    temporary = unpacking(monkeypatch, tmp_path)
    if kind == "one":
        archive = tar(a=b"t_s,offset,size,op\n" + b"1,0,512,r\n" * 800_000)
    elif kind == "many":
        archive = tar(**{f"f{number}": b"x" for number in range(2000)})
    else:
        # sparse(5) of GNU tar: a byte at the start, and a size of 4 TiB
        info = tarfile.TarInfo("a")
        info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
        block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        block[386:398], block[398:410] = b"00000000000\0", b"00000001000\0"
        block[483:495] = tarfile.itn(1 << 42, 12, tarfile.GNU_FORMAT)
        block[148:156] = b"        "
        block[148:156] = f"{sum(block):06o}\0 ".encode()
        archive = bytes(block) + b"x" * 512 + bytes(1024)
    path = tmp_path / "x.tgz"
    path.write_bytes(gzip.compress(archive))
    if piped:
        pipe, packed = tmp_path / "x.fifo", path.read_bytes()
        os.mkfifo(pipe)
        threading.Thread(target=feed, args=(pipe, packed), daemon=True).start()
        path = pipe
    with pytest.raises(TraceError, match=r"to unpack to at most [\d,]+ bytes, found more") as raised:
        bring("csv", path)
    assert "tar -tvf" in (raised.value.hint or "")
    assert [at for at in temporary.iterdir() if not at.name.startswith("iotrail-duckdb-")] == []


def test_an_archive_that_is_packed_well_is_unpacked(bring, tmp_path, monkeypatch):
    """More than is always allowed, and less than 200 times its bytes."""
    unpacking(monkeypatch, tmp_path)
    lines = b"".join(b"%d,%d,512,r\n" % (number, number * 7919 % 10_007) for number in range(200_000))
    packed = gzip.compress(tar(a=b"t_s,offset,size,op\n" + lines))
    assert (1 << 20) < len(lines) < 200 * len(packed)
    assert bring("csv", packed, name="x.tgz").one("SELECT count(*) FROM file_op") == 200_000


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_SPARSE, b"Z", tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_archive_that_says_that_it_goes_on_for_ever(tmp_path, kind):
    """What is no file was skipped step by step, beyond the end of the archive."""
    path = tmp_path / "x.tar"
    path.write_bytes(header("a", kind, 1 << 62) + bytes(1024))
    command = [sys.executable, "-m", "iotrail", "import", "csv", path, "-o", tmp_path / "x.trail"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "the tar archive can't be unpacked" in done.stderr


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_name_of_an_archive_is_as_long_as_names_are(bring, kind):
    """It is read at once: 100 KB made it take as much memory as they stand for."""
    long = header("a", kind, 100 << 20) + bytes(100 << 20)
    with pytest.raises(TraceError, match="expected a name and attributes of at most 16,384 bytes"):
        bring(gzip.compress(long + tar(a=CSV), 1), name="x.tar.gz")


def with_dictionary(packed: bytes, size: int) -> bytes:
    """What xz made, whose first block says that it needs a dictionary of that size (xz-file-format.txt, 5.3.1)."""
    end = 12 + (packed[12] + 1) * 4
    block = bytearray(packed[12:end])
    block[block.index(b"\x21\x01") + 2] = size
    block[-4:] = zlib.crc32(block[:-4]).to_bytes(4, "little")
    return packed[:12] + bytes(block) + packed[end:]


@pytest.mark.parametrize("begin", [b"", PACKED["xz"], PACKED["xz"] + bytes(8)])
def test_the_memory_that_xz_needs_is_bounded(bring, begin):
    """Up to 4 GiB, as its file says."""
    with pytest.raises(TraceError, match="needs more than 256 MiB of memory"):
        bring("csv", begin + with_dictionary(PACKED["xz"], 40), name="x.csv.xz")


def test_the_memory_that_zstd_needs_is_bounded(bring):
    """A window of 2 GiB, as its file says (RFC 8878, 3.1.1.1.2)."""
    block = (len(CSV) << 3 | 1).to_bytes(3, "little") + CSV
    with pytest.raises(TraceError, match="zstd data is broken"):
        bring("csv", b"\x28\xb5\x2f\xfd\0" + bytes([31 - 10 << 3]) + block, name="x.csv.zst")


def test_a_line_without_end_takes_no_memory(tmp_path):
    """Some 100 KB of zstd that are a line of 2.5 GB."""
    path = tmp_path / "x.csv.zst"
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as stream:
        stream.write(CSV)
        for _ in range(2500):
            stream.write(b"x" * 1_000_000)
    assert path.stat().st_size < 400_000
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", "import", "csv", path, "-o", tmp_path / "x.trail"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)),
    )
    assert done.returncode == 0 and "2 operations" in done.stderr, done.stderr
    assert "a line of 2,500,000,000 bytes" in done.stderr, done.stderr


@pytest.mark.parametrize("more", [b"", bytes(4), b"garbage" * 9, PACKED["xz"], bytes(8) + PACKED["xz"]])
def test_streams_of_xz_follow_each_other(tmp_path, more):
    path = tmp_path / "x.xz"
    path.write_bytes(PACKED["xz"] + more)
    assert b"".join(Source.at(path).blocks(7)) == CSV * (1 + more.count(PACKED["xz"]))


@pytest.mark.parametrize("kind", ["csv", "gz", "tgz"])
def test_standard_input_and_pipes(tmp_path, kind):
    data = CSV if kind == "csv" else PACKED[kind]
    path = {"PYTHONPATH": str(Path(importers.__file__).parents[2])}
    command = [sys.executable, "-m", "iotrail", "import", "--force"]
    done = subprocess.run(
        [*command, "-", "-o", "in.trail"],
        input=data,
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"2 operations" in done.stderr
    read, write = os.pipe()
    feeder = threading.Thread(target=lambda: (os.write(write, data), os.close(write)))
    feeder.start()
    done = subprocess.run(
        [*command, f"/dev/fd/{read}"],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        pass_fds=[read],
    )
    feeder.join()
    os.close(read)
    assert done.returncode == 0, done.stderr
    assert b"2 operations" in done.stderr and (tmp_path / "pipe.trail").is_dir()


@pytest.mark.parametrize("form", ["blkparse", "csv", "strace", "fio"])
def test_a_line_that_is_too_long_is_left_out(bring, form):
    long = b"x" * (LONGEST_LINE + 1)
    lines = {
        "blkparse": [b" 8,0 0 1 0.000000001 7 Q R 8 + 8 [a]", long, b" 8,0 0 1 0.000000002 7 C R 8 + 8 [0]"],
        "csv": [b"t_s,offset,size,op", b"1,0,512,r", long, b"2,0,512,r"],
        "strace": [b'1.000000 openat(AT_FDCWD, "/a", 0) = 3', b"read(" + long, b"1.000001 close(3) = 0"],
        "fio": [b"fio version 3 iolog", b"0 /f add", b"1 /f read 0 512", long],
    }[form]
    got = bring(form, b"\n".join(lines) + b"\n")
    number = 1 + next(at for at, line in enumerate(lines) if len(line) > LONGEST_LINE)
    assert f"trace:{number}: a line of" in got.said, got.said
    assert got.fact("skipped") == "1"
    assert got.one("SELECT count(*) FROM file_op") >= 1
    with pytest.raises(Exception, match="a line of"):
        bring(form, b"\n".join(lines) + b"\n", name="again", strict=True)


def test_long_lines_over_blocks(tmp_path):
    path = tmp_path / "x"
    long = b"y" * (2 * LONGEST_LINE)
    path.write_bytes(b"a\n" + long + b"\nb\n" + long)
    for size in (1 << 16, LONGEST_LINE, 8 << 20):
        source = Source.at(path)
        lines = b"".join(block for _, block in source.lines(size))
        assert lines in (b"a\n\nb\n\n",), size
        assert [(line.number, line.size) for line in source.long_lines] == [(2, len(long)), (4, len(long))]


# Parts that make regular expressions and parsers go back: each repeated, and behind a beginning that lets a line in.
PARTS = [b"(", b")", b" ", b"_", b'"', b'\\"', b"<", b"->", b"<a>", b"1", b"1 ", b"1 -> {disktype", b") = ", b", ", b",", b"[", b"]", b"{", b"a=", b"\t"]  # fmt: skip
BEGINNINGS = {
    "strace": b'7 1.000000 write(3</a>, "',
    "blkparse": b"  8,0    0        1     0.000000000  4020  Q   R ",
    "csv": b"t_s,offset,size,op,",
    "fio": b"fio version 3 iolog\n",
    "srt": b"$$TR_IOREC disks = ",
    "biosnoop": b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 ",
    "perf-script": b"  fio 1 [000] 1.000001: block:block_rq_issue: ",
    "dftracer": b'{"name":"read","cat":"POSIX","pid":1,"tid":1,"ph":"X","ts":',
    "fio-log": b"1, 2, 0, 4096, ",
}


def cpu_time() -> float:
    """CPU time of this process and of what it waited for."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_line_takes_time_in_proportion_to_its_length(tmp_path, name):
    """Guessing its format and reading it: eight times the length may take no more than some times eight."""
    path = tmp_path / "trace"

    def spent(length: int) -> float:
        began = cpu_time()
        for part in PARTS:
            path.write_bytes(BEGINNINGS[name] + part * (length // len(part)) + b"\n")
            head = Source.at(path).head()
            for format in FORMATS.values():
                format.looks_like(head)
            if name != "darshan":
                hold(name, [path], Options())
        return cpu_time() - began

    spent(1000)
    small = spent(20_000)
    large = spent(160_000)
    # something linear takes 8 times as long at most, a square 64 times
    assert large < 24 * max(small, 0.05), (small, large)


def test_pieces_of_a_pipe_are_read_to_the_end(tmp_path):
    """A pipe gives a few bytes at a time, and what was looked at is not lost."""
    read, write = os.pipe()

    def feed() -> None:
        for line in CSV.splitlines(keepends=True):
            os.write(write, line)
            time.sleep(0.01)
        os.close(write)

    feeder = threading.Thread(target=feed)
    feeder.start()
    source = Source.at(Path(f"/dev/fd/{read}"))
    assert source.head() == source.head() == CSV
    assert b"".join(source.blocks()) == CSV
    feeder.join()
    os.close(read)
