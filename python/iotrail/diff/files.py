"""Which file of one trail is which of another, though the runs used other directories and temporary names."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

# What differs from run to run in names of temporary files: numbers, hashes (git parts their first two digits from the
# rest), random letters after a dot or dash.
_RANDOM = re.compile(r"(?<=/)[0-9a-f]{2}/[0-9a-f]{8,}|[0-9a-f]{8,}|\d+|(?<=[.\-_])[A-Za-z0-9]{6}(?=$|[./])")
# Places that belong to the machine, not to the program's data: they don't count for the common directory.
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib", "/bin/", "/sbin/", "/run/", "/var/lib/")


@dataclass(frozen=True)
class FileRow:
    """A file, or the files whose names differ in numbers and random parts only, in every run."""

    name: str
    # Operations and bytes of each run, A's first; 0 where it has no such file.
    ops: list[int]
    bytes: list[int]
    # How many of the runs are A's.
    of_a: int

    @property
    def mean_a(self) -> float:
        """Operations of A's runs."""
        return sum(self.ops[: self.of_a]) / self.of_a

    @property
    def mean_b(self) -> float:
        """Operations of B's runs."""
        return sum(self.ops[self.of_a :]) / (len(self.ops) - self.of_a)

    @property
    def mean_bytes(self) -> tuple[float, float]:
        """Bytes of A's runs and of B's."""
        return sum(self.bytes[: self.of_a]) / self.of_a, sum(self.bytes[self.of_a :]) / (
            len(self.bytes) - self.of_a
        )


@dataclass
class Files:
    """The files of both sides, matched."""

    # What is taken for the same directory; empty if files have the same paths.
    root_a: str
    root_b: str
    rows: list[FileRow] = field(default_factory=list)

    @property
    def both(self) -> list[FileRow]:
        """Files that a run of A and a run of B have."""
        return [r for r in self.rows if any(r.ops[: r.of_a]) and any(r.ops[r.of_a :])]

    @property
    def only_a(self) -> list[FileRow]:
        """Files of every run of A and of none of B."""
        return [r for r in self.rows if all(r.ops[: r.of_a]) and not any(r.ops[r.of_a :])]

    @property
    def only_b(self) -> list[FileRow]:
        """Files of every run of B and of none of A."""
        return [r for r in self.rows if all(r.ops[r.of_a :]) and not any(r.ops[: r.of_a])]

    @property
    def changed(self) -> list[FileRow]:
        """Files of both with other numbers of operations or bytes."""
        return [r for r in self.both if len(set(r.ops)) > 1 or len(set(r.bytes)) > 1]


# Of a file: operations and bytes.
Used = Mapping[str, tuple[int, int]]


def match_files(a: Sequence[Used], b: Sequence[Used], renamed: Iterable[tuple[str, str]] = ()) -> Files:
    """Match the files of runs by path (`renamed` directories of A by their names in B), then relative to the longest
    directory that the rest of a run's data files share, then by the form of temporary names: those are counted together.
    """
    renamed = [(first.rstrip("/"), second.rstrip("/")) for first, second in renamed]

    def moved(path: str) -> str:
        for first, second in renamed:
            if path == first or path.startswith(first + "/"):
                return second + path[len(first) :]
        return path

    # what has no path (a pipe, a socket) has a number of the system for a name
    runs = [{path: used for path, used in run.items() if path.startswith("/")} for run in (*a, *b)]
    names = [
        {path: moved(path) if number < len(a) else path for path in run} for number, run in enumerate(runs)
    ]
    same = set.intersection(*(set(each.values()) for each in names))
    roots = [common_directory(path for path, name in each.items() if name not in same) for each in names]
    if len(set(roots)) > 1:
        below = [
            {
                path: name if name in same or not path.startswith(root) else path[len(root) :]
                for path, name in each.items()
            }
            for each, root in zip(names, roots, strict=True)
        ]
        if set.intersection(
            *(
                {_form(each[path]) for path in each if names[n][path] not in same}
                for n, each in enumerate(below)
            )
        ):
            names = below
            same = set.intersection(*(set(each.values()) for each in names))
        else:
            roots = [""]
    if len(set(roots)) == 1:
        roots = [""] * len(runs)
    rows: dict[str, tuple[list[int], list[int]]] = {}
    for number, (run, named) in enumerate(zip(runs, names, strict=True)):
        for path, (ops, bytes) in run.items():
            name = named[path] if named[path] in same else _form(named[path])
            row = rows.setdefault(name, ([0] * len(runs), [0] * len(runs)))
            row[0][number] += ops
            row[1][number] += bytes
    return Files(
        roots[0],
        roots[len(a)],
        [FileRow(name, ops, bytes, len(a)) for name, (ops, bytes) in sorted(rows.items())],
    )


def _form(name: str) -> str:
    """A name without what differs from run to run."""
    return _RANDOM.sub("#", name)


def common_directory(paths: Iterable[str]) -> str:
    """The longest directory that all data files are in, with its slash; empty if there is none but the root."""
    own = [p for p in paths if p.startswith("/") and not p.startswith(_SYSTEM)]
    if not own:
        return ""
    folder = os.path.commonpath([os.path.dirname(path) for path in own])
    return "" if folder == "/" else folder + "/"
