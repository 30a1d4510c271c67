"""Trails of parallel programs that are made up: ranks or threads that compute, do I/O, and meet at a barrier after each round.

What each does in a round says a function; who waits for whom and the critical path follow, as `iotrail record --causal` derives them.
"""

from collections.abc import Callable
from random import Random

import pyarrow as pa

START = 1_760_000_000_000_000_000
US = 1_000

# What a rank does before it comes to a barrier: ("compute", ns on a CPU, ns off it), or (call, path, ns).
Step = tuple[str, int, int] | tuple[str, str, int]
Work = Callable[[int, int, Random], list[Step]]
Row = dict[str, object]


def tables(
    work: Work, *, seed: int = 0, ranks: int = 4, rounds: int = 100, is_mpi: bool = True
) -> dict[str, pa.Table]:
    """The tables of a run; rank r is thread 11 + r of process 1 + r, or thread 11 + r of process 1."""
    rng = Random(seed)
    kind, call = ("collective", "MPI_Barrier") if is_mpi else ("barrier", "pthread_barrier_wait")
    rows: dict[str, list[Row]] = {
        name: [] for name in ("file_op", "sync_op", "compute", "wait", "signal", "critical_path")
    }
    files: dict[str, int] = {}
    clock = [START] * ranks
    before = START
    for turn in range(rounds):
        arrived = []
        for rank in range(ranks):
            at = {"node": "n", "thread": 11 + rank}
            for step in work(rank, turn, rng):
                if step[0] == "compute":
                    _, cpu, off = step
                    rows["compute"].append(at | {"ts": clock[rank], "dur": cpu + off, "cpu_ns": cpu})
                    clock[rank] += cpu + off
                else:
                    name, path, dur = step
                    file = files.setdefault(str(path), len(files) + 1)
                    io = {
                        "call": name,
                        "file": file,
                        "pos": 0,
                        "length": 4096,
                        "result": 4096,
                        "errno": 0,
                        "crumb": 0,
                        "calls": 1,
                    }
                    rows["file_op"].append(at | io | {"ts": clock[rank], "dur": dur})
                    clock[rank] += dur
            arrived.append(clock[rank])
        last = max(range(ranks), key=lambda rank: (arrived[rank], rank))
        for rank in range(ranks):
            at = {
                "node": "n",
                "thread": 11 + rank,
                "ts": arrived[rank],
                "dur": arrived[last] - arrived[rank] + 2 * US,
            }
            edge = {"edge": 100 + turn, "kind": kind, "how": "matched"}
            rows["wait"].append(at | edge | {"style": "yield", "within": 0})
            rows["signal"].append({"node": "n", "thread": 11 + rank, "ts": arrived[rank]} | edge)
            sync = {"call": call, "kind": "mpi" if is_mpi else "barrier", "result": 0, "errno": 0, "crumb": 0}
            rows["sync_op"].append(at | sync)
            clock[rank] = arrived[last] + 2 * US
        rows["critical_path"].append(
            {
                "ts": before,
                "dur": arrived[last] - before,
                "node": "n",
                "thread": 11 + last,
                "edge": None if turn == 0 else 99 + turn,
            }
        )
        before = arrived[last]
    rows["critical_path"].append(
        {"ts": before, "dur": 2 * US, "node": "n", "thread": 11, "edge": 99 + rounds}
    )
    life = {"node": "n", "start_ts": START, "end_ts": clock[0]}
    processes = range(ranks if is_mpi else 1)
    everything = {
        **rows,
        "process": [
            life
            | {
                "process": 1 + p,
                "pid": 1001 + p,
                "name": "solver",
                "rank": p if is_mpi else None,
                "ended": "exit",
            }
            for p in processes
        ],
        "thread": [
            life
            | {
                "thread": 11 + r,
                "pid": 1001 + (r if is_mpi else 0),
                "tid": 1001 + r,
                "process": 1 + (r if is_mpi else 0),
            }
            for r in range(ranks)
        ],
        "file": [{"node": "n", "file": file, "path": path} for path, file in files.items()],
    }
    return {name: pa.Table.from_pylist(found) for name, found in everything.items() if found}


def lock_tables(
    hold: Callable[[int, Random], int], *, seed: int = 0, threads: int = 4, turns: int = 100
) -> dict[str, pa.Table]:
    """Threads of one process that compute 1 ms each and then `hold` ns under one mutex, first come first served."""
    rng = Random(seed)
    rows: dict[str, list[Row]] = {name: [] for name in ("sync_op", "compute", "wait")}
    clock = [START + rng.randrange(1000 * US) for _ in range(threads)]
    free = START
    for _ in range(turns * threads):
        thread = min(range(threads), key=lambda one: (clock[one], one))
        at = {"node": "n", "thread": 11 + thread}
        sync = at | {"kind": "lock", "object": 7, "result": 0, "errno": 0, "crumb": 0}
        blocked = max(free - clock[thread], 0)
        rows["sync_op"].append(
            sync | {"call": "pthread_mutex_lock", "ts": clock[thread], "dur": blocked + 20}
        )
        if blocked:
            rows["wait"].append(
                at
                | {"ts": clock[thread], "dur": blocked + 20, "kind": "lock", "how": "lock", "style": "sleep"}
            )
        got = clock[thread] + blocked + 20
        held = hold(thread, rng)
        free = got + held
        rows["compute"].append(at | {"ts": got, "dur": held, "cpu_ns": held})
        rows["sync_op"].append(sync | {"call": "pthread_mutex_unlock", "ts": free, "dur": 20})
        outside = rng.randrange(800 * US, 1200 * US)
        rows["compute"].append(at | {"ts": free + 20, "dur": outside, "cpu_ns": outside})
        clock[thread] = free + 20 + outside
    life = {"node": "n", "start_ts": START, "end_ts": max(clock)}
    people = {
        "process": [life | {"process": 1, "pid": 1001, "name": "server", "ended": "exit"}],
        "thread": [
            life | {"thread": 11 + t, "pid": 1001, "tid": 1001 + t, "process": 1} for t in range(threads)
        ],
    }
    return {name: pa.Table.from_pylist(found) for name, found in {**rows, **people}.items() if found}
