"""Which file of one trail is which of another, though the runs used other directories and temporary names."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# What differs from run to run in names of temporary files: numbers, random letters after a dot or dash.
_RANDOM = re.compile(r"[0-9a-f]{8,}|\d+|(?<=[.\-_])[A-Za-z0-9]{6}(?=$|[./])")
# Places that belong to the machine, not to the program's data: they don't count for the common directory.
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib", "/bin/", "/sbin/", "/run/", "/var/lib/")


@dataclass(frozen=True)
class File:
    """A file of one trail only."""

    name: str
    ops: int
    bytes: int


@dataclass(frozen=True)
class Pair:
    """A file of both."""

    # As shown: relative to the common directory.
    name: str
    a: str
    b: str
    ops_a: int
    ops_b: int
    bytes_a: int
    bytes_b: int


@dataclass
class Files:
    """Files of two trails, matched."""

    root_a: str
    root_b: str
    both: list[Pair] = field(default_factory=list)
    only_a: list[File] = field(default_factory=list)
    only_b: list[File] = field(default_factory=list)

    @property
    def changed(self) -> list[Pair]:
        """Files of both with other numbers of operations or bytes."""
        return [p for p in self.both if (p.ops_a, p.bytes_a) != (p.ops_b, p.bytes_b)]


def match_files(
    a: Mapping[str, Mapping[str, Any]],
    b: Mapping[str, Mapping[str, Any]],
    renamed: Iterable[tuple[str, str]] = (),
) -> Files:
    """Match by path, by `renamed` directories, then relative to each side's common directory, then by the form of
    temporary names, each file once."""
    renamed = [(first.rstrip("/"), second.rstrip("/")) for first, second in renamed]
    # what has no path (a pipe, a socket) has a number of the system for a name
    left, right = ({path: None for path in sorted(side) if path.startswith("/")} for side in (a, b))
    pairs: dict[str, str] = {}

    def match(key_a: Any, key_b: Any) -> None:
        waiting: dict[str, list[str]] = {}
        for path in sorted(right):
            waiting.setdefault(key_b(path), []).append(path)
        for path in sorted(left):
            if same := waiting.get(key_a(path)):
                pairs[path] = same.pop(0)
                del left[path], right[pairs[path]]

    def moved(path: str) -> str:
        for first, second in renamed:
            if path == first or path.startswith(first + "/"):
                return second + path[len(first) :]
        return path

    match(moved, lambda path: path)
    root_a, root_b = common_directory(left), common_directory(right)

    def below(root: str) -> Any:
        return lambda path: path[len(root) :] if root and path.startswith(root) else path

    before = len(pairs)
    match(below(root_a), below(root_b))
    match(lambda p: _RANDOM.sub("#", below(root_a)(p)), lambda p: _RANDOM.sub("#", below(root_b)(p)))
    if len(pairs) == before:
        root_a = root_b = ""
    files = Files(root_a, root_b)
    for path, other in sorted(pairs.items()):
        name = path if path == other else below(root_a)(path)
        files.both.append(
            Pair(name, path, other, a[path]["n"], b[other]["n"], a[path]["bytes"], b[other]["bytes"])
        )
    files.only_a = [File(path, a[path]["n"], a[path]["bytes"]) for path in left if a[path]["n"]]
    files.only_b = [File(path, b[path]["n"], b[path]["bytes"]) for path in right if b[path]["n"]]
    return files


def common_directory(paths: Iterable[str]) -> str:
    """The longest directory that all data files are in, with its slash; empty if there is none but the root."""
    own = [p for p in paths if p.startswith("/") and not p.startswith(_SYSTEM)]
    if not own:
        return ""
    folder = os.path.commonpath([os.path.dirname(path) for path in own])
    return "" if folder == "/" else folder + "/"
