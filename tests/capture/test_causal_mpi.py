"""MPI as `record --causal` has it: each row is what the program said of the call, and every send has its receive."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from .recording import Recording

RANKS = 4
# By implementation: compilers, how to start ranks.
WRAPPERS = {"openmpi": ("mpicc.openmpi", "mpifort.openmpi"), "mpich": ("mpicc.mpich", "mpifort.mpich")}
STARTS = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)],
    "mpich": ["mpirun.mpich", "-n", str(RANKS)],
}
SENDS = ("MPI_Send", "MPI_Ssend", "MPI_Isend", "MPI_Issend")
RECEIVES = ("MPI_Recv", "MPI_Sendrecv", "MPI_Mprobe")
# Rows of their own that belong to a call before them.
BY_CALL = ("MPI_Status", "MPI_Group")
# The rows of a thread, in the order of their calls; those of one call have its time.
ROWS = """
    SELECT p.pid, p.rank, s.thread, s.call, s.object, s.peer, s.tag, s.length, s.seq, s.result, s.ts, s.dur, s.errno, s.flags
    FROM sync_op AS s JOIN thread AS t USING (thread) JOIN process AS p USING (process)
    WHERE s.kind = 'mpi' ORDER BY s.thread, s.ts, s.call IN ('MPI_Status', 'MPI_Group'), s.dur DESC, s.seq, s.peer"""


@dataclass
class Row:
    """A row of sync_op."""

    pid: int
    rank: int
    thread: int
    call: str
    object: int | None
    peer: int | None
    tag: int | None
    length: int | None
    seq: int | None
    result: int | None
    ts: int
    dur: int | None
    errno: int
    flags: int | None


def _rows(run: Recording) -> list[Row]:
    return [Row(*values) for values in run.trail.query(ROWS)]


def _is_told(value: int | None, told: str) -> bool:
    return told == "*" or (told == "-" and value is None) or (told not in "*-" and value == int(told))


class Communicators:
    """Which id each name of a communicator has: one, and none has two."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def is_one(self, row: Row, name: str) -> bool:
        """Whether the row's object is that of the name."""
        if name == "-":
            return row.object is None
        # One of each process.
        name = f"{name} of {row.rank}" if name == "self" else name
        known = self.ids.setdefault(name, row.object or 0)
        return row.object is not None and row.object == known

    def assert_distinct(self) -> None:
        assert len(set(self.ids.values())) == len(self.ids), self.ids
        assert 0 not in self.ids.values()


def _assert_rows_are_told(run: Recording, work: Path) -> Communicators:
    """The rows of each rank are the lines of its book, in order; of one call's requests in any order."""
    communicators = Communicators()
    by_pid: dict[int, list[Row]] = defaultdict(list)
    for row in _rows(run):
        by_pid[row.pid].append(row)
    for rank in range(RANKS):
        first, *lines = (work / f"rank-{rank}").read_text().splitlines()
        rows = by_pid.pop(int(first.split()[1]))
        assert {row.rank for row in rows} == {rank}
        told = _in_order_of_requests([line.split() for line in lines])
        if any(words[0] == "MPI_Status" and words[5] == "*" for words in told):
            rows.sort(key=lambda row: (row.ts, row.call in BY_CALL, row.peer is None))
        last = None
        for at, words in enumerate(told):
            if words[0] == "last":
                assert [last.peer, last.tag] == [int(word) for word in words[1:]], (rank, at)
                continue
            assert rows, f"rank {rank}, line {at}: no row for {' '.join(words)}"
            last, row = rows[0], rows.pop(0)
            call, comm, *values = words
            found = [row.peer, row.tag, row.length, row.seq, row.result, row.flags]
            assert row.call == call and all(map(_is_told, found, [*values, "-"])), (
                f"rank {rank}, line {at + 1}: told {' '.join(words)}, found {row}"
            )
            assert communicators.is_one(row, comm), f"rank {rank}, line {at + 1}: {' '.join(words)}: {row}"
            assert row.dur is not None
        assert not rows, f"rank {rank} has more rows: {rows[:3]}"
    assert not by_pid
    communicators.assert_distinct()
    return communicators


def _in_order_of_requests(lines: list[list[str]]) -> list[list[str]]:
    """Lines of requests that one call completed in the order of the rows: by request, or if those are not told, by message."""
    out: list[list[str]] = []
    group: list[list[str]] = []
    for words in [*lines, []]:
        if words and words[0] == "MPI_Status":
            group.append(words)
            continue
        known = all(words[5] != "*" for words in group)
        out += sorted(group, key=lambda words: int(words[5]) if known else words[2] == "-")
        group = []
        out += [words] if words else []
    return out


def _assert_sends_have_receives(rows: list[Row]) -> int:
    """By communicator, both ranks and tag, the messages sent are those received, in order; returns how many."""
    sent: dict[tuple, list[int]] = defaultdict(list)
    received: dict[tuple, list[tuple[int, int]]] = defaultdict(list)
    begun: dict[tuple[int, int], Row] = {}
    for row in rows:
        if row.call in SENDS and row.peer is not None:
            sent[row.object, row.rank, row.peer, row.tag].append(row.length)
        elif row.call in RECEIVES and row.peer is not None and row.errno == 0:
            received[row.object, row.peer, row.rank, row.tag].append((row.ts, row.length))
        elif row.call == "MPI_Irecv":
            begun[row.pid, row.result] = row
        elif row.call == "MPI_Status" and row.peer is not None:
            receive = begun.pop((row.pid, row.seq), None)
            if receive is not None:  # else one of MPI_Imrecv
                received[receive.object, row.peer, row.rank, row.tag].append((receive.ts, row.length))
    for key, messages in sent.items():
        in_order = [length for _, length in sorted(received.pop(key, []), key=lambda one: one[0])]
        assert in_order == messages, key
    assert not received
    return sum(map(len, sent.values()))


@pytest.fixture(params=WRAPPERS)
def implementation(request) -> str:
    missing = [
        name for name in (*WRAPPERS[request.param], STARTS[request.param][0]) if not shutil.which(name)
    ]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    return request.param


def test_every_call_in_c(build, record, work, implementation):
    """All kinds of messages, requests, communicators, collective calls, windows and files, of which the program keeps book."""
    program = build("causal.c", "plain", WRAPPERS[implementation][0], "-Wno-stringop-overflow")
    run = record([*STARTS[implementation], program, work], "--causal")
    assert run.status == 0, run.stderr
    assert run.trail.missing() == 0
    _assert_rows_are_told(run, work)
    rows = [row for row in _rows(run) if not (row.call == "MPI_Isend" and row.tag == 2)]  # its receive fails
    assert _assert_sends_have_receives(rows) > 1500
    # A collective call is each rank's with the same number.
    for object, seq, calls, ranks in run.trail.query(
        """SELECT object, seq, array_agg(DISTINCT call), count(*) FROM sync_op
        WHERE kind = 'mpi' AND object IS NOT NULL AND seq IS NOT NULL AND call NOT IN ('MPI_Mrecv', 'MPI_Imrecv')
        GROUP BY ALL"""
    ):
        assert len(calls) == 1 and 2 <= ranks <= RANKS, (object, seq, calls, ranks)
    # What a file's collective calls move is recorded as ever, inside them.
    assert (
        run.trail.value("SELECT sum(length) FROM op WHERE path LIKE '%/shared' AND call LIKE '%pwrite%'")
        >= 4000
    )
    inside = run.trail.value(
        """SELECT count(*) FROM op AS o JOIN op AS f ON f.thread = o.thread AND f.ts <= o.ts AND f.ts + f.dur >= o.ts + o.dur
        WHERE o.path LIKE '%/shared' AND o.call LIKE '%write%' AND f.call LIKE 'MPI_File%'"""
    )
    assert inside > 0


@pytest.mark.parametrize("interface", ["mpif", "f08"])
def test_every_call_in_fortran(build, record, work, implementation, interface):
    """The bindings of Fortran have the rows of C, once."""
    program = build(f"causal_{interface}.f90", "plain", WRAPPERS[implementation][1])
    run = record([*STARTS[implementation], program, work], "--causal")
    assert run.status == 0, run.stderr
    _assert_rows_are_told(run, work)
    assert _assert_sends_have_receives(_rows(run)) == 2 * (RANKS - 1) + RANKS * (1 + 5 + 3)


def test_threads_that_send_at_once(build, record, work, implementation):
    """MPI_THREAD_MULTIPLE: requests of two threads, whose handles are used again and again, don't mix."""
    program = build("causal.c", "plain", WRAPPERS[implementation][0], "-Wno-stringop-overflow")
    run = record([*STARTS[implementation], program, work, "threads"], "--causal")
    assert run.status == 0, run.stderr
    assert run.stdout.split() == ["1"] * RANKS
    rows = _rows(run)
    received = [row for row in rows if row.call == "MPI_Status" and row.peer is not None]
    assert len(received) == RANKS * 2 * 200
    assert {(row.rank, row.peer, row.tag, row.length) for row in received} == {
        (rank, rank ^ 1, 1, 5) for rank in range(RANKS)
    }
    assert _assert_sends_have_receives(rows) == RANKS * 2 * 200


def test_without_causal_rows_are_as_they_were(build, record, work, implementation):
    """Without --causal calls that wait have a row, with the rank that the program names, and no others have one."""
    program = build("causal.c", "plain", WRAPPERS[implementation][0], "-Wno-stringop-overflow")
    run = record([*STARTS[implementation], program, work])
    assert run.status == 0, run.stderr
    told: dict[str, int] = defaultdict(int)
    for rank in range(RANKS):
        for line in (work / f"rank-{rank}").read_text().splitlines():
            told[line.split()[0]] += 1
    plain = [
        *(
            "MPI_Init",
            "MPI_Finalize",
            "MPI_Barrier",
            "MPI_Recv",
            "MPI_Sendrecv",
            "MPI_Wait",
            "MPI_Bcast",
            "MPI_Reduce",
        ),
        *("MPI_Allreduce", "MPI_Gather", "MPI_Scatter", "MPI_Allgather", "MPI_Scan"),
    ]
    counts = run.trail.counts()
    mpi = {call: n for call, n in counts.items() if call.startswith("MPI_")}
    # MPICH makes some of these calls itself, and MPI_Alltoallw and MPI_Iprobe have none.
    if implementation == "openmpi":
        assert {call: mpi[call] for call in plain} == {call: told[call] for call in plain}
        assert mpi["MPI_Send"] == told["MPI_Send"] + told["MPI_Ssend"]
        assert mpi["MPI_Alltoall"] == told["MPI_Alltoall"] - RANKS
        assert mpi["MPI_Probe"] == told["MPI_Probe"] - RANKS
    assert set(mpi) == {*plain, "MPI_Send", "MPI_Alltoall", "MPI_Probe"}
    assert (
        run.trail.value(
            "SELECT count(*) FROM sync_op WHERE kind = 'mpi' AND coalesce(object, seq, tag, length) IS NOT NULL"
        )
        == 0
    )


def test_two_jobs_of_one_recording(build, record, work, implementation):
    """The communicators of one job are not those of another one, though their ranks are."""
    program = build("causal.c", "plain", WRAPPERS[implementation][0], "-Wno-stringop-overflow")
    start = " ".join([*STARTS[implementation], str(program), str(work), "threads"])
    run = record(["/bin/sh", "-c", f"{start} && {start}"], "--causal")
    assert run.status == 0, run.stderr
    worlds = run.trail.query(
        "SELECT object, count(*) FROM sync_op WHERE call = 'MPI_Init' GROUP BY object ORDER BY object"
    )
    assert [n for _, n in worlds] == [RANKS, RANKS]
    assert None not in dict(worlds)
