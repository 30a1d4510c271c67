"""Recorder's traces (https://github.com/uiuc-hpc/Recorder, 2.3 to 3.0): the folder it leaves, read without its library.

Its binary files are read, not what its recorder2text prints: that needs MPI and the reader of the same version, prints a
line of 60 bytes for each call and, from 2.5 on, wrong times where a grammar has rules within rules. `files` knows
the files.

Calls of POSIX and stdio are rows, also those that MPI-IO and HDF5 made; calls of these layers themselves are counted.
Recorder keeps neither what a call returned nor its descriptor: `fd` is null, and so is `result` but of reads and writes,
which are taken to have moved what they asked for. Where they were follows from the opens, seeks, reads and writes of
their file in the same process; null where the process has the file open twice, appends, or sought its end.

Names of functions and the order of their arguments: lib/recorder-posix.c.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrail.errors import TraceError
from iotrail.importers.base import RELATIVE_START, TOP_TIME, Actor, BlockRows, Ints, Job
from iotrail.importers.ids import process_id, thread_id
from iotrail.importers.recorder.files import Trace
from iotrail.importers.recorder.meaning import Calls, layer
from iotrail.importers.recorder.positions import Positions
from iotrail.units import counted

_METADATA = "recorder.mt"
_FILES = re.compile(r"VERSION|recorder\.(mt|cst|ts)|ug\.(mt|cfg)|\d{1,8}\.(cst|cfg|ts)")
# Recorder counts ticks in 32 bits. A step so close to all of them is one back: another thread's call, which began before,
# was written after. In seconds.
_WRAP, _BACK = 1 << 32, 10
# 2001: a clock that shows less has no date.
_WALL = 10**9
# HOST-USER-PROGRAM-PID and the time, before or behind.
_FOLDER = re.compile(r"(?:\d{6}\.\d+-)?.*?-?([^-]+)-\d+(?:-\d{6}\.\d+)?")


def looks_like(head: bytes) -> bool:
    """Of recorder.mt: behind numbers, the functions that Recorder knows."""
    return any(head.startswith(b"creat\ncreat64\nopen\n", at) for at in (32, 40, 1024))


def files(path: Path) -> list[Path] | None:
    """The files of the trace that a path means, recorder.mt first; None if it means none.

    It may be the trace's folder, recorder.mt in it, or a folder with one such folder in it.
    """
    if path.name == _METADATA and path.is_file():
        folder = path.parent
    elif path.is_dir():
        found = (
            [path]
            if (path / _METADATA).is_file()
            else [at.parent for at in sorted(path.glob(f"*/{_METADATA}"))]
        )
        if len(found) > 1:
            raise TraceError(
                f"{path}: holds {len(found)} traces: {', '.join(at.name for at in found[:5])}{' …' if found[5:] else ''}",
                f"name one: iotrail import recorder {found[0]}",
            )
        if not found and (path / "recorder.dat").is_file():
            raise TraceError(
                f"{path / 'recorder.dat'}: is of a Recorder after 3.0, whose layout can't be read",
                "recorder2text of its version shows it",
            )
        if not found:
            return None
        folder = found[0]
    else:
        return None
    inside = (entry for entry in sorted(folder.iterdir()) if _FILES.fullmatch(entry.name))
    return [folder / _METADATA, *(entry for entry in inside if entry.name != _METADATA)]


def folder_of(path: Path) -> Path | None:
    """The folder that is the trace if this is its recorder.mt; None for other files and those of an archive."""
    return path.parent if path.name == _METADATA and path.is_file() else None


def read(job: Job) -> None:
    """Import the trace of a folder."""
    job.unit = "calls"
    for source in job.sources:
        # the first bytes of a number may be those of gzip
        source.compression = None
    job.folder = folder_of(job.sources[0].path)
    _Import(job, Trace(job.sources)).read()


class _Import:
    """An import: the trace, and what was seen of it so far."""

    def __init__(self, job: Job, trace: Trace) -> None:
        self.job, self.trace = job, trace
        self.rows = BlockRows(job, of_calls=True)
        self.actors: list[Actor] = []
        # number of an actor -> id of its thread
        self.threads: dict[int, int] = {}
        self.calls: Calls | None = None
        # layer -> calls without a row
        self.others: Counter[str] = Counter()
        self.unplaced = self.returned = 0
        self.tick = trace.resolution * 1e9
        self.base = round(trace.start * 1e6) * 1000
        match = _FOLDER.fullmatch(job.node)
        self.program = match[1] if match else job.node

    def read(self) -> None:
        """Read all ranks."""
        job, trace = self.job, self.trace
        unit = f"ticks of {trace.resolution:g} s since the start"
        if trace.start < _WALL:
            self.base = RELATIVE_START
            job.relative(unit, "Recorder's clock had no date")
        else:
            job.absolute(f"{unit}, which is in seconds since 1970")
        job.facts["recorder_version"] = ".".join(map(str, trace.version))
        job.facts["ranks"] = trace.ranks
        for rank in range(trace.ranks):
            self._rank(rank)
        self.rows.finish(self.actors)
        self._say()

    def _rank(self, rank: int) -> None:
        signatures = self.trace.signatures(rank)
        if self.calls is None or not self.trace.merged:
            self.calls = Calls(self.job, signatures, self.rows.file, self.trace.steps)
        calls = self.calls
        grammar = self.trace.grammar(rank, len(signatures))
        used = grammar.used()
        threads = sorted({signatures[number].thread for number in used.tolist()})
        first = len(self.actors)
        mpi = self.trace.ranks > 1 or any(layer(signature.function) == "MPI" for signature in signatures)
        self._actors(rank if mpi else None, threads)
        clock = _Clock(self.tick, self.base, _back(threads, self.trace.resolution))
        positions = Positions()
        done = 0
        left_out = 0
        pieces = self.trace.times(rank)
        times = np.zeros((0, 2), np.uint32)
        for numbers in grammar.expanded():
            while len(times) < len(numbers) and (more := next(pieces, None)) is not None:
                times = np.concatenate([times, more])
            now = min(len(times), len(numbers))
            if now:
                who = first + np.searchsorted(threads, calls.thread[numbers[:now]])
                left_out += self._piece(calls, numbers[:now], *clock.read(times[:now]), who, positions)
            times = times[now:]
            done += now
            if now < len(numbers):
                break
        beyond = len(times) + sum(map(len, pieces))
        self.unplaced += positions.unknown
        self._account(rank, len(grammar), done, beyond, left_out)

    def _account(self, rank: int, calls: int, done: int, beyond: int, left_out: int) -> None:
        """Count what was read and what wasn't."""
        self.job.read += done
        where = f"{self.trace.folder}: rank {rank}"
        if done < calls:
            self.job.read += calls - done
            self.job.skipped.add(
                f"{where}: times of {done:,} of its {calls:,} calls: its times are cut off or broken",
                calls - done,
            )
        if beyond:
            self.job.note(
                f"{where} has times of {beyond:,} calls more than its {calls:,}: they are passed over"
            )
        if left_out:
            self.job.skipped.add(f"{where}: times beyond {TOP_TIME:,} ns", left_out)

    def _piece(
        self,
        calls: Calls,
        numbers: npt.NDArray[np.int32],
        ts: Ints,
        dur: Ints,
        who: Ints,
        positions: Positions,
    ) -> int:
        """Write rows of calls; returns how many were left out for their times."""
        for name, count in calls.others(numbers):
            self.others[name] += count
        chosen = calls.call[numbers] >= 0
        numbers, ts, dur, who = numbers[chosen], ts[chosen], dur[chosen], who[chosen]
        place = positions.follow(calls, numbers)
        good = ts >= 0
        if not good.all():
            numbers, ts, dur, who, place = numbers[good], ts[good], dur[good], who[good], place[good]
        rows = len(numbers)
        if rows:
            at: Any = pa.array(numbers)
            columns = {name: column.take(at) for name, column in calls.columns.items()}
            pos = pa.array(place, mask=place < 0)
            self.rows.add_calls(
                {"ts": ts, "dur": dur, "call": calls.call[numbers], "pos": pos, **columns},
                rows,
                who,
                self.threads,
            )
            self.returned += rows
        return len(good) - rows

    def _actors(self, rank: int | None, threads: list[int]) -> None:
        """The threads of a rank, or of a program without MPI."""
        process = process_id(self.job.node, 0, rank or 0)
        for thread in threads:
            name = self.program if rank is None else f"rank {rank}"
            if len(threads) > 1:
                name += f" thread {thread}"
            code = len(self.actors)
            self.threads[code] = thread_id(process, thread)
            self.actors.append(Actor(code, process, self.threads[code], 0, thread, self.program, name, rank))

    def _say(self) -> None:
        job = self.job
        if self.others:
            layers = ", ".join(f"{count:,} of {name}" for name, count in self.others.most_common())
            job.facts["calls_without_rows"] = layers
            job.note(
                f"{sum(self.others.values()):,} calls have no rows, for they are of other layers or no I/O: {layers}"
            )
        if self.unplaced:
            job.facts["reads_and_writes_without_place"] = self.unplaced
            job.note(
                f"{counted(self.unplaced, 'read or write', 'reads and writes')} without a known place: the process had the"
                " file open twice, appended or sought from its end, or the trace has patterns of offsets"
            )
        if self.returned:
            detail = (
                "Recorder keeps no return values: reads and writes are taken to have moved what they asked for,"
                " which calls failed or moved less is not known."
            )
            job.output.add(
                "unseen",
                {"node": job.node, "kind": ["results"], "amount": [self.returned], "detail": [detail]},
                1,
            )


def _back(threads: list[int], resolution: float) -> int:
    """From which step on it is one back, in ticks."""
    if len(threads) > 1:
        return _WRAP // 2
    return _WRAP - min(int(_BACK / resolution), _WRAP // 2)


class _Clock:
    """Moments of a rank's calls in ns, of the ticks between them."""

    def __init__(self, tick: float, base: int, back: int) -> None:
        # ns of a tick, exact where it is a whole number
        self.tick: float = round(tick) if abs(tick - round(tick)) < 1e-6 * tick else tick
        self.base, self.back = base, back
        # ticks since the start
        self.now = 0

    def read(self, steps: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
        """When calls began, -1 where that is out of range, and how long they took, -1 where that isn't known."""
        begin, end = steps[:, 0].astype(np.int64), steps[:, 1].astype(np.int64)
        took = (end - begin) % _WRAP
        ticks = self.now + np.cumsum(np.where(begin >= self.back, begin - _WRAP, begin))
        self.now = int(ticks[-1])
        longest = (TOP_TIME - self.base) / self.tick
        good = (ticks >= -self.base / self.tick) & (ticks + took <= longest)
        ticks, took = np.where(good, ticks, 0), np.where(good, took, 0)
        # the clock was set back within the call
        unknown = took >= self.back
        ts = self.base + self._ns(ticks)
        return np.where(good, ts, -1), np.where(unknown, -1, self._ns(took))

    def _ns(self, ticks: Ints) -> Any:
        if isinstance(self.tick, int):
            return ticks * self.tick
        return np.rint(ticks * self.tick).astype(np.int64)
