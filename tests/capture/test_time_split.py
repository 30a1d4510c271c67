"""Where the time of a thread went, against what the thread measured itself."""

from __future__ import annotations


def test_shares_of_compute_io_and_waiting(build, record, work):
    """Per thread, time in I/O and waiting is within 2 % of its lifetime, and what it was kept from a CPU, of what
    the program timed around its calls."""
    run = record([build("split.c"), work])
    assert run.status == 0, run.stderr
    own = {
        int(tid): tuple(map(int, rest)) for tid, *rest in (line.split() for line in run.stdout.splitlines())
    }
    assert len(own) == 3
    found = {
        tid: (lived, io, waited)
        for tid, lived, io, waited in run.trail.query(
            """SELECT t.tid, t.end_ts - t.start_ts,
                (SELECT CAST(sum(dur) AS BIGINT) FROM file_op f WHERE f.thread = t.thread),
                (SELECT CAST(sum(dur) AS BIGINT) FROM sync_op s WHERE s.thread = t.thread)
            FROM thread t"""
        )
    }
    for tid, (lived, io, waited, delayed) in own.items():
        allowed = 0.02 * lived + delayed
        assert abs(found[tid][0] - lived) <= allowed, (tid, own[tid], found[tid])
        assert abs(found[tid][1] - io) <= allowed, (tid, own[tid], found[tid])
        assert abs(found[tid][2] - waited) <= allowed, (tid, own[tid], found[tid])
