"""strace's output: any combination of -f, -t, -tt, -ttt, -r, -T, -y and -yy (strace(1), 6.x).

One regular expression scans a block of lines; Python then follows what needs state: which path a descriptor
stands for (through open, dup, pipe, socket, fork, exec, close), where in the file it is (through read, write,
lseek), calls that were interrupted in the output (`<unfinished ...>`, `<... resumed>`), and which threads
make a process. With -y the path strace prints wins over what was followed.

Rows are those a recorder would have written: calls on files in `file_op`, calls that wait, and reads and
writes on pipes, sockets and terminals, in `sync_op`. Other system calls (memory, signals, identity) have no
rows and are counted.
"""

import errno as errno_numbers
import gc
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from iotrail.importers.base import RELATIVE_START, Job
from iotrail.importers.ids import file_id, hash63, process_id, thread_id
from iotrail.importers.source import Source

_PREFIX = r"^ *(?:(?:\[pid +)?(\d{1,9})\]? +)?(?:(\d\d:\d\d:\d\d(?:\.\d+)?|\d+\.\d+) )?"
_LINE = re.compile(_PREFIX + r"(?:(\w++)\((.*)\) += (0x[0-9a-f]+|-?\d+|\?)([^\n]*)|(.*))$", re.MULTILINE)
_UNFINISHED = re.compile(r"(\w+)\((.*)<unfinished \.\.\.>$")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed> ?(.*)\) += (0x[0-9a-f]+|-?\d+|\?)(.*)$")
_EXITED = re.compile(r"\+\+\+ (?:exited with (\d{1,9})|killed by (\w+)(?: \(core dumped\))?) \+\+\+$")
_SAID = re.compile(
    r"--- SIG.* ---$|--- stopped by \w+ ---$|strace: |<\.\.\. \w+ resumed> ?<unfinished \.\.\.>\)|$"
)
_DURATION = re.compile(rb"<\d+\.\d+>$", re.MULTILINE)
_TOOK = re.compile(r"<\d{1,9}\.\d{1,9}>")
# With -y a descriptor's name, and with -yy the kind of its device in it.
_LABEL = r"(?:<((?:->|[^<>])*)(?:<[^>]*>)?>)?"
_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_FD = re.compile(r"(-1|\d{1,9})" + _LABEL)
_PATHS = re.compile(_STRING)
_AT = re.compile(r"(AT_FDCWD|-?\d+)" + _LABEL + r", " + _STRING + r"(?:\.\.\.)?(?:, (.*))?$")
_AT_TWO = re.compile(
    r"(AT_FDCWD|-?\d+)" + _LABEL + r", " + _STRING + r", (AT_FDCWD|-?\d+)" + _LABEL + r", " + _STRING
)
_FDS = re.compile(r"(\d+)(?:<((?:pipe:|socket:|[A-Z0-9]+:|UNIX)?[^>]*)>)?")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}
_IOV = re.compile(r"iov_len=(\d+)")
_HOW = re.compile(r"flags=([A-Z_|0-9x]+)")

_ERRNO = {name: number for number, name in errno_numbers.errorcode.items()} | {
    # what the kernel uses inside and strace shows (include/linux/errno.h)
    "ERESTARTSYS": 512,
    "ERESTARTNOINTR": 513,
    "ERESTARTNOHAND": 514,
    "ERESTART_RESTARTBLOCK": 516,
}
_WHENCE = {"SEEK_SET": 0, "SEEK_CUR": 1, "SEEK_END": 2, "SEEK_DATA": 3, "SEEK_HOLE": 4}
_MMAP_FLAGS = {
    "PROT_NONE": 0,
    "PROT_READ": 1,
    "PROT_WRITE": 2,
    "PROT_EXEC": 4,
    "MAP_SHARED": 1 << 8,
    "MAP_PRIVATE": 2 << 8,
    "MAP_SHARED_VALIDATE": 3 << 8,
    "MAP_FIXED": 0x10 << 8,
}
_APPEND, _CLOEXEC = os.O_APPEND, os.O_CLOEXEC
_STEP = 1000
# Bytes scanned at a time: their pieces are Python objects, twenty times as large.
_BLOCK = 2 << 20
# Later than 2116 is garbage.
_LAST_TIME = 1 << 62
_HALF_DAY = 12 * 3600 * 10**9

_FILE_COLUMNS = "ts dur thread call file file2 fd pos length result errno flags"
_SYNC_COLUMNS = "ts dur thread call kind object peer fd length result errno"


def looks_like(head: bytes) -> bool:
    """Most of the first lines are system calls, or say what strace says."""
    lines = head.decode("utf-8", "replace").split("\n")[:-1][:50] or [head.decode("utf-8", "replace")]
    calls = [match for line in lines if (match := _LINE.match(line)) and not match[0].isspace()]
    known = [m for m in calls if m[3] or _UNFINISHED.match(m[7] or "") or _RESUMED.match(m[7] or "")]
    return bool(known) and len(known) * 2 > len([line for line in lines if line.strip()])


class Open:
    """An open file description: descriptors made by dup and fork share one, and with it the position."""

    __slots__ = ("append", "file", "kind", "name", "pos")

    def __init__(
        self, name: str | None, file: int | None, kind: str | None, pos: int | None, append: bool = False
    ) -> None:
        # What strace prints for it with -y.
        self.name = name
        # The file's id, or that of the pipe or socket.
        self.file = file
        # What one waits for in it: pipe, socket, terminal, event; None for a file.
        self.kind = kind
        self.pos = pos
        self.append = append


@dataclass(eq=False)
class Process:
    """A program image and its descriptors."""

    id: int
    pid: int
    start: int
    parent: int | None = None
    name: str | None = None
    exe: str | None = None
    cmd: str | None = None
    cwd: str | None = None
    fds: dict[int, Open] = field(default_factory=dict)
    cloexec: set[int] = field(default_factory=set)
    end: int = 0
    ended: str = "running"
    status: int | None = None


@dataclass(eq=False)
class Thread:
    """A thread, the call it was in when the output was interrupted, and its life."""

    id: int
    tid: int
    process: Process
    start: int
    last: int
    # start, name, arguments, what a close closes
    pending: tuple[int, str, str, Open | None] | None = None


Handler = Callable[["Reader", Thread, int, "int | None", str, str, "int | None", int, str], None]


def read(job: Job) -> None:
    """Import strace's output. Several files are several processes (strace -ff)."""
    reader = Reader(job)
    # Millions of tuples without a cycle among them: looking for cycles costs as much as reading them.
    gc.disable()
    try:
        for source in job.sources:
            reader.begin(source)
            for number, block in source.lines(_BLOCK):
                reader.block(source, number, block)
        reader.finish()
    finally:
        gc.enable()


class Reader:
    """What is known between one line and the next."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.code = job.output.call
        self.files: dict[int, str] = {}
        self.threads: dict[str, Thread] = {}
        self.done_threads: list[Thread] = []
        self.processes: list[Process] = []
        self.images: Counter[int] = Counter()
        # Clones whose child hasn't been seen yet.
        self.cloning: list[tuple[Thread, str]] = []
        self.file_rows: list[tuple[Any, ...]] = []
        self.sync_rows: list[tuple[Any, ...]] = []
        self.others: Counter[str] = Counter()
        self.signals = 0
        self.rings = 0
        self.unfinished = 0
        self.backwards = 0
        self.last = 0
        self.mode = ""
        self.timed = False
        self.names: dict[tuple[str, str], tuple[int, str]] = {}
        self.flag_values: dict[str, int] = {}
        self.serial = 0
        self.day = 0
        self.file_pid = ""
        # Descriptors as printed, and durations: texts that come again and again.
        self.labels: dict[str, tuple[int, str | None]] = {}
        self.durations: dict[str, int] = {}
        self.places: dict[str, tuple[str, str | None, str]] = {}

    # -- lines

    def begin(self, source: Source) -> None:
        """Tell from the first lines which of -t, -tt, -ttt, -r and -T were given."""
        head = source.head()
        lines = head.decode("utf-8", "replace").split("\n")[:200]
        stamps = [match[2] for line in lines if (match := _LINE.match(line)) and (match[3] or match[7])]
        stamp = next((stamp for stamp in stamps if stamp), None)
        self.timed = _DURATION.search(head) is not None
        self.day, self.last = 0, 0
        # strace -ff writes NAME.PID
        suffix = source.path.suffix[1:]
        self.file_pid = suffix if suffix.isdigit() and len(suffix) < 10 else "0"
        job = self.job
        if stamp is None:
            self.mode = "none"
            job.relative("none", "the trace has no times: each line is 1 µs after the last")
            job.note("the trace has no times: order is kept, each line is 1 µs after the last")
        elif ":" in stamp:
            self.mode = "clock" if "." in stamp else "seconds"
            job.relative("us" if "." in stamp else "s", "the trace has the time of day, but no date")
            if self.mode == "seconds":
                job.note("times are whole seconds (-t): order is kept, lines of a second are 1 µs apart")
        elif len(stamp.partition(".")[0]) < 9:
            self.mode = "delta"
            job.relative("us", "the trace has the time since the line before (-r)")
        else:
            self.mode = "epoch"
            job.absolute("s since 1970")
        if not self.timed:
            job.facts["dur"] = (
                "unknown but for calls that others interrupted in the trace: no -T; 0 stands for each"
            )

    def block(self, source: Source, first: int, block: bytes) -> None:
        """Read a block of whole lines."""
        text = block.decode("utf-8", "replace")
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        self.job.read += lines
        found = _LINE.findall(text)[:lines]
        moments = self._moments([line[1] for line in found])
        threads, others, handlers, durations = self.threads, self.others, _HANDLERS, self.durations
        timed, file_pid = self.timed, self.file_pid
        at = -1
        for (pid, _, name, args, result, rest, other), ts in zip(found, moments, strict=True):
            at += 1
            try:
                if ts is None:
                    raise ValueError("no time")
                thread = threads.get(pid or file_pid)
                if thread is None:
                    if not name and (not other or not self._known(other)):
                        if other:
                            raise ValueError("no call")
                        continue
                    thread = self._new_thread(int(pid or file_pid), ts)
                thread.last = ts
                if name:
                    handler = handlers.get(name)
                    if handler is None:
                        others[name] += 1
                        continue
                    dur = 0
                    if timed:
                        took = rest[rest.rfind("<") :]
                        known = durations.get(took)
                        dur = self._duration(took) if known is None else known
                        thread.last = ts + dur
                    if result.isdigit():
                        handler(self, thread, ts, dur, name, args, int(result), 0, rest)
                    else:
                        value, error = _failure(result, rest)
                        handler(self, thread, ts, dur, name, args, value, error, rest)
                elif not self._other(thread, ts, other):
                    raise ValueError("no call")
            except (ValueError, IndexError):
                # an argument isn't what it should be, or is missing
                line = text.split("\n", at + 1)[at] if len(self.job.skipped.first) < 3 else ""
                cut = at == lines - 1 and not block.endswith(b"\n")
                self.job.skipped.line(source, first + at, line, "cut off" if cut else "not understood")
        self._flush()

    def _duration(self, text: str) -> int:
        """What -T printed, `<0.000011>`, in ns; 0 if it printed none. The same ones come again and again."""
        dur = _nanoseconds(text[1:-1]) if _TOOK.fullmatch(text) else 0
        if len(self.durations) > 100_000:
            self.durations.clear()
        self.durations[text] = dur
        return dur

    def _moments(self, stamps: list[str]) -> list[int | None]:
        """The lines' times in ns; None where one is garbage."""
        if self.mode == "epoch" and stamps:
            size = len(stamps[0])
            digits = size - 1 - stamps[0].find(".")
            joined = "".join(stamps)
            # Stamps of one width, as they are but for garbage, are read as a table of digits.
            if (
                0 < len(joined) == size * len(stamps)
                and size - digits - 1 <= 10
                and all(len(stamp) == size and stamp[-digits - 1] == "." for stamp in stamps)
            ):
                weights = [10 ** (8 + size - digits - 1 - i) for i in range(size - digits - 1)] + [0]
                weights += [10 ** (8 - i) if i < 9 else 0 for i in range(digits)]
                table = np.frombuffer(joined.encode(), np.uint8).reshape(len(stamps), size).astype(
                    np.int64
                ) - ord("0")
                ts = table @ np.array(weights, np.int64)
                if ts.min() >= 0 and ts.max() < _LAST_TIME:
                    self.backwards += int(np.count_nonzero(np.diff(ts) < 0)) + (int(ts[0]) < self.last)
                    self.last = int(ts[-1])
                    return list(ts.tolist())
        return [self._moment(stamp) for stamp in stamps]

    @staticmethod
    def _known(other: str) -> bool:
        return any(pattern.match(other) for pattern in (_UNFINISHED, _RESUMED, _EXITED, _SAID))

    def _moment(self, stamp: str) -> int | None:
        """A line's time in ns; that of the line before where it has none."""
        match self.mode:
            case "epoch":
                ts = _nanoseconds(stamp) if stamp else self.last
            case "none":
                self.last = (self.last or RELATIVE_START) + _STEP
                return self.last
            case "delta":
                ts = (self.last or RELATIVE_START) + (_nanoseconds(stamp) if stamp else 0)
            case _:
                if not stamp:
                    return self.last
                ts = RELATIVE_START + self.day + _time_of_day(stamp)
                if self.last and ts < self.last - _HALF_DAY:
                    self.day += 2 * _HALF_DAY
                    ts += 2 * _HALF_DAY
                if self.mode == "seconds" and self.last >= ts > self.last - 10**9:
                    ts = self.last + _STEP
        if not 0 <= ts < _LAST_TIME:
            return None
        if ts < self.last:
            self.backwards += 1
        self.last = ts
        return ts

    def _other(self, thread: Thread, ts: int, line: str) -> bool:
        """Unfinished and resumed calls, signals, ends. Whether it was one of those."""
        if match := _UNFINISHED.match(line):
            name, args = match[1], match[2].rstrip(" ,")
            closed = None
            if name == "close":
                # The number is free at once: another thread may get it before the close is printed as done.
                number, closed = self._open(thread, args)
                thread.process.fds.pop(number, None)
            elif name in _CLONES:
                self.cloning.append((thread, args))
            thread.pending = (ts, name, args, closed)
            return True
        if match := _RESUMED.match(line):
            if thread.pending is None or thread.pending[1] != match[1]:
                # its beginning is before the trace's
                self.others[match[1]] += 1
                return True
            start, name, args, closed = thread.pending
            thread.pending = None
            handler = _HANDLERS.get(name)
            if handler is None:
                self.others[name] += 1
                return True
            rest = match[4]
            dur = max(ts - start, 0)
            if self.timed and rest[-1:] == ">":
                dur = self._duration(rest[rest.rfind("<") :])
            try:
                value, error = _failure(match[3], rest)
                joined = (
                    args + (", " if args and match[2] and not match[2].startswith(")") else "") + match[2]
                )
                if name == "close":
                    self._file(
                        thread,
                        start,
                        dur,
                        "close",
                        closed,
                        result=value,
                        error=error,
                        fd=_descriptor(args)[0],
                    )
                else:
                    handler(self, thread, start, dur, name, joined, value, error, rest)
            except (ValueError, IndexError):
                return False
            return True
        if match := _EXITED.match(line):
            self._end(thread, ts, int(match[1]) if match[1] else None, killed=match[2] is not None)
            return True
        if _SAID.match(line):
            self.signals += line.startswith("--- SIG")
            return True
        return False

    # -- processes

    def _new_process(self, pid: int, ts: int, parent: Process | None) -> Process:
        process = Process(
            process_id(self.job.node, pid, self.images[pid]), pid, ts, parent.id if parent else None
        )
        self.images[pid] += 1
        self.processes.append(process)
        return process

    def _new_thread(self, tid: int, ts: int) -> Thread:
        """A thread seen for the first time: the child of a clone still under way, or of nobody known."""
        if self.cloning:
            parent, args = self.cloning.pop(0)
            return self._child(parent, args, tid, ts)
        process = self._new_process(tid, ts, None)
        return self._add_thread(tid, process, ts)

    def _add_thread(self, tid: int, process: Process, ts: int) -> Thread:
        thread = Thread(thread_id(process.id, tid), tid, process, ts, ts)
        self.threads[str(tid)] = thread
        return thread

    def _child(self, parent: Thread, args: str, tid: int, ts: int) -> Thread:
        if "CLONE_THREAD" in args:
            return self._add_thread(tid, parent.process, ts)
        old = parent.process
        process = self._new_process(tid, ts, old)
        process.name, process.exe, process.cmd, process.cwd = old.name, old.exe, old.cmd, old.cwd
        process.fds, process.cloexec = (
            (old.fds, old.cloexec) if "CLONE_FILES" in args else (dict(old.fds), set(old.cloexec))
        )
        return self._add_thread(tid, process, ts)

    def clone(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """A new process or thread."""
        waiting = next((entry for entry in self.cloning if entry[0] is thread), None)
        if waiting is not None:
            self.cloning.remove(waiting)
        if value and 0 < value < 1 << 31 and str(value) not in self.threads:
            self._child(thread, args, value, ts)

    def exec(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """A new program image in the same process; nothing where it failed, as a recorder's."""
        if value != 0:
            self.others[name] += 1
            return
        old = thread.process
        now = ts + (dur or 0)
        fresh = (
            not any(other is not thread and other.process is old for other in self.threads.values())
            and thread.start == ts
        )
        if fresh and old.name is None:
            process = old  # the first line of a trace
        else:
            old.end, old.ended = now, "exec"
            thread.last = now
            self.done_threads.append(thread)
            process = self._new_process(old.pid, now, old)
            process.fds = {fd: entry for fd, entry in old.fds.items() if fd not in old.cloexec}
            process.cwd = old.cwd
            self._add_thread(thread.tid, process, now)
        strings = _PATHS.findall(args.partition("], ")[0])
        if not strings:
            raise ValueError("no path")
        path = _unescape(strings[0])
        process.exe, process.name = path, posixpath.basename(path) or path
        process.cmd = " ".join(_unescape(word) for word in strings[1:])

    def _end(self, thread: Thread, ts: int, status: int | None, *, killed: bool) -> None:
        if thread.pending is not None:
            self._unfinished(thread)
        process = thread.process
        self.done_threads.append(thread)
        thread.last = ts
        del self.threads[str(thread.tid)]
        if thread.tid == process.pid or not any(t.process is process for t in self.threads.values()):
            process.end, process.status, process.ended = ts, status, "killed" if killed else "exit"

    def _unfinished(self, thread: Thread) -> None:
        """A call that never returned: what is known of it, without result."""
        assert thread.pending is not None
        start, name, args, closed = thread.pending
        thread.pending = None
        handler = _HANDLERS.get(name)
        if handler is None or name in _CLONES:
            self.others[name] += 1
            return
        if name == "close":
            self._file(thread, start, None, "close", closed, result=None, error=0, fd=_descriptor(args)[0])
            self.unfinished += 1
            return
        try:
            handler(self, thread, start, None, name, args, None, 0, "")
            self.unfinished += 1
        except (ValueError, IndexError):
            # its arguments are printed when it returns
            self.others[name] += 1

    # -- descriptors

    def _open(self, thread: Thread, args: str) -> tuple[int, Open | None]:
        """The descriptor that begins the arguments, and what it stands for: with -y what strace says."""
        at = args.find(", ")
        key = args if at < 0 else args[:at]
        known = self.labels.get(key)
        if known is None:
            fd, label, end = _descriptor(args)
            if end == len(key):
                if len(self.labels) > 100_000:
                    self.labels.clear()
                self.labels[key] = fd, label
        else:
            fd, label = known
        entry = thread.process.fds.get(fd)
        if label is not None and (entry is None or entry.name != label):
            entry = self._named(label, entry)
            thread.process.fds[fd] = entry
        return fd, entry

    def _named(self, name: str, before: Open | None = None) -> Open:
        """A description strace names; the one followed so far may be the same under another name."""
        if before is not None and before.name is None:
            before.name = name
            if name.startswith("/") or before.kind is not None:
                return before
        kind = _kind(name)
        if kind is not None:
            return Open(name, hash63(name.encode("utf-8", "replace")), kind, None)
        path = _unescape(name)
        file, _ = self._path("", path)
        return Open(name, file, None, None)

    def _path(self, directory: str, path: str) -> tuple[int, str]:
        """The id of a path; relative ones are as given where their directory isn't known."""
        key = (directory, path)
        found = self.names.get(key)
        if found is None:
            whole = _unescape(path)
            if not whole.startswith("/") and directory.startswith("/"):
                whole = f"{directory}/{whole}"
            whole = posixpath.normpath(whole) if whole else whole
            if whole.startswith("//"):
                whole = whole[1:]
            file = file_id(whole)
            self.files[file] = whole
            found = self.names[key] = (file, whole)
        return found

    def _directory(self, thread: Thread, number: str, name: str | None) -> str:
        """The directory that AT_FDCWD or a descriptor stands for; empty if unknown."""
        if name:
            if number == "AT_FDCWD":
                thread.process.cwd = _unescape(name)
            return _unescape(name)
        if number == "AT_FDCWD":
            return thread.process.cwd or ""
        entry = thread.process.fds.get(int(number))
        return self.files.get(entry.file, "") if entry and entry.file and entry.kind is None else ""

    def _at(self, thread: Thread, args: str) -> tuple[int, str, str]:
        """Id, path and further arguments of a call that begins with a directory and a path."""
        end = args.find('", ')
        key = args[:end]
        known = self.places.get(key) if end > 0 else None
        if known is None:
            match = _must(_AT.match(args))
            known, words = (match[1], match[2], match[3]), match[4] or ""
            # an escaped quote isn't the path's end
            if end > 0 and "\\" not in key:
                if len(self.places) > 100_000:
                    self.places.clear()
                self.places[key] = known
        else:
            words = args[end + 3 :]
        number, label, path = known
        if not path and number != "AT_FDCWD":
            # AT_EMPTY_PATH: the descriptor itself
            _, entry = self._open(thread, args)
            return (entry.file if entry and entry.file else 0), "", words
        if path.startswith("/") and (label is None or label == thread.process.cwd):
            directory = ""
        else:
            directory = self._directory(thread, number, label)
        file, whole = self._path("" if path.startswith("/") else directory, path)
        return file, whole, words

    # -- rows

    def _file(
        self, thread: Thread, ts: int, dur: int | None, call: str, entry: Open | None, *,
        result: int | None, error: int, fd: int | None = None, pos: int | None = None,
        length: int | None = None, flags: int | None = None, file: int | None = None, file2: int | None = None,
    ) -> None:  # fmt: skip
        if entry is not None:
            file = entry.file if entry.kind is None else None
        self.file_rows.append(
            (ts, dur, thread.id, self.code[call], file or None, file2, fd, pos, length, result, error, flags)
        )

    def _wait(
        self, thread: Thread, ts: int, dur: int | None, call: str, kind: str, *,
        result: int | None, error: int, fd: int | None = None, object: int | None = None,
        peer: int | None = None, length: int | None = None,
    ) -> None:  # fmt: skip
        self.sync_rows.append(
            (ts, dur, thread.id, self.code[call], kind, object, peer, fd, length, result, error)
        )

    def _flush(self) -> None:
        """Hand over the rows of a block by columns."""
        for table, rows, names in (
            ("file_op", self.file_rows, _FILE_COLUMNS.split()),
            ("sync_op", self.sync_rows, _SYNC_COLUMNS.split()),
        ):
            if not rows:
                continue
            columns = _columns(names, rows)
            columns["call"] = columns["call"].to_numpy()
            starts = columns["ts"].to_numpy()
            ends = starts + columns["dur"].fill_null(0).to_numpy()
            self.job.span(int(starts.min()), int(ends.max()))
            columns["node"] = self.job.node
            self.job.output.add(table, columns, len(rows))
            rows.clear()

    def finish(self) -> None:
        """Calls that never returned, threads, processes, files, and what was not imported."""
        for thread in self.threads.values():
            if thread.pending is not None:
                self._unfinished(thread)
        self._flush()
        job, node = self.job, self.job.node
        living = [*self.done_threads, *self.threads.values()]
        for thread in living:
            thread.process.end = max(thread.process.end, thread.last)
        for thread in living:
            job.span(thread.start, thread.last)
        job.output.add(
            "thread",
            {
                "node": node,
                "thread": [t.id for t in living],
                "pid": [t.process.pid for t in living],
                "tid": [t.tid for t in living],
                "process": [t.process.id for t in living],
                "name": [t.process.name for t in living],
                "start_ts": [t.start for t in living],
                "end_ts": [t.last for t in living],
            },
            len(living),
        )
        images = self.processes
        job.output.add(
            "process",
            {
                "node": node,
                "process": [p.id for p in images],
                "pid": [p.pid for p in images],
                "name": [p.name or (f"pid {p.pid}" if p.pid else node) for p in images],
                "start_ts": [p.start for p in images],
                "end_ts": [max(p.end, p.start) for p in images],
                "parent": [p.parent for p in images],
                "exe": [p.exe for p in images],
                "cmd": [p.cmd for p in images],
                "cwd": [p.cwd for p in images],
                "ended": [p.ended for p in images],
                "status": [p.status for p in images],
            },
            len(images),
        )
        job.output.add(
            "file",
            {"node": node, "file": list(self.files), "path": list(self.files.values())},
            len(self.files),
        )
        if self.rings:
            job.output.add(
                "unseen",
                {
                    "node": node,
                    "kind": ["io_uring_enter"],
                    "amount": [self.rings],
                    "detail": [
                        "strace shows that io_uring was entered, not what was read or written through it."
                    ],
                },
                1,
            )
        job.facts["calls_without_rows"] = sum(self.others.values())
        job.facts["signals"] = self.signals
        job.facts["unfinished"] = self.unfinished
        if self.others:
            most = ", ".join(f"{name} {count:,}" for name, count in self.others.most_common(3))
            job.note(f"{sum(self.others.values()):,} calls are no I/O and have no rows ({most} …)")
        if self.unfinished:
            job.note(f"{self.unfinished:,} calls never return in the trace: their dur is null")
        if self.backwards:
            job.facts["backwards"] = self.backwards
            job.note(f"times go backwards {self.backwards:,} times; kept as they are")

    # -- calls. Each gets: thread, ts, dur, name, arguments, result, errno, what follows the result.

    def transfer(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """read, write and their forms."""
        call, positional, vector = _TRANSFERS[name]
        fd, entry = self._open(thread, args)
        length: int | None = None
        pos: int | None = None
        if vector:
            length = sum(map(int, _IOV.findall(args)))
            if positional and dur is not None:
                # preadv2 and pwritev2 have their flags behind the position
                tail = args.rsplit("], ", 1)[-1].split(", ")
                pos = int(tail[1]) if len(tail) > 1 else None
        elif positional:
            parts = args.rsplit(", ", 2)
            if len(parts) == 3 and parts[1].isdigit():
                length, pos = int(parts[1]), int(parts[2])
            elif dur is not None:
                raise ValueError("no length and position")
        else:
            last = args[args.rfind(", ") + 2 :]
            if last.isdigit():
                length = int(last)
            elif dur is not None:
                raise ValueError("no length")
        if entry is not None and entry.kind is not None:
            self.sync_rows.append(
                (ts, dur, thread.id, self.code[call], entry.kind, entry.file, None, fd, length, value, error)
            )
            return
        file = None
        if entry is not None:
            file = entry.file
            if not positional:
                if entry.append and call.startswith("write"):
                    # at the end, wherever that is
                    entry.pos = None
                pos = entry.pos
                if pos is not None and value and value > 0:
                    entry.pos = pos + value
        self.file_rows.append(
            (ts, dur, thread.id, self.code[call], file, None, fd, pos, length, value, error, None)
        )

    def open(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """open, openat, openat2, creat."""
        if name in ("open", "creat"):
            match = _must(_PATHS.match(args))
            directory = "" if match[1].startswith("/") else thread.process.cwd or ""
            file, _ = self._path(directory, match[1])
            words = args[match.end() + 2 :]
        else:
            file, _, words = self._at(thread, args)
        if name == "openat2":
            found = _HOW.search(words)
            words = found[1] if found else ""
        flags = (
            os.O_CREAT | os.O_WRONLY | os.O_TRUNC if name == "creat" else self._flags(words.partition(",")[0])
        )
        if value is not None and value >= 0:
            entry = Open(_after(rest), file, None, 0, bool(flags & _APPEND))
            if entry.name is not None:
                entry.kind = _kind(entry.name)
            elif self.files[file].startswith(("/dev/tty", "/dev/pts/")):
                entry.kind = "terminal"
            self._install(thread.process, value, entry, bool(flags & _CLOEXEC))
        call = "creat" if name == "creat" else "open"
        fd = value if value is not None and value >= 0 else None
        self._file(thread, ts, dur, call, None, file=file, result=value, error=error, fd=fd, flags=flags)

    def _flags(self, words: str) -> int:
        value = self.flag_values.get(words)
        if value is None:
            value = 0
            for word in words.split("|"):
                value |= (
                    getattr(os, word, 0)
                    if word.startswith("O_")
                    else int(word, 0)
                    if word[:1].isdigit()
                    else 0
                )
            self.flag_values[words] = value
        return value

    @staticmethod
    def _install(process: Process, fd: int, entry: Open, cloexec: bool) -> None:
        process.fds[fd] = entry
        if cloexec:
            process.cloexec.add(fd)
        else:
            process.cloexec.discard(fd)

    def close(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        fd, entry = self._open(thread, args)
        if value == 0:
            thread.process.fds.pop(fd, None)
        self._file(thread, ts, dur, "close", entry, result=value, error=error, fd=fd)

    def close_range(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        numbers = args.split(", ")
        low, high = int(numbers[0], 0), int(numbers[-2] if len(numbers) > 2 else "0", 0)
        if value == 0:
            for fd in [fd for fd in thread.process.fds if low <= fd <= high]:
                del thread.process.fds[fd]
        self._file(thread, ts, dur, "close_range", None, result=value, error=error)

    def dup(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        fd, entry = self._open(thread, args)
        if value is not None and value >= 0 and entry is not None:
            self._install(thread.process, value, entry, "CLOEXEC" in args)
        elif value is not None and value >= 0:
            thread.process.fds.pop(value, None)
        self._file(thread, ts, dur, "dup", entry, result=value, error=error, fd=fd)

    def fcntl(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        if "F_DUPFD" in args:
            self.dup(thread, ts, dur, name, args, value, error, rest)
            return
        fd, _, end = _descriptor(args)
        command = args[end:].lstrip(", ").partition(",")[0]
        if command in ("F_GETFD", "F_SETFD", "F_GETFL"):
            if command == "F_SETFD" and "FD_CLOEXEC" in args:
                thread.process.cloexec.add(fd)
            self.others["fcntl"] += 1
            return
        fd, entry = self._open(thread, args)
        if command == "F_SETLKW" or command == "F_OFD_SETLKW":
            self._wait(
                thread,
                ts,
                dur,
                "flock",
                "file_lock",
                result=value,
                error=error,
                fd=fd,
                object=entry.file if entry else None,
            )
            return
        import fcntl as commands

        self._file(
            thread,
            ts,
            dur,
            "fcntl",
            entry,
            result=value,
            error=error,
            fd=fd,
            flags=getattr(commands, command, None),
        )

    def lseek(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        fd, entry = self._open(thread, args)
        if entry is not None and value is not None and value >= 0:
            entry.pos = value
        whence = args.rpartition(", ")[2]
        self._file(
            thread, ts, dur, "lseek", entry, result=value, error=error, fd=fd, flags=_WHENCE.get(whence)
        )

    def by_path(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Calls whose first argument is a path."""
        match = _must(_PATHS.match(args))
        directory = "" if match[1].startswith("/") else thread.process.cwd or ""
        file, whole = self._path(directory, match[1])
        call = _BY_PATH[name]
        second = None
        if call in ("rename", "link", "symlink"):
            both = _PATHS.findall(args)
            if len(both) > 1:
                other, _ = self._path("" if both[1].startswith("/") else thread.process.cwd or "", both[1])
                # of a symbolic link the link is the file, its target a text
                file, second = (other, None) if call == "symlink" else (file, other)
        if call == "chdir" and value == 0:
            thread.process.cwd = whole
        length = None
        if call == "truncate":
            length = int(args.rpartition(", ")[2])
        self._file(
            thread, ts, dur, call, None, file=file, file2=second, length=length, result=value, error=error
        )

    def by_at(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Calls whose first arguments are a directory and a path."""
        call = _BY_AT[name]
        if name in ("renameat", "renameat2", "linkat"):
            match = _must(_AT_TWO.match(args))
            first, _ = self._path(
                "" if match[3].startswith("/") else self._directory(thread, match[1], match[2]), match[3]
            )
            second, _ = self._path(
                "" if match[6].startswith("/") else self._directory(thread, match[4], match[5]), match[6]
            )
            self._file(thread, ts, dur, call, None, file=first, file2=second, result=value, error=error)
            return
        if name == "symlinkat":
            target = _must(_PATHS.match(args))
            args = args[target.end() + 2 :]
        if name in ("statx", "utimensat", "newfstatat") and ", NULL" in args and not _AT.match(args):
            # a null path: the descriptor itself, or a fault on purpose
            number, _, _ = args.partition(",")
            fd = _descriptor(args)[0] if number[:1].isdigit() else None
            entry = self._open(thread, args)[1] if fd is not None else None
            self._file(thread, ts, dur, call, entry, result=value, error=error, fd=fd)
            return
        file, path, words = self._at(thread, args)
        fd = None
        if not path:
            fd = _descriptor(args)[0] if args[:1].isdigit() else None
            call = "fstat" if call == "stat" else call
        if call == "unlink" and "AT_REMOVEDIR" in words:
            call = "rmdir"
        self._file(thread, ts, dur, call, None, file=file, result=value, error=error, fd=fd)

    def by_fd(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Calls whose first argument is a descriptor."""
        end = _descriptor(args)[2]
        fd, entry = self._open(thread, args)
        call = _BY_FD[name]
        pos = length = None
        numbers = args[end:].lstrip(", ").split(", ")
        if name in ("fallocate", "sync_file_range", "fadvise64") and dur is not None:
            at = 1 if name == "fallocate" else 0
            pos, length = int(numbers[at]), int(numbers[at + 1])
        elif name == "ftruncate" and dur is not None:
            length = int(numbers[0])
        elif name == "readahead" and dur is not None:
            pos, length = int(numbers[0]), int(numbers[1])
        if call == "chdir" and value == 0 and entry is not None and entry.kind is None and entry.file:
            thread.process.cwd = self.files.get(entry.file)
        self._file(thread, ts, dur, call, entry, result=value, error=error, fd=fd, pos=pos, length=length)

    def mmap(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Mappings of files; those of memory are no I/O."""
        parts = args.split(", ", 4)
        if len(parts) < 5 or not parts[4][:1].isdigit():
            self.others[name] += 1
            return
        end = _descriptor(parts[4])[2]
        fd, entry = self._open(thread, parts[4])
        flags = sum(_MMAP_FLAGS.get(word, 0) for word in f"{parts[2]}|{parts[3]}".split("|"))
        pos = int(parts[4][end:].lstrip(", "), 0)
        self._file(
            thread,
            ts,
            dur,
            "mmap",
            entry,
            result=value,
            error=error,
            fd=fd,
            pos=pos,
            length=int(parts[1]),
            flags=flags,
        )

    def copy(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """sendfile (destination first), copy_file_range, splice, tee (source first)."""
        found = [
            (int(match[1]), match[2]) for match in re.finditer(r"(?:^|, )(\d+)(?:<([^>]*)>)?(?=, )", args)
        ]
        ends = [self._open(thread, f"{fd}<{label}>" if label else str(fd))[1] for fd, label in found]
        first, second = (ends[0] if ends else None), (ends[1] if len(ends) > 1 else None)
        if name in ("sendfile", "sendfile64"):
            source, target = second, first
            fd = found[1][0] if len(found) > 1 else None
        else:
            source, target = first, second
            fd = found[0][0] if found else None
        length = next((int(word) for word in reversed(args.split(", ")) if word.isdigit()), None)
        pos = source.pos if source is not None and "NULL" in args else None
        if source is not None and source.pos is not None and "NULL" in args and value and value > 0:
            source.pos += value
        file2 = target.file if target is not None and target.kind is None else None
        self._file(
            thread,
            ts,
            dur,
            _COPIES[name],
            source,
            file2=file2,
            result=value,
            error=error,
            fd=fd,
            pos=pos,
            length=length,
        )

    def sync(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        self._file(thread, ts, dur, "sync", None, result=value, error=error)

    def descriptors(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Calls that make descriptors of what isn't a file; they have no rows."""
        kind = _MAKERS[name]
        self.others[name] += 1
        if value is None or value < 0:
            return
        cloexec = "CLOEXEC" in args
        if name in ("pipe", "pipe2", "socketpair"):
            pairs = _FDS.findall(
                args[args.rfind("[", 0, args.rfind("]") if "<" not in args else args.find("<")) :]
            )[:2]
            self.serial += 1
            shared = hash63(f"{kind} {self.serial} of {self.job.node}".encode())
            for number, label in pairs:
                entry = Open(label or None, hash63(label.encode()) if label else shared, kind, None)
                self._install(thread.process, int(number), entry, cloexec)
            return
        self.serial += 1
        label = _after(rest)
        object = hash63((label or f"{kind} {self.serial} of {self.job.node}").encode())
        self._install(thread.process, value, Open(label, object, kind, None), cloexec)

    def wait_on(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        """Calls that wait."""
        call, kind = _WAITS[name]
        fd: int | None = None
        object: int | None = None
        peer: int | None = None
        length: int | None = None
        if call == "futex":
            if "FUTEX_WAIT" not in args and "FUTEX_LOCK_PI" not in args:
                self.others[name] += 1
                return
            address = args.partition(",")[0]
            object = int(address, 16) if address.startswith("0x") else None
        elif call == "wait":
            peer = value if value and value > 0 else None
        elif kind in ("socket", "file_lock") or call == "epoll_wait":
            fd, entry = self._open(thread, args)
            object = entry.file if entry else None
        if name in ("accept", "accept4") and value is not None and value >= 0:
            label = _after(rest)
            self.serial += 1
            made = hash63((label or f"socket {self.serial} of {self.job.node}").encode())
            self._install(thread.process, value, Open(label, made, "socket", None), "CLOEXEC" in args)
        if name in ("sendto", "recvfrom") and (
            match := re.search(r'(?:"(?:\.\.\.)?|0x[0-9a-f]+), (\d+), ', args)
        ):
            length = int(match[1])
        if call == "sleep" and (match := re.search(r"tv_sec=(\d+), tv_nsec=(\d+)", args)):
            length = int(match[1]) * 10**9 + int(match[2])
        self._wait(
            thread,
            ts,
            dur,
            call,
            kind,
            result=value,
            error=error,
            fd=fd,
            object=object,
            peer=peer,
            length=length,
        )

    def ring(
        self,
        thread: Thread,
        ts: int,
        dur: int | None,
        name: str,
        args: str,
        value: int | None,
        error: int,
        rest: str,
    ) -> None:
        self.rings += 1
        self.others[name] += 1


def _columns(names: list[str], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows as columns; a number that no column holds (garbage in the trace) is null."""
    columns: dict[str, Any] = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if name == "kind":
            columns[name] = list(values)
            continue
        try:
            columns[name] = pa.array(values, pa.int64())
        except OverflowError:
            columns[name] = pa.array(
                [None if v is not None and abs(v) >> 63 else v for v in values], pa.int64()
            )
    return columns


def _nanoseconds(text: str) -> int:
    """Seconds with a fraction as ns, exactly."""
    whole, _, fraction = text.partition(".")
    return int(whole + fraction) * _TENS[len(fraction)]


_TENS = [10 ** (9 - digits) if digits <= 9 else 0 for digits in range(30)]


def _time_of_day(stamp: str) -> int:
    return (int(stamp[:2]) * 3600 + int(stamp[3:5]) * 60) * 10**9 + _nanoseconds(stamp[6:])


def _failure(result: str, rest: str) -> tuple[int | None, int]:
    """Result and errno of what doesn't begin like success."""
    word = rest.strip().partition(" ")[0]
    if word in _ERRNO:
        return -1, _ERRNO[word]
    if result == "?":
        return None, 0
    return int(result, 0), 0


def _descriptor(args: str) -> tuple[int, str | None, int]:
    """The descriptor that begins the arguments, its name if strace prints it, and where it ends."""
    match = _FD.match(args)
    if match is None:
        raise ValueError("no descriptor")
    return int(match[1]), match[2], match.end()


def _after(rest: str) -> str | None:
    """With -y, the name of the descriptor a call returned."""
    match = _FD.match("0" + rest) if rest.startswith("<") else None
    return match[2] if match else None


def _kind(name: str) -> str | None:
    """What one waits for in a descriptor of this name; None for a file."""
    if name.startswith("/"):
        return "terminal" if name.startswith(("/dev/pts/", "/dev/tty")) else None
    if name.startswith("pipe:"):
        return "pipe"
    if name.startswith("anon_inode:"):
        return "event"
    return "socket"


def _must(match: "re.Match[str] | None") -> "re.Match[str]":
    if match is None:
        raise ValueError("arguments are not as expected")
    return match


def _unescape(text: str) -> str:
    """A path from C's escapes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escaped, text.encode("utf-8")).decode("utf-8", "replace")


def _escaped(match: "re.Match[bytes]") -> bytes:
    code = match[1]
    if code.isdigit():
        return bytes([int(code, 8) & 0xFF])
    return bytes([int(code[1:], 16)]) if code[:1] == b"x" and len(code) > 1 else _CONTROLS.get(code, code)


_CLONES = ("clone", "clone3", "fork", "vfork")
# name -> call, whether it takes a position, whether it takes a vector
_TRANSFERS = {
    "read": ("read", False, False),
    "write": ("write", False, False),
    "readv": ("readv", False, True),
    "writev": ("writev", False, True),
    **dict.fromkeys(("pread64", "pread"), ("pread", True, False)),
    **dict.fromkeys(("pwrite64", "pwrite"), ("pwrite", True, False)),
    **dict.fromkeys(("preadv", "preadv2"), ("preadv", True, True)),
    **dict.fromkeys(("pwritev", "pwritev2"), ("pwritev", True, True)),
}
_BY_PATH = {
    **dict.fromkeys(("stat", "stat64", "lstat", "lstat64"), "stat"),
    "access": "access",
    **dict.fromkeys(("statfs", "statfs64"), "statfs"),
    **dict.fromkeys(("truncate", "truncate64"), "truncate"),
    **{name: name for name in ("rename", "unlink", "link", "symlink", "readlink", "mkdir", "rmdir", "chmod")},
    **dict.fromkeys(("chown", "lchown"), "chown"),
    **dict.fromkeys(("utime", "utimes"), "utimes"),
    **dict.fromkeys(("chdir", "chroot"), "chdir"),
    "mknod": "mknod",
    **dict.fromkeys(
        [f"{link}{verb}xattr" for link in ("", "l") for verb in ("get", "set", "list", "remove")], "xattr"
    ),
}
_BY_AT = {
    **dict.fromkeys(("newfstatat", "fstatat64", "statx"), "stat"),
    **dict.fromkeys(("faccessat", "faccessat2"), "access"),
    "unlinkat": "unlink",
    **dict.fromkeys(("renameat", "renameat2"), "rename"),
    "linkat": "link",
    "symlinkat": "symlink",
    "readlinkat": "readlink",
    "mkdirat": "mkdir",
    "mknodat": "mknod",
    **dict.fromkeys(("fchmodat", "fchmodat2"), "chmod"),
    "fchownat": "chown",
    **dict.fromkeys(("utimensat", "futimesat"), "utimes"),
}
_BY_FD = {
    **dict.fromkeys(("fstat", "fstat64"), "fstat"),
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "sync_file_range": "sync_file_range",
    "syncfs": "sync",
    **dict.fromkeys(("ftruncate", "ftruncate64"), "truncate"),
    "fallocate": "fallocate",
    **dict.fromkeys(("fadvise64", "readahead"), "fadvise"),
    "fchmod": "chmod",
    "fchown": "chown",
    **dict.fromkeys(("getdents", "getdents64"), "readdir"),
    "ioctl": "ioctl",
    "fchdir": "chdir",
    **dict.fromkeys(("fstatfs", "fstatfs64"), "statfs"),
    **dict.fromkeys(("fgetxattr", "fsetxattr", "flistxattr", "fremovexattr"), "xattr"),
}
_COPIES = {
    **dict.fromkeys(("sendfile", "sendfile64"), "sendfile"),
    "copy_file_range": "copy_file_range",
    **dict.fromkeys(("splice", "tee"), "splice"),
}
_MAKERS = {
    **dict.fromkeys(("pipe", "pipe2"), "pipe"),
    **dict.fromkeys(("socket", "socketpair"), "socket"),
    **dict.fromkeys(
        ("eventfd", "eventfd2", "epoll_create", "epoll_create1", "timerfd_create", "signalfd", "signalfd4",
         "inotify_init", "inotify_init1", "pidfd_open", "userfaultfd", "perf_event_open", "io_uring_setup"),
        "event",
    ),
}  # fmt: skip
_WAITS = {
    **dict.fromkeys(("accept", "accept4"), ("accept", "socket")),
    "connect": ("connect", "socket"),
    **dict.fromkeys(("sendto", "sendmsg", "sendmmsg"), ("send", "socket")),
    **dict.fromkeys(("recvfrom", "recvmsg", "recvmmsg"), ("recv", "socket")),
    **dict.fromkeys(("poll", "ppoll"), ("poll", "poll")),
    **dict.fromkeys(("select", "pselect6", "_newselect"), ("select", "poll")),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), ("epoll_wait", "poll")),
    **dict.fromkeys(("futex", "futex_time64"), ("futex", "lock")),
    **dict.fromkeys(("semop", "semtimedop"), ("semop", "semaphore")),
    **dict.fromkeys(("wait4", "waitid", "waitpid"), ("wait", "process")),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), ("sleep", "sleep")),
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), ("pause", "signal")),
    "flock": ("flock", "file_lock"),
    **dict.fromkeys(("msgrcv", "msgsnd", "mq_timedreceive", "mq_timedsend"), ("message", "queue")),
}
_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_TRANSFERS, Reader.transfer),
    **dict.fromkeys(("open", "openat", "openat2", "creat"), Reader.open),
    "close": Reader.close,
    "close_range": Reader.close_range,
    **dict.fromkeys(("dup", "dup2", "dup3"), Reader.dup),
    **dict.fromkeys(("fcntl", "fcntl64"), Reader.fcntl),
    **dict.fromkeys(("lseek", "_llseek"), Reader.lseek),
    **dict.fromkeys(_BY_PATH, Reader.by_path),
    **dict.fromkeys(_BY_AT, Reader.by_at),
    **dict.fromkeys(_BY_FD, Reader.by_fd),
    **dict.fromkeys(("mmap", "mmap2"), Reader.mmap),
    **dict.fromkeys(_COPIES, Reader.copy),
    "sync": Reader.sync,
    **dict.fromkeys(_MAKERS, Reader.descriptors),
    **dict.fromkeys(_WAITS, Reader.wait_on),
    **dict.fromkeys(_CLONES, Reader.clone),
    "execve": Reader.exec,
    "execveat": Reader.exec,
    "io_uring_enter": Reader.ring,
}
