"""Programs that write over the memory they are recorded into: it costs them, and nobody beside them.

A fork of each such program keeps a book of its calls, which the trail must have exactly.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.capture.recording import Recording

# Beyond what an obeying program of that length makes, far below what was seen: 2,000 snapshots, half a gigabyte.
MOST_SNAPSHOTS = 20
MOST_BYTES = 30 << 20


def assert_kept(run: Recording) -> None:
    """The trail has what the book says of the process that kept one."""
    pids = {note.pid for note in run.notes}
    assert len(pids) == 1 and len(run.notes) > 500
    rows = run.trail.query(
        "SELECT call, pos, length, result, errno FROM op WHERE pid = ? ORDER BY ts + dur", *pids
    )
    noted = [(note.call, note.pos, note.length, note.result, note.errno) for note in run.notes]
    assert [row for row in rows if row[0] == "pwrite"] == [note for note in noted if note[0] == "pwrite"]
    assert [row[0] for row in rows if row[0] in ("open", "close")][-2:] == ["open", "close"]


def assert_bounded(native: Path, run: Recording) -> None:
    """Neither disk nor snapshots without end, and a trail that its reader takes."""
    snapshots = len(list((run.path / "snapshots").iterdir()))
    assert snapshots <= MOST_SNAPSHOTS
    assert sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()) <= MOST_BYTES
    check = subprocess.run([native, "trail", "check", run.path], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("what", ["slots", "all", "headers", "flood"])
def test_a_program_that_writes_over_its_rings(build, record, native, work, what):
    """Random words over slots, headers, all of it, and rings that fill without end: the recording ends, and says so."""
    run = record([build("hostile.c"), work, what, "1500"])
    assert run.status == 7, run.stderr
    assert_kept(run)
    assert_bounded(native, run)
    unseen = run.trail.unseen()
    assert unseen.get("overwritten_ring", 0) >= 1, unseen
    assert "wrote over the memory it records into" in run.stderr
    # What came before is there.
    assert run.trail.value("SELECT count(*) FROM op WHERE path = '/dev/null' AND call = 'open'") == 101


def test_a_record_that_its_table_refuses(build, record, native, work):
    """One record of requests without a parent costs only itself; the ring goes on."""
    run = record([build("hostile.c"), work, "parent", "0"])
    assert run.status == 7, run.stderr
    assert_kept(run)
    assert_bounded(native, run)
    assert run.trail.unseen() == {"bad_record": 1}
    assert run.trail.value("SELECT count(*) FROM stitch") == 0
    assert run.trail.value("SELECT count(*) FROM op WHERE path = '/dev/null' AND call = 'open'") == 204


def test_a_program_that_truncates_its_segment(build, record, native, work):
    """The sealer reads memory that is gone: it lives."""
    run = record([build("hostile.c"), work, "cut", "0"])
    assert run.status == 0, run.stderr
    assert_kept(run)
    assert_bounded(native, run)
    assert run.trail.unseen().get("overwritten_ring") == 1
