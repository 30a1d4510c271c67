"""A program's reads as a setting, and the clusters that it falls into."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrail.anomaly.profile import Profile, falls_into, nearest
from iotrail.anomaly.space import Dimension, Space
from iotrail.native import binary

from . import planted

SPACE = planted.paper_space()
CAUSES = planted.causes(SPACE)
MEDIA = Profile(
    streams=100,
    concurrency=100,
    stream_bytes=1_242_419,
    runs_per_stream=1.01,
    think_ns_per_mib=None,
    whole_share=1.0,
    lengths={1 << 21: 100},
)


def test_a_program_is_the_nearest_setting() -> None:
    codes = nearest(MEDIA, SPACE)
    named = {
        dimension.name: dimension.values[codes[dimension.name]]
        for dimension in SPACE.dimensions
        if dimension.name in codes
    }
    assert named == {"concurrency": 128, "stream": 1 << 20, "run": 1 << 20, "whole_file": "yes"}


def test_what_a_sweep_does_not_have_is_left_open() -> None:
    files = Dimension("whole_file", ("yes", "sometimes"), is_ordered=False)
    words = Dimension("stream", ("short", "long"), is_ordered=False)
    space = Space((files, words), np.array([[0, 0], [1, 1]]))
    assert nearest(MEDIA, space) == {"whole_file": 0}
    assert nearest(replace(MEDIA, whole_share=0.0), space) == {}


def test_it_falls_into_the_clusters_that_have_its_setting() -> None:
    codes = nearest(MEDIA, SPACE)
    inside = {name for name, (box, _) in CAUSES.items() if falls_into(SPACE, codes, box)}
    # A run of 1 MiB is beyond the timer's, a concurrency of 128 beyond the reset's.
    assert inside == {"cancel", "distance"}


def test_a_recorded_program(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(1 << 20))
    program = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "for start in (0, 262144, 0):\n"
        "    for at in range(start, start + 131072, 4096): os.pread(fd, 4096, at)\n"
    )
    trail = tmp_path / "x.trail"
    done = subprocess.run(
        [binary(), "record", "-o", trail, "--", "/usr/bin/python3", "-c", program, data],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    iotrail = [sys.executable, "-m", "iotrail"]
    query = f"SELECT s.bytes, s.n, s.runs FROM read_stream AS s JOIN file AS f USING (file) WHERE f.path = '{data}' ORDER BY s.ts"
    said = subprocess.run(
        [*iotrail, "sql", trail, query, "--format", "json"], capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout) == [{"bytes": 131_072, "n": 32, "runs": 1}] * 3
    found = subprocess.run([*iotrail, "profile", trail, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["lengths"]["131072"] >= 3


def test_a_trail_without_reads(tmp_path: Path) -> None:
    trail = tmp_path / "x.trail"
    subprocess.run(
        [binary(), "record", "-o", trail, "--", "/bin/true"], capture_output=True, text=True, check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", "profile", trail], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no reads with a known place" in done.stderr


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_whole_files_are_most_or_not(share: float) -> None:
    profile = Profile(1, 1, 4096.0, 1.0, 1e6, share, {4096: 1})
    assert profile.values()["whole_file"] == ("yes" if share > 0.5 else "no")
