"""Programs recorded under `iotrail record --kernel`."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from iotrail.trail import Trail

IOTRAIL = [sys.executable, "-m", "iotrail"]
# On virtual machines the kernel was seen to leave out events while another recorder began or ended, and tracefs switches from the idle task.
TRIES = 5

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="recording the kernel needs root")


@contextmanager
def busy() -> Iterator[None]:
    """Something runs on each CPU that nothing else wants, for a minute at most."""
    spins = "import os, time; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile time.process_time() < 60: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spins]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def recordings(
    command: Sequence[str | Path], tmp_path: Path, *options: str, **popen: object
) -> Iterator[tuple[Trail, bool]]:
    """Trails of a program under --kernel, and whether this is the last word: the kernel left nothing out, or did
    so in each of several recordings. From the second on no CPU is idle meanwhile."""
    for attempt in range(TRIES):
        path = tmp_path / f"{attempt}.trail"
        recorder = [*IOTRAIL, "record", "--kernel", *options, "-o", path, "--", *command]
        with busy() if attempt else nullcontext():
            subprocess.run(recorder, check=True, **popen)
        trail = Trail(path)
        left_out = trail.rows_of("SELECT 1 FROM unseen WHERE kind = 'kernel_dropped'")
        yield trail, not left_out or attempt == TRIES - 1
