"""The recorders that are compared: iotrail and its peers, each as a way to wrap a command.

A peer that isn't installed is left out and said so. Each runs as its documentation advises for
recording all file I/O of a program; peers that can drop detail are listed with and without it.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

NATIVE = Path(__file__).resolve().parent.parent / "python" / "iotrail" / "_native" / "iotrail-native"
# The command that users type.
IOTRAIL = Path(sys.executable).parent / "iotrail"


@dataclass(frozen=True)
class Recorder:
    """A way to record a command: what to put before it and into its environment."""

    name: str
    # What it is, for the table's legend.
    meaning: str
    # Folder for its output -> words before the command.
    prefix: Callable[[Path], Sequence[str]] = lambda folder: ()
    # Folder for its output -> variables.
    variables: Callable[[Path], Mapping[str, str]] = lambda folder: {}
    # Part of a benchmark's calls it is given: a recorder a hundred times slower needn't make all of them.
    share: float = 1.0
    # Why it can't run here; empty if it can.
    missing: str = field(default="")


def _strace() -> Recorder:
    found = shutil.which("strace")
    return Recorder(
        "strace",
        "strace -f -ttt -T -e trace=%file,%desc",
        prefix=lambda folder: [
            *("strace", "-f", "-ttt", "-T", "-e", "trace=%file,%desc", "-o", str(folder / "strace.out"))
        ],
        share=0.1,
        missing="" if found else "strace is not installed",
    )


def _bpftrace() -> Recorder:
    missing = ""
    if not shutil.which("bpftrace"):
        missing = "bpftrace is not installed"
    elif os.geteuid() != 0:
        missing = "bpftrace needs root"
    return Recorder(
        "bpftrace",
        "bpftrace prints each call on files, of the whole machine",
        prefix=lambda folder: [
            sys.executable, str(Path(__file__).with_name("under_bpftrace.py")), str(folder / "bpftrace.out")
        ],
        missing=missing,
    )  # fmt: skip


def _iotrail() -> Recorder:
    return Recorder(
        "iotrail",
        "iotrail record",
        prefix=lambda folder: [str(IOTRAIL), "record", "-o", str(folder / "run.trail"), "--"],
        missing="" if IOTRAIL.exists() else f"{IOTRAIL} is not installed",
    )


def _dftracer(name: str, meaning: str, **more: str) -> Recorder:
    # The wheel keeps the library beside its package; importing the package would load it here too.
    library = Path(sysconfig.get_path("purelib")) / "dftracer" / "lib64" / "libdftracer_preload.so"
    return Recorder(
        name,
        meaning,
        variables=lambda folder: {
            "LD_PRELOAD": str(library),
            "DFTRACER_ENABLE": "1",
            "DFTRACER_INIT": "PRELOAD",
            "DFTRACER_LOG_FILE": str(folder / "dftracer"),
            "DFTRACER_DATA_DIR": "all",
            **more,
        },
        missing="" if library.exists() else "pip install dftracer (no library in this environment)",
    )


def _darshan(name: str, meaning: str, **more: str) -> Recorder:
    library = os.environ.get("DARSHAN_LIB") or next(
        (str(path) for path in Path("/usr/lib/x86_64-linux-gnu").glob("libdarshan.so")), ""
    )

    def variables(folder: Path) -> dict[str, str]:
        # Without a folder for the day it records and then writes nothing.
        today = date.today()
        (folder / f"{today.year}/{today.month}/{today.day}").mkdir(parents=True)
        return {
            "LD_PRELOAD": library,
            "DARSHAN_ENABLE_NONMPI": "1",
            "DARSHAN_LOGPATH": str(folder),
            "DARSHAN_MODMEM": "1024",
            **more,
        }

    return Recorder(
        name,
        meaning,
        variables=variables,
        missing="" if library and Path(library).exists() else "set DARSHAN_LIB to a libdarshan.so",
    )


def recorders() -> tuple[list[Recorder], list[Recorder]]:
    """Those that run here, the unrecorded run first, and those that don't."""
    everyone = [
        Recorder("unrecorded", "the program alone"),
        _iotrail(),
        _darshan("darshan", "Darshan: counters per file, no operations"),
        _darshan("darshan dxt", "Darshan with DXT: each read and write", DXT_ENABLE_IO_TRACE="1"),
        _dftracer("dftracer", "DFTracer: each call, without its arguments"),
        _dftracer("dftracer +args", "DFTracer: each call with path, offset, size", DFTRACER_INC_METADATA="1"),
        _bpftrace(),
        _strace(),
    ]
    return [r for r in everyone if not r.missing], [r for r in everyone if r.missing]
