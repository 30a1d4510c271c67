"""The test programs' own books, held to an independent witness: strace.

What the recorder is judged by must itself be right. strace sees system calls; the programs note
libc calls; here they are compared where one is the other.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter

import pytest

from .recording import new_book, read_book

# System calls of a noted form, where that is not its own name (x86-64).
_SYSCALL = {
    "open": "openat open64 openat64 creat creat64 __open_2 __open64_2 __openat_2 __openat64_2 mkstemp mkostemp mkstemps opendir",
    "pread64": "pread",
    "pwrite64": "pwrite",
    "preadv": "preadv64",
    "preadv2": "preadv64v2",
    "pwritev": "pwritev64",
    "pwritev2": "pwritev64v2",
    "dup": "dup2 dup3",
    "select": "pselect",
    "lseek": "lseek64",
    "stat": "stat64 lstat lstat64 fstatat fstatat64 fstat fstat64 fopen",
    "truncate": "truncate64",
    "ftruncate": "ftruncate64",
    "fallocate": "fallocate64 posix_fallocate posix_fallocate64",
    "fadvise64": "posix_fadvise posix_fadvise64",
    "sendfile": "sendfile64",
    "splice": "splice_write",
    "rename": "renameat renameat2",
    "link": "linkat",
    "symlink": "symlinkat",
    "readlink": "readlinkat",
    "mkdir": "mkdirat",
    "mmap": "mmap64",
    "wait4": "waitpid wait wait3",
    "accept": "accept4",
}
_OF_FORM = {form: call for call, forms in _SYSCALL.items() for form in forms.split()}
# strace's names folded likewise; a value of None is left out of the comparison.
_OF_STRACE = {
    "openat": "open",
    "openat2": "open",
    "creat": "open",
    "dup2": "dup",
    "dup3": "dup",
    "renameat": "rename",
    "renameat2": "rename",
    "linkat": "link",
    "symlinkat": "symlink",
    "readlinkat": "readlink",
    "mkdirat": "mkdir",
    "accept4": "accept",
    "epoll_pwait": "epoll_wait",
    "epoll_pwait2": "epoll_wait",
    "ppoll": "poll",
    "pselect6": "select",
}
_COMPARED = [
    "open",
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "preadv2",
    "pwritev",
    "pwritev2",
    "dup",
    "lseek",
    "truncate",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "readahead",
    "sendfile",
    "copy_file_range",
    "splice",
    "rename",
    "link",
    "symlink",
    "readlink",
    "mkdir",
    "rmdir",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
    "madvise",
    "setxattr",
    "getxattr",
    "chmod",
    "fchmod",
    "wait4",
    "waitid",
    "connect",
    "accept",
    "poll",
    "select",
]


def _folded(name: str, table: dict[str, str]) -> str:
    return table.get(name, name)


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("calls.c", []),
        ("waits.c", ["channels"]),
        ("waits.c", ["processes"]),
        ("life.c", ["execs"]),
        ("life.c", ["forks"]),
        ("life.c", ["vforks"]),
        ("life.c", ["close-all"]),
        ("life.c", ["raw"]),
    ],
)
def test_the_book_agrees_with_strace(build, work, tmp_path, source, arguments):
    """For calls that are one system call, strace counts what the program noted, between first and last note."""
    book, log = tmp_path / "book", tmp_path / "strace"
    new_book(book, 200_000)
    subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-qq",
            "-e",
            "signal=none",
            "-o",
            log,
            build(source),
            work,
            *arguments,
        ],
        env={**os.environ, "WITNESS": str(book)},
        check=True,
        stdin=subprocess.DEVNULL,
    )
    noted = Counter(
        _folded(_folded(note.form.removeprefix("+").split(":")[0], _OF_FORM), _OF_STRACE)
        for note in read_book(book)
    )
    seen: Counter[str] = Counter()
    for line in log.read_text(errors="replace").splitlines():
        call = re.match(r"\d+ +(\w+)\((.*)", line)
        if call and not _is_not_the_programs(call[1], call[2]):
            seen[_folded(call[1], _OF_STRACE)] += 1
    compared = [call for call in _COMPARED if noted[call]]
    assert compared
    assert {c: noted[c] for c in compared} == {c: seen[c] for c in compared}


def _is_not_the_programs(call: str, arguments: str) -> bool:
    """The loader's calls, the book's own (open; libc uses openat) and rewinddir's lseek."""
    if call in {"openat", "read", "pread64", "access"}:
        return bool(re.search(r"/etc/ld|\.so|/proc/", arguments))
    return call == "open" or (call == "lseek" and "/listed>" in arguments)
