"""A recorded run: the trail the recorder wrote beside the book the program kept itself.

The book (programs/witness.h) holds one note a call, in order, with what it returned and when. A
trail is right when its rows of a thread are the notes of that thread: the same calls in the same
order, with the same results, errors, positions, lengths and names, inside the same intervals.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb

ANY = -(2**63)
UNTOUCHED = 77
_NOTE = struct.Struct("<5q3i20s56s")
_HEADER = 128
assert _NOTE.size == 128

# Forms whose trail name is not their own; call.rs gives the meaning of each name.
_NAMES = {
    form: name
    for name, forms in {
        "open": "open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2 openat2",
        "creat": "creat64",
        "close_range": "closefrom",
        "dup": "dup2 dup3 fcntl:dup fcntl:dupc",
        "lseek": "lseek64",
        "stat": "stat64 lstat lstat64 fstatat fstatat64 statx",
        "fstat": "fstat64",
        "access": "faccessat euidaccess",
        "statfs": "statfs64 fstatfs statvfs fstatvfs",
        "truncate": "truncate64 ftruncate ftruncate64",
        "fallocate": "fallocate64 posix_fallocate posix_fallocate64",
        "fadvise": "posix_fadvise posix_fadvise64 readahead",
        "rename": "renameat renameat2",
        "unlink": "unlinkat remove",
        "link": "linkat",
        "symlink": "symlinkat",
        "readlink": "readlinkat",
        "mkdir": "mkdirat",
        "readdir": "readdir64",
        "chdir": "fchdir",
        "chmod": "fchmod fchmodat",
        "chown": "lchown fchown fchownat",
        "utimes": "utimensat futimens utime",
        "xattr": "setxattr getxattr fgetxattr listxattr",
        "mknod": "mknodat mkfifo",
        "mkstemp": "mkostemp mkstemps memfd_create tmpfile",
        "pread": "pread64",
        "preadv": "preadv64 preadv2 preadv64v2",
        "pwrite": "pwrite64",
        "pwritev": "pwritev64 pwritev2 pwritev64v2",
        "sendfile": "sendfile64",
        "mmap": "mmap64",
        "accept": "accept4",
        "send": "sendto sendmsg",
        "recv": "recvfrom recvmsg",
        "poll": "ppoll",
        "select": "pselect",
        "epoll_wait": "epoll_pwait epoll_pwait2",
        "pthread_mutex_lock": "mutex_lock mutex_timedlock",
        "pthread_rwlock_rdlock": "rwlock_rdlock",
        "pthread_rwlock_wrlock": "rwlock_wrlock",
        "pthread_cond_wait": "cond_wait cond_timedwait",
        "pthread_barrier_wait": "barrier_wait",
        "sem_wait": "sem_timedwait",
        "pthread_join": "join",
        "wait": "waitpid wait3 wait4 waitid system pclose",
        "sleep": "nanosleep clock_nanosleep usleep",
        "pause": "sigsuspend sigwait sigwaitinfo sigtimedwait",
        "flock": "lockf fcntl:lock",
    }.items()
    for form in forms.split()
}
# Forms that return an error number instead of setting errno.
_RETURNS_ERROR = frozenset(
    [
        "mutex_lock",
        "mutex_timedlock",
        "rwlock_rdlock",
        "rwlock_wrlock",
        "cond_wait",
        "cond_timedwait",
        "barrier_wait",
        "join",
        "sigwait",
        "clock_nanosleep",
        "posix_fallocate",
        "posix_fallocate64",
        "posix_fadvise",
        "posix_fadvise64",
    ]
)
# Calls whose buffering folds several into one row.
STDIO_ROWS = ("fread", "fwrite", "fflush", "fseek", "fclose")
FOLDED = frozenset(
    [
        "fread",
        "fwrite",
        "fputs",
        "fprintf",
        "fputc",
        "putc",
        "fflush",
        "fseek",
        "fseeko",
        "rewind",
        "fgets",
        "getline",
        "getc",
        "fgetc",
        "fscanf",
        "fclose",
        "readdir",
        "readdir64",
    ]
)


def new_book(path: Path, notes: int) -> None:
    """An empty book with room for that many notes; sparse."""
    path.touch()
    os.truncate(path, 128 * (1 + notes))
    path.chmod(0o666)


def until(condition, seconds: float = 30) -> None:
    """Wait for a condition of another process."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@dataclass(frozen=True)
class Note:
    """One call of the program, as the program saw it."""

    began: int
    ended: int
    result: int
    pos: int | None
    length: int | None
    pid: int
    tid: int
    error: int
    form: str
    path: str

    @property
    def call(self) -> str:
        """Name of the call in a trail."""
        form = self.form.removeprefix("+")
        if form == "unlinkat:dir":
            return "rmdir"
        return _NAMES.get(form) or _NAMES.get(form.split(":")[0]) or form.split(":")[0]

    @property
    def errno(self) -> int:
        """What the trail's errno must be: 0 for a call that succeeded."""
        if self.form.removeprefix("+").split(":")[0] in _RETURNS_ERROR:
            return max(self.result, 0)  # -1 is PTHREAD_BARRIER_SERIAL_THREAD
        return self.error if self.result == -1 else 0


def read_book(path: Path) -> list[Note]:
    """All complete notes of a book, in the order they were begun."""
    notes = []
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as book,
    ):
        (used,) = struct.unpack_from("<q", book, 0)
        for i in range(used):
            began, ended, result, pos, length, pid, tid, error, form, name = _NOTE.unpack_from(
                book, _HEADER + i * 128
            )
            if not ended:
                continue  # a kill between the call and its note
            notes.append(
                Note(
                    began,
                    ended,
                    result,
                    None if pos == ANY else pos,
                    None if length == ANY else length,
                    pid,
                    tid,
                    error,
                    form.rstrip(b"\0").decode(),
                    name.rstrip(b"\0").decode(),
                )
            )
    return notes


class Trail:
    """A trail's tables as DuckDB views, read as the format says: the files of the highest snapshot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        newest = max((path / "snapshots").glob("*.json"), key=lambda p: int(p.stem))
        self.snapshot = json.loads(newest.read_text())
        self.db = duckdb.connect()
        for name, table in self.snapshot["tables"].items():
            files = [str(path / file["path"]) for file in table["files"]]
            if files:
                self.db.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet({files!r})')
            else:
                columns = ", ".join(f'CAST(NULL AS {c["type"]}) AS "{c["name"]}"' for c in table["columns"])
                self.db.execute(f'CREATE VIEW "{name}" AS SELECT {columns} WHERE false')
        self.db.execute(
            """CREATE VIEW op AS
            SELECT o.*, f.path, t.pid, t.tid, t.process FROM (
                SELECT ts, dur, thread, call, file, fd, pos, length, result, errno, flags, calls, NULL AS kind
                FROM file_op
                UNION ALL
                SELECT ts, dur, thread, call, object, fd, NULL, length, result, errno, NULL, 1, kind FROM sync_op
            ) o LEFT JOIN thread t USING (thread) LEFT JOIN file f ON f.file = o.file"""
        )

    def query(self, sql: str, *parameters: object) -> list[tuple]:
        return self.db.execute(sql, list(parameters)).fetchall()

    def value(self, sql: str, *parameters: object) -> object:
        row = self.db.execute(sql, list(parameters)).fetchone()
        return row[0] if row else None

    def counts(self) -> Counter[str]:
        """Rows by call."""
        return Counter(dict(self.query("SELECT call, count(*) FROM op GROUP BY call")))

    def missing(self) -> int:
        """Calls the trail says it does not hold."""
        kinds = ["dropped", "interrupted", "no_memory"]
        sql = "SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM unseen WHERE list_contains(?, kind)"
        return self.value(sql, kinds)

    def unseen(self) -> dict[str, int]:
        """Amount by kind of what the recorder says it did not see."""
        return dict(self.query("SELECT kind, CAST(sum(amount) AS BIGINT) FROM unseen GROUP BY kind"))


@dataclass
class Recording:
    """One run: its trail, its book, what it printed and how it ended."""

    path: Path
    status: int
    stdout: str
    stderr: str
    book: Path

    @cached_property
    def trail(self) -> Trail:
        assert self.path.is_dir(), f"no trail was written; stderr was:\n{self.stderr}"
        return Trail(self.path)

    @cached_property
    def notes(self) -> list[Note]:
        return read_book(self.book)

    def assert_exact(
        self, *, unfinished: Mapping[str, int] | None = None, killed: bool = False, by_call: bool = False
    ) -> None:
        """The rows of every thread are its notes.

        `unfinished` counts the calls that must never have returned, by name. A `killed` program may
        have one row more a thread than notes: the kill came before the note. `by_call` holds the order
        only among calls of one name: a signal may arrive between a call's return and its note.
        """
        assert self.notes, "the program noted nothing"
        differences = self.differences(killed=killed, by_call=by_call)
        assert not differences, "\n".join(
            [f"{len(differences)} differences", *differences[:25], self.stderr[-500:]]
        )
        if not killed:
            hanging = dict(self.trail.query("SELECT call, count(*) FROM op WHERE dur IS NULL GROUP BY call"))
            assert hanging == dict(unfinished or {})

    def differences(self, *, killed: bool = False, by_call: bool = False) -> list[str]:
        """What the trail says otherwise than the book, a line each; shells that start programs keep none."""
        noted: dict[tuple[int, int, str], list[Note]] = {}
        for note in self.notes:
            if note.form.removeprefix("+") not in FOLDED:
                noted.setdefault((note.pid, note.tid, note.call if by_call else ""), []).append(note)
        found: dict[tuple[int, int, str], list[dict]] = {}
        cursor = self.trail.db.execute("""SELECT op.* FROM op JOIN process USING (process)
            WHERE dur IS NOT NULL AND coalesce(exe, '') NOT LIKE '/usr/bin/%' ORDER BY ts + dur""")
        columns = [c[0] for c in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(columns, values, strict=True))
            if row["call"] not in STDIO_ROWS and row["call"] != "readdir":
                found.setdefault((row["pid"], row["tid"], row["call"] if by_call else ""), []).append(row)
        out = []
        for key in sorted(noted.keys() | found.keys()):
            notes, rows = noted.get(key, []), found.get(key, [])
            if killed and len(rows) == len(notes) + 1:
                rows.pop()
            out += _compare(f"pid {key[0]} tid {key[1]}", notes, rows)
        return out if killed else out + self._folded_differences()

    def _folded_differences(self) -> list[str]:
        """Folded calls: the `calls` of a stream's rows add up to the calls the program made on it."""
        expected: Counter[tuple[str, str]] = Counter()
        for note in self.notes:
            form = note.form.removeprefix("+")
            if form in FOLDED:
                expected["readdir" if form.startswith("readdir") else "stdio", note.path] += 1
        found = Counter(
            {
                (group, path): n
                for group, path, n in self.trail.query(
                    """SELECT CASE WHEN call = 'readdir' THEN 'readdir' ELSE 'stdio' END,
                        parse_filename(coalesce(path, '')), CAST(sum(calls) AS BIGINT)
                    FROM op WHERE call = 'readdir' OR list_contains(?, call) GROUP BY ALL""",
                    list(STDIO_ROWS),
                )
            }
        )
        return [
            f"{group} calls on {path or '(unknown)'}: the program made {expected[group, path]}, "
            f"the trail says {found[group, path]}"
            for group, path in sorted(expected.keys() | found.keys())
            if expected[group, path] != found[group, path]
        ]


def _compare(who: str, notes: list[Note], rows: list[dict]) -> list[str]:
    """Differences between what one thread noted and its rows."""
    out = []
    made, got = Counter(n.call for n in notes), Counter(r["call"] for r in rows)
    if made != got:
        for call in sorted(made.keys() | got.keys()):
            if made[call] != got[call]:
                out.append(f"{who}: {call}: the program made {made[call]}, the trail has {got[call]}")
        first = next(
            (i for i, (n, r) in enumerate(zip(notes, rows, strict=False)) if n.call != r["call"]),
            None,
        )
        if first is not None:
            out.append(f"{who}: first differing row {first}: {notes[first]} -> {rows[first]}")
        return out
    for note, row in zip(notes, rows, strict=True):
        wrong = []
        if note.call != row["call"]:
            out.append(f"{who}: order: {note} -> {row}")
            break
        if row["result"] != note.result:
            wrong.append(f"result {note.result} -> {row['result']}")
        if row["errno"] != note.errno:
            wrong.append(f"errno {note.errno} -> {row['errno']}")
        if note.pos is not None and row["pos"] != note.pos:
            wrong.append(f"pos {note.pos} -> {row['pos']}")
        if note.length is not None and row["length"] != note.length:
            wrong.append(f"length {note.length} -> {row['length']}")
        if note.path and Path(row["path"] or "").name != note.path:
            wrong.append(f"path {note.path} -> {row['path']}")
        if row["dur"] > (note.ended - note.began) * 1.001 + 200:
            wrong.append(
                f"dur {row['dur']} outside the {note.ended - note.began} ns the program measured around it"
            )
        if wrong:
            out.append(f"{who}: {note.form} {note.path}: " + "; ".join(wrong))
    return out
