"""fio's iologs, HP's SRT and VMware's vscsi binaries."""

import shutil
import struct
import subprocess

import pytest

from iotrail.errors import TraceError

ROWS = "SELECT ts - 946684800000000000, call, pos, length, result FROM file_op ORDER BY ts"


def test_iolog_version_3(bring):
    got = bring(
        "fio version 3 iolog\n0 /d/f add\n10 /d/f open\n20 /d/f read 4096 512\n35 /d/f write 0 1024\n"
        "40 /d/f sync 0 0\n50 /d/f datasync 0 0\n60 /d/f trim 8192 4096\n70 /d/f close\n"
    )
    assert got.rows(ROWS) == [
        (10_000, "open", None, None, 0),
        (20_000, "pread", 4096, 512, 512),
        (35_000, "pwrite", 0, 1024, 1024),
        (40_000, "fsync", None, None, 0),
        (50_000, "fdatasync", None, None, 0),
        (60_000, "fallocate", 8192, 4096, 0),
        (70_000, "close", None, None, 0),
    ]
    assert got.rows("SELECT path FROM file") == [("/d/f",)]
    assert "looks like fio" in got.said


def test_iolog_version_2_has_no_times_but_waits(bring):
    got = bring(
        "fio version 2 iolog\n/f add\n/f open\n/f read 0 512\n/f wait 500 0\n/f write 0 512\n/f close\n"
    )
    assert got.rows("SELECT ts - min(ts) OVER (), call FROM file_op ORDER BY ts") == [
        (0, "open"), (1000, "pread"), (502_000, "pwrite"), (503_000, "close"),
    ]  # fmt: skip
    assert "has no times" in got.said


def test_bad_lines_of_an_iolog(bring):
    got = bring("fio version 3 iolog\nx /f read 0 512\n1 /f read 0 512\n2 /f juggle 0 512\n3 /f read 0\n")
    assert got.one("SELECT count(*) FROM file_op") == 1
    assert got.fact("skipped") == "3"
    assert "trace:2: not understood: 'x /f read 0 512'" in got.said
    assert "no action 'juggle' is known" in got.said


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
def test_an_iolog_fio_writes_now(bring, tmp_path):
    log = tmp_path / "x.log"
    job = [
        "--name=a",
        "--size=1m",
        "--bs=16k",
        "--rw=randrw",
        "--fsync=8",
        "--ioengine=psync",
        f"--filename={tmp_path}/data",
    ]
    subprocess.run(["fio", *job, f"--write_iolog={log}"], check=True, stdout=subprocess.DEVNULL)
    lines = log.read_text().splitlines()
    got = bring(log)
    assert got.fact("skipped") == "0", got.said
    for action, call in (("read", "pread"), ("write", "pwrite"), ("sync", "fsync"), ("open", "open")):
        written = [line for line in lines if line.split()[2:3] == [action]]
        assert got.one(f"SELECT count(*) FROM file_op WHERE call = '{call}'") == len(written)
    assert got.one("SELECT sum(length) FROM file_op") >= 1 << 20


def srt(*records: tuple[int, ...], words: int = 14) -> bytes:
    """An SRT trace; each record: sec, usec, start, stop, bytes, sector, devno, flags."""
    header = b'$$TR_IOREC-1.3 (x)\n\0version = 1.3;\ntracedate = "Sat May 30 00:03:06 1992";\n'
    header += b"disks = {\n 0 -> {\n disktype = a,\n sectorsize = 256,\n },\n 1 -> {\n disktype = b,\n sectorsize = 512,\n } }\n\f"
    body = b"".join(
        struct.pack(f">{words}I", words * 4, 0x40001, *r[:7], 4, 0, r[7], 0, *([1] * (words - 13)))
        for r in records
    )
    return header + body


def test_srt(bring):
    got = bring(srt((1, 5, 10, 300, 4096, 100, 0x8000001, 0x1B), (0, 7, 1, 2, 512, 9, 0x8000107, 0x4)))
    assert got.rows("SELECT ts - 707184186000000000, dur, call, pos, length, result, errno, path FROM file_op JOIN file USING (node, file) ORDER BY ts") == [
        (7_000, 2_000, "pwrite", 9 * 512, 512, -1, 5, "/dev/disk1"),
        (1_000_005_000, 300_000, "pread", 100 * 256, 4096, 4096, 0, "/dev/disk0"),
    ]  # fmt: skip
    assert "times go backwards 1 times" in got.said


def test_srt_cut_and_garbage(bring):
    whole = srt((1, 5, 10, 300, 4096, 100, 0x8000001, 1))
    assert "the last record has 30 of 56 bytes" in bring(whole + bytes(30)).said
    with pytest.raises(TraceError, match="record 2: size 0"):
        bring(whole + bytes(56))
    assert bring(whole.replace(b"disks", b"d"), name="no-disks").one("SELECT pos FROM file_op") == 100 * 256
    with pytest.raises(TraceError, match="no SRT trace"):
        bring("srt", b"$$TR_IOREC-1.3 without an end\n")


def vscsi(version: int, *records: tuple[int, int, int, int]) -> bytes:
    """Records: command, bytes, sector, µs."""
    if version == 1:
        return b"".join(
            struct.pack("<IIIHHQQ", 1, size, 1, cmd, 1 << 8, lbn, ts) for cmd, size, lbn, ts in records
        )
    return b"".join(
        struct.pack("<HHIIIQQQ", cmd, 2 << 8, 1, size, 1, lbn, ts, 77) for cmd, size, lbn, ts in records
    )


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi(bring, version):
    records = [
        (0x28, 4096, 8, 1000),
        (0x2A, 512, 16, 2000),
        (0x35, 0, 0, 2500),
        (0x42, 8192, 24, 3000),
        (0x12, 36, 0, 3500),
    ]
    got = bring(vscsi(version, *records), name="w1")
    assert "looks like vscsi" in got.said
    dur = 77_000 if version == 2 else None
    assert got.rows("SELECT ts - 946684800000000000, dur, call, pos, length FROM file_op ORDER BY ts") == [
        (1_000_000, dur, "pread", 4096, 4096),
        (2_000_000, dur, "pwrite", 8192, 512),
        (2_500_000, dur, "fdatasync", None, None),
        (3_000_000, dur, "fallocate", 24 * 512, 8192),
    ]
    assert "record 5: command 0x12 is none that can be imported" in got.said


def test_vscsi_cut(bring):
    data = vscsi(2, (0x28, 4096, 8, 1000), (0x28, 4096, 8, 1000), (0x28, 4096, 8, 1_700_000_000_000_000))
    got = bring(data[:-1], name="w1")
    assert got.one("SELECT count(*) FROM file_op") == 2
    assert "cut off at byte 80: the last record has 39 of 40 bytes" in got.said
