"""Describe a tiny recording in the words of programs, threads and calls, and write it as a trail.

    scene = Scene()
    app = scene.process("app")                      # a process; its main thread is app.main
    app.main.open("/data/in")                       # one call, at the thread's own clock
    app.main.read("/data/in", 1000, size=512, ns=2_000)   # 1000 reads in order, 2 µs each
    app.main.compute(10_000_000)                    # 10 ms in which no call is made
    trail = scene.write(tmp_path)                   # through `iotrail-native ingest`

Each thread has its own clock, which every call advances by its duration; threads run side by side from
the start of their process. A process lives until its last thread's clock stops. Times are nanoseconds from
the scene's start, sizes are bytes.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from iotrail import schema
from iotrail.trail import Trail

# 2023-11-14T22:13:20Z: like real trails, an epoch time that a double can't hold to the nanosecond.
START = 1_700_000_000_000_000_000
ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "DOUBLE": pa.float64()}

O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND = 1, 2, 64, 128, 512, 1024
O_DSYNC, O_SYNC, O_DIRECT = 4096, 1052672, 16384
ENOENT, EIO, EAGAIN, EACCES, EMFILE, ENOSPC = 2, 5, 11, 13, 24, 28

Row = dict[str, object]
# The offset of the i-th call of a run, or one for all.
Places = Callable[[int], int] | int


def backwards(size: int) -> Places:
    """Offsets in equal steps from 100 MiB towards the start: no run, no read-ahead."""
    return lambda i: 100 * 1024 * 1024 - (i + 1) * size


def scattered(size: int) -> Places:
    """Offsets in no order: multiples of `size`, permuted by a prime."""
    return lambda i: (i * i * 7919 + i * 104_729) % 1_000_003 * size


class Thread:
    """A thread with its own clock."""

    def __init__(self, process: "Process", ident: int, start: int) -> None:
        self.process = process
        self.id = ident
        self.start = start
        self.now = start

    def call(
        self, call: str, path: str | None = None, *, ns: int = 1_000, times: int = 1, **columns: object
    ) -> "Thread":
        """`times` calls on a file, one after the other; `columns` are those of file_op."""
        for _ in range(times):
            row: Row = {"call": call, "result": 0, "errno": 0, "calls": 1} | columns
            if path is not None:
                row["file"] = self.process.scene.file(path)
            self.process.scene.add("file_op", self, row, ns)
        return self

    def data(
        self, call: str, path: str, times: int, size: int, at: Places | None, ns: int, **columns: object
    ) -> "Thread":
        """A run of reads or writes: at `at` or `at(i)`; without, each where the one before ended, from 0."""
        for i in range(times):
            pos = i * size if at is None else at(i) if callable(at) else at
            self.call(call, path, ns=ns, **({"pos": pos, "length": size, "result": size} | columns))
        return self

    def read(
        self,
        path: str,
        times: int = 1,
        size: int = 4096,
        at: Places | None = None,
        ns: int = 1_000,
        call: str = "pread",
        **columns: object,
    ) -> "Thread":
        """Reads."""
        return self.data(call, path, times, size, at, ns, **columns)

    def write(
        self,
        path: str,
        times: int = 1,
        size: int = 4096,
        at: Places | None = None,
        ns: int = 1_000,
        call: str = "pwrite",
        **columns: object,
    ) -> "Thread":
        """Writes."""
        return self.data(call, path, times, size, at, ns, **columns)

    def open(self, path: str, flags: int = 0, ns: int = 1_000, errno: int = 0, **columns: object) -> "Thread":
        """Open a file; with an errno it fails."""
        result = -1 if errno else 3
        return self.call(
            "open",
            path,
            ns=ns,
            **({"flags": flags, "errno": errno, "result": result, "fd": result} | columns),
        )

    def close(self, path: str, ns: int = 1_000) -> "Thread":
        """Close it."""
        return self.call("close", path, ns=ns, fd=3)

    def wait(self, call: str, kind: str, *, ns: int | None, times: int = 1, **columns: object) -> "Thread":
        """`times` calls that wait; ns None: it never returned."""
        for _ in range(times):
            row: Row = {"call": call, "kind": kind, "result": 0, "errno": 0} | columns
            self.process.scene.add("sync_op", self, row, ns)
        return self

    def compute(self, ns: int) -> "Thread":
        """Time on a CPU without calls."""
        return self._time(ns, outside_ns=ns, away_ns=0, major_faults=0, voluntary_switches=0)

    def away(self, ns: int, major_faults: int = 0, switches: int | None = None) -> "Thread":
        """Time off the CPU without calls: page faults, as far as `switches` (default: all) are theirs, or nobody knows
        what."""
        switches = (major_faults or 1) if switches is None else switches
        return self._time(
            ns, outside_ns=0, away_ns=ns, major_faults=major_faults, voluntary_switches=switches
        )

    def untold(self, ns: int) -> "Thread":
        """Time without calls of which no CPU time was recorded."""
        self.now += ns
        return self

    def _time(self, ns: int, **columns: object) -> "Thread":
        row: Row = {"source": "thread", "cpu_ns": columns["outside_ns"], "io_cpu_ns": 0, "wait_cpu_ns": 0}
        if ns > 0:
            self.process.scene.add("thread_time", self, row | columns, ns)
        return self

    def until(self, ns: int) -> "Thread":
        """Compute until a moment of the scene, at the earliest now."""
        return self.compute(max(ns - self.now, 0))


class Process:
    """A run of a program."""

    def __init__(self, scene: "Scene", ident: int, name: str, start: int, columns: Row) -> None:
        self.scene = scene
        self.id = ident
        self.name = name
        self.start = start
        self.columns = columns
        self.threads: list[Thread] = []
        self.main = self.thread()

    def thread(self, start: int | None = None) -> Thread:
        """One more thread, from the process's start or another moment on."""
        thread = Thread(self, self.scene.next_id(), self.start if start is None else start)
        self.threads.append(thread)
        return thread


class Scene:
    """A recording to be."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {"file_op": [], "sync_op": [], "thread_time": [], "unseen": []}
        self.files: dict[str, int] = {}
        self.processes: list[Process] = []
        self._ids = 0

    def next_id(self) -> int:
        """Ids count up from 1, so that expectations can name them."""
        self._ids += 1
        return self._ids

    def process(self, name: str = "app", start: int = 0, **columns: object) -> Process:
        """A process; `columns` are those of table process."""
        process = Process(self, self.next_id(), name, start, columns)
        self.processes.append(process)
        return process

    def file(self, path: str) -> int:
        """The id of a path."""
        return self.files.setdefault(path, 1000 + len(self.files))

    def unseen(self, kind: str, amount: int, process: Process | None = None) -> None:
        """What the recorder could not see."""
        self.rows["unseen"].append(
            {"node": "n", "kind": kind, "amount": amount, "process": process.id if process else None}
        )

    def add(self, table: str, thread: Thread, row: Row, ns: int | None) -> None:
        """One call of a thread at its clock."""
        if ns is None:
            row["result"] = None
        row |= {"ts": START + thread.now, "dur": ns, "node": "n", "thread": thread.id, "crumb": 0}
        self.rows[table].append(row)
        thread.now += ns or 0

    def _tables(self) -> Iterator[tuple[str, list[Row]]]:
        yield from self.rows.items()
        yield (
            "process",
            [
                {
                    "node": "n",
                    "process": p.id,
                    "pid": p.id,
                    "name": p.name,
                    "start_ts": START + p.start,
                    "end_ts": START + max(t.now for t in p.threads),
                    "ended": "exit",
                }
                | p.columns
                for p in self.processes
            ],
        )
        yield (
            "thread",
            [
                {
                    "node": "n",
                    "thread": t.id,
                    "pid": p.id,
                    "tid": t.id,
                    "process": p.id,
                    "start_ts": START + t.start,
                    "end_ts": START + t.now,
                }
                for p in self.processes
                for t in p.threads
            ],
        )
        yield "file", [{"node": "n", "file": i, "path": path} for path, i in self.files.items()]

    def write(self, folder: Path, native: Path) -> Trail:
        """Write the trail with `iotrail-native ingest` and open it."""
        streams = []
        for name, rows in self._tables():
            columns = schema.load().tables[name].columns
            arrow = pa.schema([pa.field(c.name, ARROW[c.type]) for c in columns])
            path = folder / f"{name}.arrows"
            with pa.ipc.new_stream(path, arrow) as stream:
                stream.write_table(pa.Table.from_pylist(rows, arrow))
            streams.append(f"{name}={path}")
        done = subprocess.run(
            [native, "ingest", "-o", folder / "scene.trail", *streams],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Trail(folder / "scene.trail")
