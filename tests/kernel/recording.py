"""Programs recorded under `iotrail record --kernel`."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from iotrail.trail import Trail

IOTRAIL = [sys.executable, "-m", "iotrail"]
# On virtual machines the kernel was seen to leave out events while another recorder began or ended.
TRIES = 5

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="recording the kernel needs root")


def recordings(
    command: Sequence[str | Path], tmp_path: Path, *options: str, **popen: object
) -> Iterator[tuple[Trail, bool]]:
    """Trails of a program under --kernel, and whether this is the last word: the kernel left nothing out, or did
    so in each of several recordings."""
    for attempt in range(TRIES):
        path = tmp_path / f"{attempt}.trail"
        recorder = [*IOTRAIL, "record", "--kernel", *options, "-o", path, "--", *command]
        subprocess.run(recorder, check=True, **popen)
        trail = Trail(path)
        left_out = trail.rows_of("SELECT 1 FROM unseen WHERE kind = 'kernel_dropped'")
        yield trail, not left_out or attempt == TRIES - 1
