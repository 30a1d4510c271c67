"""Darshan's logs, read by PyDarshan (`pip install iotrail[darshan]`): https://www.mcs.anl.gov/research/projects/darshan.

With DXT (`DXT_ENABLE_IO_TRACE`) a log has each read and write of POSIX: where, how much, when and how long. They become
calls of their rank. All else are sums for each file and rank: how many opens, seeks, stats, flushes, and reads and writes
without DXT or that it had no memory for. Such a sum is one row: `calls` says of how many, `result` how many bytes they
moved together, `ts` when the first began, and how long they took is not known. MPI-IO's own records are left out: what it
does to files is in POSIX's. Files that all ranks share may be summed over them: then the rank isn't known.
"""

from pathlib import Path
from typing import Any

import numpy as np

from iotrail.errors import TraceError
from iotrail.importers.base import Actor, BlockRows, Job
from iotrail.importers.ids import process_id, thread_id
from iotrail.importers.source import Source

# darshan-util, darshan-logutils.c: the version at the file's beginning, "3.41" and zeros.
_MAGIC = b"3."
_HEADER_VERSION = 8
# Call -> (counter, when the first began, bytes) of a module.
_SUMS = {
    "POSIX": {
        "open": ("OPENS", "OPEN_START", None),
        "read": ("READS", "READ_START", "BYTES_READ"),
        "write": ("WRITES", "WRITE_START", "BYTES_WRITTEN"),
        "lseek": ("SEEKS", "OPEN_START", None),
        "stat": ("STATS", "OPEN_START", None),
        "fsync": ("FSYNCS", "OPEN_START", None),
        "fdatasync": ("FDSYNCS", "OPEN_START", None),
        "mmap": ("MMAPS", "OPEN_START", None),
    },
    "STDIO": {
        "fopen": ("OPENS", "OPEN_START", None),
        "fread": ("READS", "READ_START", "BYTES_READ"),
        "fwrite": ("WRITES", "WRITE_START", "BYTES_WRITTEN"),
        "fseek": ("SEEKS", "OPEN_START", None),
        "fflush": ("FLUSHES", "OPEN_START", None),
    },
}
_SECOND = 1_000_000_000


def looks_like(head: bytes) -> bool:
    """The version, padded with zeros."""
    version = head[:_HEADER_VERSION]
    return (
        len(version) == _HEADER_VERSION
        and version.startswith(_MAGIC)
        and version.rstrip(b"\0")[2:].isdigit()
        and version.endswith(b"\0")
    )


def read(job: Job) -> None:
    """Import logs."""
    job.unit = "records"
    job.absolute("s since the job's start, which is in seconds since 1970")
    rows = BlockRows(job, of_calls=True)
    ranks: dict[tuple[int, int], Actor] = {}
    summed = 0
    for number, source in enumerate(job.sources):
        summed += _Log(job, source, number, rows, ranks).read()
    rows.finish(ranks.values())
    job.facts["summed_calls"] = summed
    if summed:
        job.note(f"{summed:,} calls are known as sums for each file and rank only: one row stands for many")


class _Log:
    """A log as PyDarshan opens it."""

    def __init__(
        self, job: Job, source: Source, number: int, rows: BlockRows, ranks: dict[tuple[int, int], Actor]
    ) -> None:
        try:
            from darshan.backend import cffi_backend
        except ImportError as error:
            raise TraceError(
                f"{source.path}: PyDarshan, which reads such logs, can't be used: {error}",
                "pip install 'iotrail[darshan]'",
            ) from None
        if source.stream is not None or source.compression:
            raise TraceError(
                f"{source.path}: PyDarshan reads Darshan's logs from uncompressed files only",
                "write it to a file first",
            )
        self.backend: Any = cffi_backend
        self.job, self.source, self.number, self.rows, self.ranks = job, source, number, rows, ranks
        # (record, rank, call) -> reads or writes that DXT has, and their bytes. Rank -1 is all of them.
        self.traced: dict[tuple[int, int, str], tuple[int, int]] = {}

    def read(self) -> int:
        """Make rows; returns how many calls are in sums."""
        place = self.source.place or self.source.path
        log = self.backend.log_open(str(place))
        if log is None or not log.get("handle"):
            raise TraceError(f"{self.source.path}: PyDarshan can't open it: is it a whole Darshan log?")
        try:
            about = self.backend.log_get_job(log)
            self.start = int(about["start_time_sec"]) * _SECOND + int(about.get("start_time_nsec", 0))
            self.exe = str(self.backend.log_get_exe(log)).split(" ")[0]
            self.names = dict(self.backend.log_get_name_records(log))
            modules = self.backend.log_get_modules(log)
            if "DXT_POSIX" in modules:
                if not self._segments(log):
                    self.job.note(
                        f"{self.source.path}: this PyDarshan finds nothing in its DXT (another version of the format?): "
                        "reads and writes are sums"
                    )
            else:
                self.job.note(
                    f"{self.source.path}: no DXT: its reads and writes are sums; DXT_ENABLE_IO_TRACE=1 traces each"
                )
            for name, module in modules.items():
                if module.get("partial_flag"):
                    self.job.note(f"{self.source.path}: module {name} ran out of memory: it lacks records")
            return sum(self._sums(log, name) for name in _SUMS if name in modules)
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError, UnicodeDecodeError) as error:
            raise TraceError(
                f"{self.source.path}: PyDarshan can't read it: {type(error).__name__}: {error}",
                "darshan-parser checks the log",
            ) from None
        finally:
            self.backend.log_close(log)

    def _records(self, log: Any, module: str) -> Any:
        while (record := self.backend.log_get_record(log, module, "pandas")) is not None:
            self.job.read += 1
            yield record

    def _segments(self, log: Any) -> int:
        """DXT's reads and writes; returns of how many records."""
        records = 0
        for record in self._records(log, "DXT_POSIX"):
            records += 1
            for call, name in (("pread", "read_segments"), ("pwrite", "write_segments")):
                segments = record[name]
                count = len(segments)
                if not count:
                    continue
                self._trace(record, call.removeprefix("p"), segments)
                begin, end = (segments[key].to_numpy(float) for key in ("start_time", "end_time"))
                good = np.isfinite(begin) & np.isfinite(end) & (begin >= 0) & (end >= begin) & (end < 1e9)
                length = segments["length"].to_numpy(np.int64)
                offset = segments["offset"].to_numpy(np.int64)
                good &= (length >= 0) & (offset >= 0)
                if not good.all():
                    self.job.skipped.add(
                        f"{self.source.path}: segments without a time or place", int((~good).sum())
                    )
                if good.any():
                    ts = np.rint(begin[good] * _SECOND).astype(np.int64)
                    dur = np.rint(end[good] * _SECOND).astype(np.int64) - ts
                    self._add(record, call, ts, dur, offset[good], length[good], length[good], 1)
        return records

    def _trace(self, record: Any, call: str, segments: Any) -> None:
        moved = int(segments["length"].sum())
        for rank in (int(record["rank"]), -1):
            key = (int(record["id"]), rank, call)
            count, before = self.traced.get(key, (0, 0))
            self.traced[key] = (count + len(segments), before + moved)

    def _sums(self, log: Any, module: str) -> int:
        summed = 0
        for record in self._records(log, module):
            # Column by column: a row of all would turn the 64-bit ids into floats.
            counters = {name: int(values.iloc[0]) for name, values in record["counters"].items()}
            times = record["fcounters"].iloc[0]
            about = {"id": counters["id"], "rank": counters["rank"]}
            for call, (counter, begun, moved) in _SUMS[module].items():
                count = counters[f"{module}_{counter}"]
                result = counters[f"{module}_{moved}"] if moved else 0
                if moved and module == "POSIX":
                    traced = self.traced.get((about["id"], about["rank"], call), (0, 0))
                    count, result = count - traced[0], result - traced[1]
                if count <= 0:
                    continue
                ts = np.array(
                    [max(int(float(times[f"{module}_F_{begun}_TIMESTAMP"]) * _SECOND), 0)], np.int64
                )
                self._add(about, call, ts, np.array([-1]), None, None, np.array([max(result, 0)]), count)
                summed += count
        return summed

    def _add(
        self, record: Any, call: str, ts: Any, dur: Any, pos: Any, length: Any, result: Any, calls: int
    ) -> None:
        count = len(ts)
        actor = self._rank(int(record["rank"]))
        path = self.names.get(int(record["id"]), f"record {int(record['id'])}")
        self.rows.add_calls(
            {
                "ts": self.start + ts,
                "dur": dur,
                "call": np.full(count, self.job.output.call[call]),
                "file": np.full(count, self.rows.file(path)),
                "pos": pos,
                "length": length,
                "result": result,
                "calls": np.full(count, calls),
            },
            count,
            np.full(count, actor.code),
            {actor.code: actor.thread},
        )

    def _rank(self, rank: int) -> Actor:
        key = (self.number, rank)
        if key not in self.ranks:
            process = process_id(f"{self.job.node} {self.number}", 0, rank)
            name = Path(self.exe).name or "unknown"
            self.ranks[key] = Actor(
                len(self.ranks),
                process,
                thread_id(process, 0),
                0,
                0,
                name,
                f"rank {rank}" if rank >= 0 else "all ranks",
                rank if rank >= 0 else None,
                self.exe,
            )
        return self.ranks[key]
