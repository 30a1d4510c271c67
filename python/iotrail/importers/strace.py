"""strace's output: any combination of -f, -ff, -t, -tt, -ttt, -r, -T, -y and -yy (strace(1), 6.x).

Each line needs what was read before it (which path a descriptor stands for, where in the file it is), so it is
read by `iotrail-native strace` (crates/strace says how). Here the bytes are decompressed and fed to it, and what
comes out is handed to the trail's writer.
"""

import contextlib
import fcntl
import json
import re
import struct
import subprocess
import tempfile
import threading
from types import TracebackType
from typing import Any, cast

import pyarrow as pa

from iotrail import native
from iotrail.errors import NativeError
from iotrail.importers.base import Job
from iotrail.importers.source import Source

_LINE = re.compile(
    rb" *(?:(?:\[pid +)?\d{1,9}(?:<[^>]{0,64}>)?\]? +)?(?:(?:\d\d:\d\d:\d\d(?:\.\d+)?|\d+\.\d+) )?(?:\[ *[0-9a-f?]{1,16}\] ){0,2}"
    rb"(?:\w+\(.*(?:\) += (?:0x[0-9a-f]+|-?\d+|\?)|<unfinished \.\.\.>$)|<\.\.\. \w+ resumed>)"
)
# Of the bytes fed at a time, and of the pipes: reader and writer needn't wait for each other at each 64 KiB.
_PIECE = 1 << 20

# Form of the times, as the native reader calls it -> unit and what is missing.
_RELATIVE = {
    "none": ("none", "the trace has no times: each line is 1 µs after the last"),
    "delta": ("us", "the trace has the time since the line before (-r)"),
    "seconds": ("s", "the trace has the time of day, but no date"),
    "clock": ("us", "the trace has the time of day, but no date"),
}
_NOTES = {
    "none": "the trace has no times: order is kept, each line is 1 µs after the last",
    "seconds": "times are whole seconds (-t): order is kept, lines of a second are 1 µs apart",
}


def looks_like(head: bytes) -> bool:
    """Most of the first lines are system calls."""
    lines = (head.split(b"\n")[:-1] or [head])[:500]
    # not those of the stack (-k)
    lines = [line for line in lines if line.strip() and not line.startswith(b" > ")][:50]
    calls = sum(_LINE.match(line) is not None for line in lines)
    return calls * 2 > len(lines)


def read(job: Job) -> None:
    """Import strace's output. Several files are several processes (strace -ff)."""
    with _Reader(job) as reader:
        for table, batch in reader:
            job.output.add(table, dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)
        summary = reader.summary()
    _tell(job, summary)


class _Reader:
    """The native reader at work: a thread feeds it, iterating gives tables and batches. A context: leaving it ends it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self._failed: BaseException | None = None

    def __enter__(self) -> "_Reader":
        self._errors = tempfile.TemporaryFile()
        self._summary = tempfile.TemporaryFile()
        summary = self._summary.fileno()
        self._child = subprocess.Popen(
            [
                native.binary(),
                "strace",
                f"--node={self._job.node}",
                f"--summary=/dev/fd/{summary}",
                *(["--strict"] if self._job.options.strict else []),
                *(_pid(source) for source in self._job.sources),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=[summary],
        )
        try:
            for pipe in (self._child.stdin, self._child.stdout):
                fcntl.fcntl(cast(Any, pipe), fcntl.F_SETPIPE_SZ, _PIECE)
            self._feeder.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        # Whatever happened: without a reader the feeder's next write fails.
        self._child.kill()
        self._child.wait()
        if self._feeder.is_alive():
            self._feeder.join()
        for file in (self._child.stdout, self._errors, self._summary):
            cast(Any, file).close()

    def _feed(self) -> None:
        """Hand over all files: each piece after its length, 0 at the end of each."""
        pipe = cast(Any, self._child.stdin)
        try:
            for source in self._job.sources:
                for _, piece in self._job.lines(source, _PIECE):
                    pipe.write(struct.pack("<I", len(piece)))
                    pipe.write(piece)
                pipe.write(struct.pack("<I", 0))
        except BrokenPipeError:
            pass  # the reader ended, and says why
        except BaseException as error:
            self._failed = error
        finally:
            # What is still in Python's buffer may have no reader.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def __iter__(self) -> "_Reader":
        return self

    def __next__(self) -> tuple[str, pa.RecordBatch]:
        pipe = cast(Any, self._child.stdout)
        if not pipe.peek(1):
            raise StopIteration
        try:
            with pa.ipc.open_stream(pipe) as stream:
                batches = list(stream)
                table = stream.schema.metadata[b"table"].decode()
        except (OSError, ValueError, pa.ArrowException):
            batches = []
        if len(batches) != 1:
            raise self._error()  # it died in the middle
        return table, batches[0]

    def summary(self) -> dict[str, Any]:
        """What was read, beside rows; raises what went wrong."""
        if self._child.wait() != 0 or self._failed is not None:
            raise self._error()
        self._summary.seek(0)
        try:
            found: dict[str, Any] = json.load(self._summary)
        except ValueError:
            raise self._error() from None
        return found

    def _error(self) -> BaseException:
        self._child.wait()
        self._feeder.join()
        if self._failed is not None:
            return self._failed
        message, hint = native.said(self._errors)
        status = self._child.returncode
        return NativeError(
            f"the trace can't be read: {message or f'its reader ended with status {status}'}", hint
        )


def _pid(source: Source) -> str:
    """strace -ff writes NAME.PID; else nobody knows."""
    suffix = source.name.rpartition(".")[2]
    return suffix if suffix.isdecimal() and suffix.isascii() and len(suffix) < 10 else "0"


def _tell(job: Job, summary: dict[str, Any]) -> None:
    """What was read, as facts and notes."""
    job.read = summary["lines"]
    for source in summary["sources"]:
        form = source["form"]
        if form == "epoch":
            job.absolute("s since 1970")
        else:
            job.relative(*_RELATIVE[form])
        if form in _NOTES and _NOTES[form] not in job.notes:
            job.note(_NOTES[form])
        if not source["took"]:
            job.facts["dur"] = (
                "unknown but for calls that others interrupted in the trace: no -T; 0 stands for each"
            )
    skipped = summary["skipped"]
    for line in skipped["first"]:
        why = "cut off" if line["cut"] else "not understood"
        job.skipped.line(job.sources[line["source"]], line["line"], line["text"], why)
    # the reader saw empty lines in place of those that were too long
    job.skipped.count += skipped["count"] - len(skipped["first"])
    if summary["span"]:
        job.span(*summary["span"])
    calls, unfinished, backwards = (
        summary[name] for name in ("calls_without_rows", "unfinished", "backwards")
    )
    job.facts |= {"calls_without_rows": calls, "signals": summary["signals"], "unfinished": unfinished}
    if calls:
        most = ", ".join(f"{name} {count:,}" for name, count in summary["most"])
        job.note(f"{calls:,} calls are no I/O and have no rows ({most} …)")
    if unfinished:
        job.note(f"{unfinished:,} calls never return in the trace: their dur is null")
    if backwards:
        job.facts["backwards"] = backwards
        job.note(f"times go backwards {backwards:,} times; kept as they are")
