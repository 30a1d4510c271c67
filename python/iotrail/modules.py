"""The SQL modules: `sql/{io,request,cluster}/*.sql` and `sql/finding/*.sql`, parsed from their header lines.

`sql/README.md` documents the header. A module is one SELECT; `iotrail.trail` makes a view of it. This
file neither imports DuckDB nor reads a trail, so that listing modules is quick.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from iotrail.errors import ModuleError

# In a wheel the modules lie inside the package (pyproject.toml, force-include), in a checkout beside it.
_PACKAGED = Path(__file__).parent / "_sql"
SQL_DIR = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[2] / "sql"

# Folder of modules -> prefix of their names.
FOLDERS = {"io": "", "request": "", "cluster": "", "causal": "", "sweep": "", "finding": "finding_"}

TYPES = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN")

_TAG = re.compile(r"@(?P<tag>\w+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_PARAM = re.compile(r"(\w+)\s+([A-Z]+)\s+('[^']*'|\S+?)(?:\s+([\w/%]+))?\s*:\s*(.+)", re.DOTALL)
_COLUMN = re.compile(r"(\w+)\s+([A-Z]+)(?:\s+([\w/%]+))?\s*:\s*(.+)", re.DOTALL)
_MEASURE = re.compile(r"(\w+)\s*=\s*(.+)", re.DOTALL)


@dataclass(frozen=True)
class Column:
    """A column of a table or module: its SQL type, its unit ('' if none), what it means and whether it may be null."""

    name: str
    type: str
    unit: str
    meaning: str
    nullable: bool = field(default=True, kw_only=True)

    @property
    def comment(self) -> str:
        """The text for COMMENT ON: the meaning, the unit in brackets."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


# What every module of `sql/finding/` returns: declared here once instead of in each of them.
FINDING_COLUMNS = (
    Column("finding", "VARCHAR", "", "Name of the finding."),
    Column("severity", "VARCHAR", "", "high, medium or low."),
    Column("title", "VARCHAR", "", "One sentence with the numbers."),
    Column("program", "VARCHAR", "", "Name of the program it is about; null all."),
    Column("process", "BIGINT", "", "Process it is about; null several."),
    Column("thread", "BIGINT", "", "Thread it is about; null several."),
    Column("file", "BIGINT", "", "File it is about; null several."),
    Column("ops", "BIGINT", "", "Calls concerned; null none."),
    Column("bytes", "BIGINT", "bytes", "Bytes concerned; null none."),
    Column("cost_ns", "BIGINT", "ns", "Time it accounts for; null unknown."),
    Column("start_ts", "BIGINT", "ns", "Start of the first call concerned."),
    Column("end_ts", "BIGINT", "ns", "End of the last call concerned."),
    Column("evidence", "VARCHAR", "", "The figures, in words."),
    Column("advice", "VARCHAR", "", "What to do about it."),
)


@dataclass(frozen=True)
class Param:
    """A parameter: a column of the one-row view `params`. `default` is an SQL literal."""

    name: str
    type: str
    default: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Module:
    """One file of `sql/`.

    `dimensions` may be grouped by, `measures` say how columns then aggregate. `grouped` is the column
    that names each row's grouping in a module whose rows come grouped already. `order` is how a person
    wants the rows.
    """

    name: str
    path: Path
    doc: str
    sql: str
    params: tuple[Param, ...] = ()
    requires: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    # Small, and read by many modules: computed once for a trail's queries.
    materialize: bool = False
    grouped: str = ""
    order: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return re.split(r"(?<=[.:;])\s", self.doc, maxsplit=1)[0].rstrip(":;")

    def column(self, name: str) -> Column | None:
        """The column of a name."""
        return next((column for column in self.columns if column.name == name), None)


def parse(path: Path, name: str) -> Module:
    """Parse one module's file."""
    text = path.read_text(encoding="utf-8")
    header: list[str] = []
    lines = text.splitlines()
    for line in lines:
        if not line.startswith("--"):
            break
        header.append(line[2:])
    doc: list[str] = []
    tags: list[str] = []
    for line in header:
        if line.lstrip().startswith("@"):
            tags.append(line.strip())
        elif tags and line.startswith("   "):  # deeper than a documentation line: continues the tag
            tags[-1] += " " + line.strip()
        elif line.strip() and tags:
            raise ModuleError(f"{path}: documentation stands before the tags, found {line.strip()!r} after")
        else:
            doc.append(line.strip())

    params: list[Param] = []
    columns: list[Column] = []
    requires: list[str] = []
    dimensions: list[str] = []
    measures: dict[str, str] = {}
    materialize = False
    grouped = order = ""
    for tag in tags:
        parts = _TAG.fullmatch(tag)
        kind, rest = (parts["tag"], (parts["rest"] or "").strip()) if parts else (tag, "")
        match kind:
            case "param":
                params.append(Param(*_fields(_PARAM, rest, path, "NAME TYPE DEFAULT [UNIT]: MEANING")))
            case "column":
                columns.append(Column(*_fields(_COLUMN, rest, path, "NAME TYPE [UNIT]: MEANING")))
            case "materialize" if not rest:
                materialize = True
            case "requires":
                requires += _names(rest)
            case "dimension":
                dimensions += _names(rest)
            case "measure":
                for measure in filter(None, (part.strip() for part in rest.split(";"))):
                    column, expression = _fields(_MEASURE, measure, path, "COLUMN = AGGREGATE")
                    measures[column] = expression
            case "grouped":
                grouped = rest
            case "order":
                order = rest
            case _:
                raise ModuleError(
                    f"{path}: expected @param, @materialize, @requires, @dimension, @measure, @grouped, @order "
                    f"or @column, found {tag!r}"
                )
    declared: list[Param | Column] = [*params, *columns]
    for typed in declared:
        if typed.type not in TYPES:
            raise ModuleError(
                f"{path}: type of {typed.name}: expected {', '.join(TYPES)}, found {typed.type}"
            )
    if name.startswith(FOLDERS["finding"]):
        if columns:
            raise ModuleError(f"{path}: the columns of a finding are fixed: expected no @column")
        columns += FINDING_COLUMNS
        # few rows each, and a plan of all at once takes DuckDB longer than one after the other
        materialize = True
    documentation = "\n".join(doc).strip()
    if not documentation or not columns:
        raise ModuleError(f"{path}: a module opens with its documentation and declares every @column")
    known = {column.name for column in columns}
    for used in dimensions:
        if used not in known:
            raise ModuleError(f"{path}: dimension {used} is not a column")
    return Module(
        name=name,
        path=path,
        doc=documentation,
        sql="\n".join(lines[len(header) :]).strip().rstrip(";"),
        params=tuple(params),
        requires=tuple(requires),
        dimensions=tuple(dimensions),
        measures=measures,
        columns=tuple(columns),
        materialize=materialize,
        grouped=grouped,
        order=order,
    )


def _fields(pattern: re.Pattern[str], text: str, path: Path, expected: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ModuleError(f"{path}: expected {expected}, found {text!r}")
    return tuple(group or "" for group in found.groups())


def _names(text: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", text) if name]


@cache
def load(directory: Path = SQL_DIR) -> Mapping[str, Module]:
    """All modules by name, sorted. Reads the files once a process."""
    modules: dict[str, Module] = {}
    for folder, prefix in FOLDERS.items():
        for path in sorted((directory / folder).glob("*.sql")):
            name = prefix + path.stem
            if name in modules:
                raise ModuleError(f"{path}: a module {name} exists already: {modules[name].path}")
            modules[name] = parse(path, name)
    if not modules:
        raise ModuleError(
            f"{directory}: no SQL modules", "the installation is incomplete: install iotrail again"
        )
    parameters(modules.values())
    return modules


def parameters(modules: Iterable[Module]) -> Mapping[str, Param]:
    """The parameters of all modules by name; one shared by several modules is declared alike in all of them."""
    found: dict[str, Param] = {}
    for module in modules:
        for param in module.params:
            first = found.setdefault(param.name, param)
            if (first.type, first.default) != (param.type, param.default):
                raise ModuleError(
                    f"{module.path}: @param {param.name} is {param.type} {param.default} here, "
                    f"{first.type} {first.default} in another module"
                )
    return found


def closure(names: Iterable[str], modules: Mapping[str, Module]) -> Iterator[Module]:
    """The modules of these names and all they require, each after what it requires. Other names are skipped."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> Iterator[Module]:
        if name in path:
            raise ModuleError(f"modules require each other: {' -> '.join((*path, name))}")
        if name in done or name not in modules:
            return
        for required in modules[name].requires:
            yield from visit(required, (*path, name))
        done.add(name)
        yield modules[name]

    for name in names:
        yield from visit(name, ())
