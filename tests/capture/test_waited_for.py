"""Who a thread waited for, where the recording tells."""

from __future__ import annotations

import sys

import pytest

from iotrail.trail import Trail

# The parent holds the lock 0.3 s; a child waits for it, then writes to a pipe that the parent reads. HOW is the module
# fcntl's function, which both lock with.
PROGRAM = """
import fcntl, os, sys, time
how = getattr(fcntl, sys.argv[2])
out, into = os.pipe()
held = open(sys.argv[1], "w")
how(held, fcntl.LOCK_EX)
child = os.fork()
if child == 0:
    own = open(sys.argv[1], "r+")
    how(own, fcntl.LOCK_EX)
    time.sleep(0.1)
    os.write(into, b"x")
    os._exit(0)
time.sleep(0.3)
how(held, fcntl.LOCK_UN)
assert os.read(out, 1) == b"x"
print(os.getpid(), child)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_who_released_the_lock_and_who_wrote_to_the_pipe(record, work, how):
    run = record([sys.executable, "-c", PROGRAM, work / "locked", how])
    assert run.status == 0, run.stderr
    parent, child = map(int, run.stdout.split())
    trail = Trail(run.path)
    waits = trail.query(
        """SELECT p.pid, w.waits_for, w.peer, w.peer_name, w.time_ns
        FROM waited_for w JOIN process p ON p.process = w.process
        WHERE w.waits_for IN ('lock', 'pipe') AND w.max_ns > 50000000 ORDER BY w.waits_for"""
    ).fetchall()
    name = trail.query(f"SELECT max(name) FROM process WHERE pid = {parent}").fetchall()[0][0]
    assert [row[:4] for row in waits] == [(child, "lock", parent, name), (parent, "pipe", child, name)]
    assert waits[0][4] > 200_000_000 and waits[1][4] > 50_000_000
