"""Whatever bytes a file has, an import reads them or refuses them in words: no exception of Python's own.

IOTRAIL_FUZZ=N tries N mutations of each format instead of a few; SEED is in the message of a failure.
"""

import os
import random
from pathlib import Path

import pytest

from iotrail.importers.base import Options
from iotrail.importers.command import FORMATS

from .blktrace_writer import DISCARD, WRITE, C, D, F, M, Q, X, event, process, wall_clock
from .held import hold
from .test_blktrace import TEXT
from .test_csv import PRESETS
from .test_fio_srt_vscsi import srt, vscsi
from .test_formats import BIOSNOOP, DFTRACER, FIO_LOG, PERF, oracle
from .test_strace import TRACE

ROUNDS = int(os.environ.get("IOTRAIL_FUZZ", "60"))
SAMPLES = {
    "strace": TRACE.encode()
    + b'7 1700000001.000000 read(3, <unfinished ...>\n8 1700000001.000001 clone(child_stack=NULL, flags=CLONE_THREAD) = 7\n'
    b'7 1700000001.000002 <... read resumed>"a", 10) = 5\n7 1700000001.000003 renameat(AT_FDCWD, "a", 3, "b") = 0\n'
    b'7 1700000001.000004 preadv(3, [{iov_base="", iov_len=3}], 1, 77) = 3\n7 1700000001.000005 pipe2([3<pipe:[1]>, 4<pipe:[1]>], 0) = 0\n'
    b"7 1700000001.000006 mmap(NULL, 10, PROT_READ, MAP_SHARED, 3, 0x2000) = 0x7f00\n7 1700000001.000007 fallocate(3, 0, 1, 2) = 0\n"
    b"7 1700000001.000008 close_range(3, 9, 0) = 0\n7 1700000001.000009 sendfile(4, 3, NULL, 100) = 100\n",
    "blkparse": TEXT.encode(),
    "blktrace": process(10, "app")
    + wall_clock(5, 1_700_000_000, 7)
    + b"".join(event(n, act, n % 7 * 8, 512, WRITE | (DISCARD if n % 5 == 0 else 0), pdu=b"" if act != X else bytes(8))
               for n, act in enumerate([Q, M, D, F, X, Q, C, Q, D, C] * 4)),
    "fio": b"fio version 3 iolog\n0 /f add\n" + b"".join(b"%d /f write %d 512\n" % (n, n * 512) for n in range(40)),
    "srt": srt((1, 5, 10, 300, 4096, 100, 0x8000001, 0x1B), (0, 7, 1, 2, 512, 9, 0x8000107, 0x4)),
    "vscsi": vscsi(2, *[(0x28, 4096, 8, n) for n in range(20)]),
    "csv": b"t_s,offset,size,op,latency_ns,device\n" + b"".join(b"%d.5,%d,512,r,7,sda\n" % (n, n) for n in range(40)),
    "biosnoop": BIOSNOOP.encode(),
    "fio-log": FIO_LOG.encode(),
    "perf-script": PERF.encode(),
    "dftracer": DFTRACER.encode(),
    "oracle-general": oracle([(0, 5, 4096, 3), (1, 6, 4096, -1), (1, 5, 4096, -1)] * 20),
    **{name: text.encode() * 5 for name, (text, *_) in PRESETS.items()},
}  # fmt: skip


def mutated(data: bytes, dice: random.Random) -> bytes:
    """The same with some bytes changed, cut, doubled or replaced by what breaks parsers."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(6):
            case 0:
                out[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del out[at : at + dice.randrange(1, 20)]
            case 2:
                out[at:at] = out[at : at + dice.randrange(1, 200)]
            case 3:
                out[at:at] = dice.choice([b"\n", b"\0", b"-1", b"99999999999999999999", b'"', b"<", b">", b",", b" ", b"\xff\xfe", b"1e400", b"nan", b"\\", b"(", b") = "])  # fmt: skip
            case 4:
                out[at : at + 8] = dice.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7])
            case _:
                del out[at:]
    return bytes(out)


@pytest.mark.parametrize("name", SAMPLES)
def test_any_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace"
    for seed in range(ROUNDS):
        data = mutated(SAMPLES[name], random.Random(f"{name} {seed}"))
        path.write_bytes(data)
        try:
            hold(name, [path], Options())
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}: {data!r}") from error
        for format in FORMATS.values():
            format.looks_like(data)


def test_samples_are_read_whole(tmp_path: Path) -> None:
    """Else mutating them would test little."""
    for name, data in SAMPLES.items():
        path = tmp_path / name
        path.write_bytes(data)
        job = hold(name, [path], Options())
        assert job is not None and job.output.rows["file_op"] > 0, name
