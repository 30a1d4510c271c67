#!/usr/bin/env python3
"""Fuzz the importers with libFuzzer (atheris), guided by the branches of iotrail/importers.

    run.py NAME CORPUS [OPTION…]        fuzz one, with libFuzzer's options; scripts/fuzz calls it
    run.py NAME FILE                    try one input again

An input is a line of settings, then the trace: `piece=100` reads it 100 bytes at a time, `split=500` makes the
bytes from there on a second file (not for Recorder, whose files begin at lines `== NAME`), `strict`, `map=…` (the rest of the line) is what --map would be. Properties are
those of tests/importers/held.py. A preset is a map too, so `map=msr` on format csv is preset msr.
"""

import functools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

with atheris.instrument_imports(include=["iotrail.importers"]):
    from tests.importers import held
    from tests.importers.blktrace_writer import C, D, Q, event, process
    from tests.importers.recorder_writer import joined, parted
    from tests.importers.recorder_writer import trace as recorded
    from tests.importers.test_fio_srt_vscsi import vscsi
    from tests.importers.test_garbage import SAMPLES
    from tests.importers.test_recorder import LAYOUTS, rank

    from iotrail import native
    from iotrail.importers import command, csv
    from iotrail.importers.base import Options
    from iotrail.importers.source import BLOCK

# It looks for files at each import.
native.package_version = functools.cache(native.package_version)

# Each piece is some Arrow and numpy calls: smaller ones make a slow input of each large one.
_SMALLEST = 64


def seeds(name: str) -> Iterator[bytes]:
    """Where a target starts: the traces the tests make."""
    if name == "recorder":
        for layout in LAYOUTS.values():
            yield b"\n" + joined(recorded([rank(0), rank(1)], **layout))
        return
    sample = SAMPLES[name]
    yield b"\n" + sample
    yield b"piece=100 strict\n" + sample
    yield b"split=%d\n" % (len(sample) // 2) + sample
    if name == "blktrace":
        yield b"\n" + b"".join(
            event(n, act, n % 3 * 8, 512, order=">") for n, act in enumerate([Q, D, C] * 9)
        )
        # a name before all: records without data are looked for together then
        yield (
            b"\n" + process(9, "app") + b"".join(event(n, (Q, C)[n % 2], n // 2 * 8, 512) for n in range(70))
        )
    elif name == "fio":
        yield b"\nfio version 2 iolog\n/f add\n/f open\n/f read 0 512\n/f wait 500 0\n/f sync 0 0\n/f trim 0 9\n"
    elif name == "vscsi":
        yield b"\n" + vscsi(1, *[(command, 512, 8, 10**15 + 7) for command in (0x28, 0x2A, 0x35, 0x42)])
    elif name == "csv":
        for preset in csv.PRESETS:
            yield b"map=%s\n" % preset.encode() + SAMPLES[preset]
        yield (
            b"map=ts=1,end=2,unit=us,pos=3,pos_unit=kib,length=4,op=5,who=6,write=0|2,read=1,sep=pipe\n"
            + b"".join(b"%d|%d|%d|8|%d|%s\n" % (n, n + 5, n * 8, n % 3, b"ab"[n % 2 :]) for n in range(20))
        )


def one(name: str, folder: Path, data: bytes) -> None:
    """One import, and once more in one piece where that must give the same."""
    line, _, trace = data.partition(b"\n")
    # as the command line decodes its words
    words, _, map = line.decode("utf-8", "surrogateescape").partition("map=")
    given = dict(word.partition("=")[::2] for word in words.split())
    piece, split = (
        int(given[key][:9]) if given.get(key, "").isdecimal() else None for key in ("piece", "split")
    )
    parts = [trace] if split is None else [trace[:split], trace[split:]]
    paths = [folder / f"trace.{number}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part)
    if name == "recorder":
        paths = parted(trace, folder / "recorder")
    options = Options(strict="strict" in given, map=map or None if name == "csv" else None)
    for format in (name, *csv.PRESETS) if name == "csv" else (name,):
        command.FORMATS[format].looks_like(trace)
    job = held.hold(name, paths, options, max(piece or BLOCK, _SMALLEST))
    if job and piece and name in held.STEADY:
        whole = held.hold(name, paths, options)
        assert whole is not None
        held.same(job, whole)


def main(words: list[str]) -> None:
    """Fuzz a format, or try one input."""
    name, corpus, *options = words
    if Path(corpus).is_dir():
        for number, seed in enumerate(seeds(name)):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
    with tempfile.TemporaryDirectory(prefix="iotrail-fuzz-", dir="/dev/shm") as folder:
        atheris.Setup([sys.argv[0], corpus, *options], lambda data: one(name, Path(folder), data))
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
