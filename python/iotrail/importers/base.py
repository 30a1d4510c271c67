"""What importers share: the job they are given, the lines they couldn't read, the trail they write.

The trail is written by `iotrail-native ingest`, the one writer of trails: rows of `file_op` go through a
pipe as they are read, the other tables (small, or waiting for their turn: ingest reads a table at a
time) through unnamed temporary files. It writes beside the trail's final name and is renamed when whole:
a failed import leaves nothing, and with --force the old trail until the new one is there.
"""

import contextlib
import fcntl
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrail import native, schema
from iotrail.errors import TraceError
from iotrail.importers.ids import file_id, process_id, thread_id
from iotrail.importers.source import BLOCK, LONGEST_LINE, Source

Ints = npt.NDArray[np.int64]
# A column to write: an Arrow or numpy array, a list, or one text for all rows.
Column = Any

# Where times begin that are relative to a start nobody wrote down: 2000-01-01T00:00:00Z. A fixed moment,
# so that the same trace imported twice is the same trail.
RELATIVE_START = 946_684_800 * 1_000_000_000

# Later than this (2116), in ns, is garbage.
TOP_TIME = 1 << 62
# As crates/trail/src/columns.rs has them, whose writer takes no row beyond: 2200-01-01, and 31 years.
_LATEST, _LONGEST = 7_258_118_400 * 10**9, 10**18

_ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "DOUBLE": pa.float64()}
# Names in the columns that hold a few of them over and over.
_TEXTS = pa.dictionary(pa.int32(), pa.string())
# Batches that may wait for ingest: it stops reading while it sorts and writes half a million rows, and
# the importer should go on meanwhile. A batch is some 10 MB.
_WAITING = 6
_SHOWN = 3
_EXCERPT = 120


@dataclass(frozen=True)
class Options:
    """What the user asked for beside the files."""

    strict: bool = False
    # Column map of format csv, as given.
    map: str | None = None
    # Name of the device, where a trace doesn't name it.
    device: str | None = None


@dataclass
class Skipped:
    """Lines and records that can't be read: counted, the first few kept to show, refused if strict."""

    strict: bool
    count: int = 0
    first: list[str] = field(default_factory=list)

    def line(self, source: Source, number: int, text: bytes | str, why: str) -> None:
        """A line that doesn't parse."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        text = text.strip("\r\n")
        if len(text) > _EXCERPT:
            text = text[:_EXCERPT] + "…"
        self.add(f"{source.path}:{number}: {why}: {text!r}")

    def add(self, what: str, count: int = 1) -> None:
        """Anything that was left out, in words."""
        if self.strict:
            raise TraceError(what, "without --strict such lines are counted and left out")
        self.count += count
        if len(self.first) < _SHOWN:
            self.first.append(what)


class Output:
    """The trail being written. A context: leaving it by an exception removes what was written."""

    def __init__(self, path: Path, force: bool) -> None:
        self.path = path
        self.rows: dict[str, int] = {}
        self._refuse_existing(force)
        self._tables = schema.load().tables
        self._call_names = pa.array([call.name for call in schema.load().calls])
        self.call = {call.name: code for code, call in enumerate(schema.load().calls)}
        arrow: Any = pa  # its stubs know less than it takes
        self._schemas: dict[str, pa.Schema] = {
            name: arrow.schema(
                [
                    (column.name, _TEXTS if column.name in ("node", "call", "kind") else _ARROW[column.type])
                    for column in table.columns
                ]
            )
            for name, table in self._tables.items()
        }
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.importing")
        self._spools: dict[str, BinaryIO] = {}
        self._streams: dict[str, pa.RecordBatchStreamWriter] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(_WAITING)
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self._refused: BaseException | None = None

    def _refuse_existing(self, force: bool) -> None:
        if not os.path.lexists(self.path):
            if not self.path.absolute().parent.is_dir():
                raise TraceError(f"{self.path}: can't be written: there is no folder {self.path.parent}")
            if not os.access(self.path.absolute().parent, os.W_OK):
                raise TraceError(
                    f"{self.path}: can't be written: no permission in {self.path.absolute().parent}"
                )
            return
        trail = self.path.is_dir() and (self.path / "snapshots").is_dir()
        if not trail:
            raise TraceError(f"{self.path}: exists and is no trail", "choose another name with -o")
        if not force:
            raise TraceError(
                f"{self.path}: exists", "replace it with --force, or choose another name with -o"
            )

    def __enter__(self) -> "Output":
        self._errors = tempfile.TemporaryFile()
        try:
            self._start()
        except BaseException:
            # Ctrl-C too: nobody calls __exit__ for what wasn't entered
            self._clean_up()
            raise
        return self

    def _start(self) -> None:
        self._spools = {name: tempfile.TemporaryFile() for name in self._tables if name != "file_op"}  # noqa: SIM115
        streams = [f"{name}=/dev/fd/{file.fileno()}" for name, file in self._spools.items()]
        self._child = subprocess.Popen(
            [native.binary(), "ingest", "-o", self._partial, "file_op=/dev/stdin", *streams],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[file.fileno() for file in self._spools.values()],
        )
        assert self._child.stdin is not None
        # so that reader and writer don't wait for each other at each 64 KiB
        fcntl.fcntl(self._child.stdin, fcntl.F_SETPIPE_SZ, 1 << 20)
        sinks: dict[str, Any] = {"file_op": self._child.stdin, **self._spools}
        self._guard(lambda: self._open_streams(sinks))
        self._feeder.start()

    def _open_streams(self, sinks: Mapping[str, Any]) -> None:
        self._streams = {name: pa.ipc.new_stream(sink, self._schemas[name]) for name, sink in sinks.items()}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._guard(self._publish)
        finally:
            self._clean_up()

    def add(self, table: str, columns: Mapping[str, Column], rows: int) -> None:
        """Add rows of a table by column. What isn't given is null, or 0 or 1 where null can't be."""
        if rows == 0:
            return
        batch = self.batch(table, columns, rows)
        if table == "file_op":
            self._waiting.put(batch)
            if self._refused is not None:
                raise self._failure()
        else:
            self._streams[table].write_batch(batch)
        self.rows[table] = self.rows.get(table, 0) + rows

    def batch(self, table: str, columns: Mapping[str, Column], rows: int) -> pa.RecordBatch:
        """Columns as ingest takes them."""
        return pa.record_batch(
            [self._column(field, columns.get(field.name), rows) for field in self._schemas[table]],
            schema=self._schemas[table],
        )

    def _feed(self) -> None:
        """Hand batches to ingest; after an error take them all the same, so that nobody waits for room."""
        while (batch := self._waiting.get()) is not None:
            if self._refused is None:
                try:
                    self._streams["file_op"].write_batch(batch)
                except (OSError, pa.ArrowException) as error:
                    self._refused = error

    def _column(self, wanted: Any, given: Any, rows: int) -> Any:
        if given is None:
            default = {"crumb": 0, "errno": 0, "calls": 1}.get(wanted.name)
            if default is None:
                return pa.nulls(rows, wanted.type)
            return pa.array(np.full(rows, default, np.int64))
        if wanted.name == "call" and isinstance(given, np.ndarray):
            # numbers of calls, as `self.call` gives them
            return pa.DictionaryArray.from_arrays(given.astype(np.int32), self._call_names)
        if isinstance(given, str):
            return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), _texts([given]))
        if isinstance(given, pa.Array):
            return given if given.type == wanted.type else given.cast(wanted.type)
        if isinstance(given, list) and wanted.type == _TEXTS:
            return _texts(given).dictionary_encode()
        if isinstance(given, list) and wanted.type == pa.string():
            return _texts(given)
        return pa.array(given, wanted.type)

    def _guard(self, action: Callable[[], None]) -> None:
        """Do something with ingest; if it is gone, its error is ours."""
        try:
            action()
        except (BrokenPipeError, pa.ArrowInvalid, OSError) as error:
            if isinstance(error, BrokenPipeError) or (self._child and self._child.poll() is not None):
                raise self._failure() from None
            raise

    def _failure(self) -> TraceError:
        assert self._child is not None
        if self._child.stdin is not None and not self._child.stdin.closed:
            # what is still in Python's buffer has no reader
            os.close(os.dup(self._child.stdin.fileno()))
        self._child.wait()
        message, hint = native.said(self._errors)
        message = message.replace(str(self._partial), str(self.path))
        status = self._child.returncode
        return TraceError(
            f"{self.path}: the trail can't be written: {message or f'its writer ended with status {status}'}",
            hint,
        )

    def _publish(self) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        for name, stream in self._streams.items():
            if name != "file_op":
                stream.close()
                self._spools[name].flush()
        self._waiting.put(None)
        self._feeder.join()
        if self._refused is not None:
            raise self._failure()
        # last, for ingest reads it first
        self._streams["file_op"].close()
        self._child.stdin.close()
        if self._child.wait() != 0:
            raise self._failure()
        if self.path.exists():
            aside = self._partial.with_suffix(".replaced")
            self.path.rename(aside)
            self._partial.rename(self.path)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            self._partial.rename(self.path)

    def _clean_up(self) -> None:
        if self._child is not None:
            if self._child.poll() is None:
                self._child.kill()
                self._child.wait()
            if self._feeder.is_alive():
                self._waiting.put(None)
                self._feeder.join()
            if self._child.stdin is not None:
                with contextlib.suppress(OSError):
                    self._child.stdin.close()
        for file in self._spools.values():
            file.close()
        self._errors.close()
        shutil.rmtree(self._partial, ignore_errors=True)


def _texts(words: list[str | None]) -> Any:
    """A column of texts. Words of the command line may hold bytes that are no UTF-8: they are replaced."""
    try:
        return pa.array(words, pa.string())
    except UnicodeEncodeError:
        return pa.array(
            [word and word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words],
            pa.string(),
        )


def _where(column: Column, good: npt.NDArray[np.bool_]) -> Column:
    """The values of a column, if it is one of values, in these rows."""
    if isinstance(column, np.ndarray):
        return column[good]
    return column.filter(pa.array(good)) if isinstance(column, pa.Array | pa.ChunkedArray) else column


@dataclass
class Job:
    """One import: what an importer reads, where it writes, what it must say."""

    format: str
    sources: list[Source]
    output: Output
    options: Options
    skipped: Skipped
    # Rows of table `recording`, beside those every import has.
    facts: dict[str, object] = field(default_factory=dict)
    # Lines or records read, also those left out.
    read: int = 0
    # What `read` counts.
    unit: str = "lines"
    # The folder that is the trace and stands for its files, whose names say nothing.
    folder: Path | None = None
    # Lines left out because they are too long: read as empty ones.
    long_lines: int = 0
    # Sentences for stderr.
    notes: list[str] = field(default_factory=list)
    first_ts: int | None = None
    last_ts: int | None = None

    @property
    def node(self) -> str:
        """The machine of a trace that names none: the trace itself."""
        if self.folder is not None:
            return self.folder.resolve().name
        name = self.sources[0].name
        return name.partition(".")[0] or name

    def lines(self, source: Source, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole lines, as `Source.lines`; lines that are too long are counted as left out."""
        for number, block in source.lines(size):
            self._refuse_long(source)
            yield number, block

    def _refuse_long(self, source: Source) -> None:
        for line in source.long_lines:
            why = f"a line of {line.size:,} bytes; at most {LONGEST_LINE:,} are read"
            self.skipped.line(source, line.number, line.begin, why)
        self.long_lines += len(source.long_lines)
        source.long_lines.clear()

    def note(self, sentence: str) -> None:
        """Say something on stderr at the end."""
        self.notes.append(sentence)

    def absolute(self, how: str) -> None:
        """The trace has wall-clock times."""
        self.facts |= {"time_base": "absolute", "time_unit": how}

    def relative(self, unit: str, why: str = "the trace counts from its own start") -> None:
        """The trace has times, but no date."""
        self.facts |= {
            "time_base": "relative",
            "time_unit": unit,
            "time_start": f"2000-01-01T00:00:00Z stands for 0: {why}",
        }

    def span(self, first: int, last: int) -> None:
        """Operations lie between these moments."""
        self.first_ts = first if self.first_ts is None else min(first, self.first_ts)
        self.last_ts = last if self.last_ts is None else max(last, self.last_ts)

    def finish(self) -> None:
        """Write the tables that say how the trail came to be."""
        first, last = self.first_ts or 0, self.last_ts or 0
        named = [self.folder] if self.folder else [source.path for source in self.sources]
        facts: dict[str, object] = {
            "command": json.dumps(["iotrail", "import", self.format, *map(str, named)]),
            "format": self.format,
            self.unit: self.read,
            "skipped": self.skipped.count,
            "version": native.package_version() or "not installed",
            **self.facts,
        }
        if self.folder:
            size = sum(source.size for source in self.sources)
            facts["source:0"] = json.dumps(
                {"path": str(self.folder), "files": len(self.sources), "bytes": size}
            )
        else:
            for number, source in enumerate(self.sources):
                facts[f"source:{number}"] = json.dumps(
                    {"path": str(source.path), "bytes": source.size, "compression": source.compression}
                )
        for number, line in enumerate(self.skipped.first):
            facts[f"skipped:{number}"] = line
        self.output.add(
            "recording",
            {
                "node": self.node,
                "name": list(facts),
                "value": [str(value) for value in facts.values()],
            },
            len(facts),
        )
        self.output.add(
            "clock",
            {"node": self.node, "ts": [first, last], "wall": [first, last], "event": ["start", "end"]},
            2,
        )


# What a block request is: numbers of the codes in BlockRows.add.
READ, WRITE, FLUSH, DISCARD, SYNC, SYNC_RANGE, OPEN, CLOSE = range(8)
_CALLS = ("pread", "pwrite", "fdatasync", "fallocate", "fsync", "sync_file_range", "open", "close")
_RANGED = np.array([True, True, False, True, False, True, False, False])
# FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE (linux/falloc.h): what a discard is to a file.
_PUNCH = 3


@dataclass(frozen=True)
class Parts:
    """Which part of a file each request is for, where the trace tells."""

    # Ids; 0 unknown.
    file: Ints
    # Offsets in the files; None unknown.
    pos: Ints | None
    # Where the offset is unknown.
    no_pos: npt.NDArray[np.bool_] | None = None

    def where(self, good: npt.NDArray[np.bool_]) -> "Parts":
        """Those of these requests."""
        return Parts(
            self.file[good],
            None if self.pos is None else self.pos[good],
            None if self.no_pos is None else self.no_pos[good],
        )


class BlockRows:
    """Requests of a block trace as the calls of a program that opened the device.

    With `of_calls` they are calls on files, as the trace has them, which lacks others of its programs.
    """

    def __init__(self, job: Job, *, of_calls: bool = False) -> None:
        self.job = job
        self.of_calls = of_calls
        self.codes = np.array([job.output.call[name] for name in _CALLS], np.int32)
        self.files: dict[str, int] = {}
        self.zero = 0
        self.backwards = 0
        self.rows = 0
        # Requests that completed, of which the trace doesn't say when.
        self.without_dur = 0
        self._last: int | None = None
        # who (what `threads` names) -> first start, last end
        self.lives: dict[int, list[int]] = {}

    def file(self, path: str) -> int:
        """The id of a device or file; it gets its row at the end."""
        if path not in self.files:
            self.files[path] = file_id(path)
        return self.files[path]

    def add(
        self,
        *,
        ts: Ints,
        op: npt.NDArray[np.integer[Any]],
        pos: Ints,
        length: Ints,
        file: Ints,
        who: Ints,
        thread: Mapping[int, int],
        dur: Ints | None = None,
        no_dur: npt.NDArray[np.bool_] | None = None,
        unfinished: npt.NDArray[np.bool_] | None = None,
        errno: Ints | None = None,
        order: Ints | None = None,
        no_pos: bool = False,
        parts: Parts | None = None,
    ) -> None:
        """Add requests. `op` is READ …, `file` ids, `who` small numbers that `thread` gives ids for.

        `dur` is unknown where it isn't given, and where `no_dur` or `unfinished` is true: such a request never
        completed, one without `dur` did. `order` is each request's row in the trace, else they are in its order.
        With `no_pos` nobody knows where they are.

        Those whose times can't be (`_possible`) or whose place ends beyond 63 bits are left out. (The sum of two
        numbers below 2^63 that is beyond has wrapped to a negative one.)
        """
        known = dur is not None
        dur = np.zeros(len(ts), np.int64) if dur is None else dur
        no_dur = np.full(len(ts), not known) if no_dur is None else no_dur
        if unfinished is not None:
            no_dur = no_dur | unfinished
        good = self._possible(ts, dur, (dur | pos | length | (pos + length)) >= 0)
        if not good.all():
            ts, dur, pos, length, file, who = (column[good] for column in (ts, dur, pos, length, file, who))
            op, no_dur = op[good], no_dur[good]
            unfinished = None if unfinished is None else unfinished[good]
            errno = None if errno is None else errno[good]
            order = None if order is None else order[good]
            parts = None if parts is None else parts.where(good)
        rows = len(ts)
        if rows == 0:
            return
        if order is None:
            self._look_at_order(ts)
            order = np.arange(self.rows, self.rows + rows)
        self.rows += rows
        self.without_dur += int(np.count_nonzero(no_dur)) - (
            0 if unfinished is None else int(np.count_nonzero(unfinished))
        )
        ranged = _RANGED[op]
        self.zero += int(np.count_nonzero((length == 0) & ranged))
        table = self._live(ts, ts + dur, who, thread)
        moves = op <= WRITE
        result = np.where(moves, length, 0)
        if errno is not None:
            result = np.where(errno != 0, -1, result)
        columns: dict[str, Any] = {
            "ts": ts,
            "dur": pa.array(dur, mask=no_dur),
            "node": self.job.node,
            "thread": table[who],
            "call": self.codes[op],
            "file": file,
            "pos": None if no_pos else pos if ranged.all() else pa.array(pos, mask=~ranged),
            "length": length if ranged.all() else pa.array(length, mask=~ranged),
            "result": result if unfinished is None else pa.array(result, mask=unfinished),
            "errno": errno,
            "trace_row": order,
        }
        if (op == DISCARD).any():
            columns["flags"] = pa.array(np.full(rows, _PUNCH, np.int64), mask=op != DISCARD)
        self.job.output.add("file_op", columns, rows)
        if parts is not None:
            self._add_extents(ts, file, pos, length, parts, (op <= WRITE) & (length > 0))

    def _add_extents(
        self, ts: Ints, file: Ints, pos: Ints, length: Ints, parts: Parts, moves: npt.NDArray[np.bool_]
    ) -> None:
        """Where reads and writes say that parts of files lie."""
        good = moves & (parts.file != 0)
        parts = parts.where(good)
        self.job.output.add(
            "extent",
            {
                "ts": ts[good],
                "node": self.job.node,
                "device": file[good],
                "pos": pos[good],
                "length": length[good],
                "file": parts.file,
                "file_pos": None if parts.pos is None else pa.array(parts.pos, mask=parts.no_pos),
            },
            len(parts.file),
        )

    def _possible(self, ts: Ints, dur: Ints, good: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of those that are `good` begin after 1970, end before 2200 and last less than 31 years, a negative
        `dur` being unknown. The others are counted as left out."""
        # where the sum has wrapped, one of the two is too large
        good = good & (ts >= 0) & (ts <= _LATEST) & (dur <= _LONGEST) & (ts + dur <= _LATEST)
        if left_out := len(ts) - int(np.count_nonzero(good)):
            self.job.skipped.add(
                f"{self.job.sources[0].path}: times that are not between 1970 and 2200, durations that are negative or"
                " over 31 years, or places that end beyond 63 bits",
                left_out,
            )
        return good

    def _look_at_order(self, ts: Ints) -> None:
        steps = int(np.count_nonzero(np.diff(ts) < 0))
        if self._last is not None and ts[0] < self._last:
            steps += 1
        self.backwards += steps
        self._last = int(ts[-1])

    def _tell_unseen(self, processes: int) -> None:
        """Say what a trace of requests doesn't show, lest it be taken for measured."""
        job = self.job
        unseen = [
            (
                "between_calls",
                processes,
                "The trace has calls on files only: what programs did between them is not known.",
            )
            if self.of_calls
            else (
                "between_requests",
                processes,
                "The trace has requests only: what programs did between them is not known.",
            )
        ]
        if self.without_dur:
            some = "no" if self.without_dur == self.rows else f"{self.without_dur:,} requests without"
            unseen.append(
                (
                    "response_times",
                    self.without_dur,
                    f"The trace has {some} response times: latency, queue depth and time in I/O are not known.",
                )
            )
        kinds, amounts, details = (list(column) for column in zip(*unseen, strict=True))
        job.output.add(
            "unseen", {"node": job.node, "kind": kinds, "amount": amounts, "detail": details}, len(unseen)
        )

    def add_calls(
        self, columns: Mapping[str, Column], rows: int, who: Ints, thread: Mapping[int, int]
    ) -> None:
        """Add calls whose columns are those of `file_op` already, but thread and row. `ts` and `dur` are numbers, `dur`
        -1 where it is unknown."""
        ts, dur = np.asarray(columns["ts"]), np.asarray(columns["dur"])
        good = self._possible(ts, dur, np.ones(rows, np.bool_))
        if not good.all():
            ts, dur, who = ts[good], dur[good], who[good]
            columns = {name: _where(column, good) for name, column in columns.items()}
            rows = len(ts)
        if rows == 0:
            return
        self.rows += rows
        self.without_dur += int(np.count_nonzero(dur < 0))
        table = self._live(ts, ts + np.maximum(dur, 0), who, thread)
        self.job.output.add(
            "file_op",
            {
                **columns,
                "ts": ts,
                "node": self.job.node,
                "dur": pa.array(dur, mask=dur < 0),
                "thread": table[who],
                "trace_row": np.arange(self.rows - rows, self.rows),
            },
            rows,
        )

    def _live(self, ts: Ints, end: Ints, who: Ints, thread: Mapping[int, int]) -> Ints:
        """Note who lived when; the threads' ids by their small numbers."""
        self.job.span(int(ts.min()), int(end.max()))
        size = int(who.max()) + 1
        first = np.full(size, np.iinfo(np.int64).max)
        last = np.full(size, np.iinfo(np.int64).min)
        np.minimum.at(first, who, ts)
        np.maximum.at(last, who, end)
        table = np.zeros(size, np.int64)
        for code in np.flatnonzero(last >= first).tolist():
            life = self.lives.setdefault(code, [int(first[code]), int(last[code])])
            life[0], life[1] = min(life[0], int(first[code])), max(life[1], int(last[code]))
            table[code] = thread[code]
        return table

    def finish(self, threads: Iterable["Actor"]) -> None:
        """Write processes, threads and files, and say what was odd."""
        job, node = self.job, self.job.node
        living = [
            (actor, self.lives[actor.code][0], self.lives[actor.code][1])
            for actor in threads
            if actor.code in self.lives
        ]
        # One pid under several names (exec, or a name that was changed) is one process, and one tid one thread.
        processes: dict[int, list[Any]] = {}
        named: dict[int, list[Any]] = {}
        for actor, start, end in living:
            for row in (
                processes.setdefault(actor.process, [actor, start, end]),
                named.setdefault(actor.thread, [actor, start, end]),
            ):
                row[1], row[2] = min(row[1], start), max(row[2], end)
        whole, parts = list(processes.values()), list(named.values())
        job.output.add(
            "process",
            {
                "node": node,
                "process": list(processes),
                "pid": [actor.pid for actor, _, _ in whole],
                "name": [actor.process_name for actor, _, _ in whole],
                "start_ts": [start for _, start, _ in whole],
                "end_ts": [end for _, _, end in whole],
                "rank": [actor.rank for actor, _, _ in whole],
                "role": ["rank" if actor.rank is not None else None for actor, _, _ in whole],
                "exe": [actor.exe for actor, _, _ in whole],
                "ended": ["running"] * len(whole),
            },
            len(whole),
        )
        job.output.add(
            "thread",
            {
                "node": node,
                "thread": [actor.thread for actor, _, _ in parts],
                "pid": [actor.pid for actor, _, _ in parts],
                "tid": [actor.tid for actor, _, _ in parts],
                "process": [actor.process for actor, _, _ in parts],
                "name": [actor.name for actor, _, _ in parts],
                "start_ts": [start for _, start, _ in parts],
                "end_ts": [end for _, _, end in parts],
            },
            len(parts),
        )
        job.output.add(
            "file",
            {"node": node, "file": list(self.files.values()), "path": list(self.files)},
            len(self.files),
        )
        if whole:
            self._tell_unseen(len(whole))
        if self.backwards:
            job.facts["backwards"] = self.backwards
            job.note(f"times go backwards {self.backwards:,} times; kept as they are")
        if self.zero:
            job.facts["zero_length"] = self.zero
            job.note(f"{self.zero:,} requests have no length; kept as they are")


def running(clock: int, steps: Ints) -> tuple[Ints, int]:
    """When requests began of which only the times between them are known, and when the next begins.

    `steps` are from each to its next, in ns, none negative or beyond 2^62. Behind 2116 all times are the least
    number of 64 bits, which no request may begin at.
    """
    ends = clock + np.cumsum(steps)
    times = np.concatenate([[clock], ends])
    # a sum that is beyond 63 bits is negative at first, whatever follows
    times[np.logical_or.accumulate((times < 0) | (times > TOP_TIME))] = np.iinfo(np.int64).min
    return times[:-1], int(times[-1])


def match_lines(
    job: Job, source: Source, number: int, block: bytes, pattern: re.Pattern[bytes], ignore: re.Pattern[bytes]
) -> list[tuple[bytes, ...]]:
    """The groups of all lines that match; others are counted as left out, unless empty or ignored.

    `pattern` has groups, ^ and $ and re.MULTILINE: one scan of the block, lines are cut out only where some are bad.
    """
    found: list[tuple[bytes, ...]] = pattern.findall(block)
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    job.read += lines
    if len(found) != lines:
        for at, line in enumerate(block.split(b"\n")[:lines]):
            if line and not pattern.match(line) and not ignore.match(line):
                job.skipped.line(source, number + at, line, "not understood")
    return found


@dataclass(frozen=True)
class Actor:
    """Who issued requests: a thread, with the process it belongs to."""

    code: int
    process: int
    thread: int
    pid: int
    tid: int
    process_name: str
    name: str | None
    rank: int | None = None
    exe: str | None = None

    @classmethod
    def of(cls, job: Job, code: int, name: str, pid: int = 0, tid: int | None = None) -> "Actor":
        """A process of one thread; pid 0 where the trace knows none."""
        process = process_id(job.node, pid)
        tid = code if tid is None else tid
        return cls(code, process, thread_id(process, tid), pid, tid, name if pid else job.node, name)
