"""A trail's snapshot: which files hold which tables, read from a document that anybody may have written.

Constraints: nothing in the document is trusted, for its names and types become parts of SQL and its paths are opened. What
it may say is what `crates/trail/src/snapshot.rs` accepts.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from iotrail import schema as trail_schema
from iotrail.errors import DamagedTrailError, TrailError
from iotrail.modules import Column
from iotrail.schema import CALL_TABLE, Table

T = TypeVar("T")

# Of some seven million files.
MOST_BYTES = 1 << 30
UNREGULAR = "expected a regular file, found a folder, pipe or device"
_SNAPSHOT_NAME = re.compile(r"\d{8,}\.json")
# Names of tables and columns, as declared types have them.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.parquet")
# Types of columns (`ColumnType::sql` in crates/format/src/schema.rs).
_TYPES = frozenset({"BIGINT", "VARCHAR", "DOUBLE"})


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of the snapshot."""

    path: Path
    rows: int
    bytes: int
    # Its path in the trail, as the snapshot says it.
    name: str
    # Earliest and latest `ts` or `start_ts`; None of tables without.
    min_ts: int | None
    max_ts: int | None


@dataclass(frozen=True)
class Snapshot:
    """A checked document."""

    number: int
    # Tables of this version, and those that the trail describes itself.
    tables: Mapping[str, Table]
    files: Mapping[str, list[DataFile]]
    nodes: tuple[str, ...]


class _Unfit(ValueError):
    """Something in the document is not as it has to be; the message says what."""


def newest(trail: Path) -> Snapshot:
    """The snapshot with the highest number that can be read.

    Raises:
        TrailError: no trail, or a newer one than this iotrail reads.
        DamagedTrailError: no snapshot can be read; what is wrong with the newest.
    """
    failure = ""
    for name in _names(trail):
        path = trail / "snapshots" / name
        try:
            stored = json.loads(_read(path))
            version = _of(stored, dict)["iotrail_trail"]
        except PermissionError as error:
            raise TrailError(f"{error.filename}: no permission to read") from error
        except RecursionError:
            failure = failure or f"{path}: nested too deeply"
            continue
        except (OSError, ValueError, KeyError) as error:
            failure = failure or f"{path}: {error}"
            continue
        known = trail_schema.load().trail_version
        if not isinstance(version, int) or version > known:
            raise TrailError(
                f"{trail}: expected a trail of version {known} or older, found {version}",
                "a newer iotrail wrote it: upgrade iotrail",
            )
        try:
            return _parse(trail, int(name.removesuffix(".json")), stored)
        except KeyError as error:
            failure = failure or f"{path}: {error} is missing"
        except _Unfit as error:
            failure = failure or f"{path}: {error}"
    raise DamagedTrailError(f"{failure} (no readable snapshot)", f"iotrail trail check {trail}")


def _read(path: Path) -> bytes:
    """The bytes of a regular file. A pipe under its name would make whoever opens it wait."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _Unfit(UNREGULAR)
        if found.st_size > MOST_BYTES:
            raise _Unfit(f"expected at most {MOST_BYTES} bytes, found {found.st_size}")
        return file.read()


def newest_number(trail: Path) -> int:
    """The number of the newest readable snapshot: it grows while a trail does."""
    return newest(trail).number


def _names(trail: Path) -> list[str]:
    """The documents, the newest first."""
    folder = trail / "snapshots"
    try:
        if not trail.exists():
            raise TrailError(
                f"{trail}: no such trail", "a trail is the directory that `iotrail record` wrote"
            )
        if not trail.is_dir() or not folder.is_dir():
            raise TrailError(f"{trail}: not a trail: expected a directory with snapshots/ in it")
        names = [entry for entry in os.listdir(folder) if _SNAPSHOT_NAME.fullmatch(entry)]
    except PermissionError as error:
        raise TrailError(f"{error.filename}: no permission to read") from error
    except OSError as error:
        raise TrailError(f"{trail}: can't be read: {error.strerror}") from error
    if not names:
        raise TrailError(
            f"{trail}: a trail without a snapshot: nothing was sealed yet, or the recorder was killed",
            f"iotrail trail check {trail}",
        )
    return sorted(names, key=lambda name: int(name.removesuffix(".json")), reverse=True)


def _parse(trail: Path, number: int, stored: Mapping[str, Any]) -> Snapshot:
    tables = dict(trail_schema.load().tables)
    files: dict[str, list[DataFile]] = {name: [] for name in tables}
    for name, described in _of(stored["tables"], dict).items():
        table = _table(name, _of(described, dict))
        if table is None:
            continue
        tables[name] = table
        files[name] = [_file(trail, name, _of(file, dict)) for file in _of(described["files"], list)]
    listed: set[str] = set()
    for file in (file for of_table in files.values() for file in of_table):
        if file.name in listed:
            raise _Unfit(f"{file.name} is listed twice")
        listed.add(file.name)
    tables[CALL_TABLE.name] = CALL_TABLE
    return Snapshot(number, tables, files, tuple(_of(node, str) for node in _of(stored["node"], list)))


def _table(name: str, described: Mapping[str, Any]) -> Table | None:
    """A table; None of one that only a later iotrail can read."""
    if not _NAME.fullmatch(name):
        raise _Unfit(f"table {name[:60]!r}: expected a name of lower-case letters, digits and _")
    known = trail_schema.load().tables.get(name)
    columns = list(_columns(name, _of(described["columns"], list)))
    order = tuple(_of(column, str) for column in _of(described["order"], list))
    if known is None:
        if any(column.type not in _TYPES for column in columns):
            return None
        if not {*order} <= {column.name for column in columns}:
            raise _Unfit(f"table {name}: its order names a column that it doesn't have")
        return Table(name, _of(described["meaning"], str), tuple(columns), order)
    types = {column.name: column.type for column in known.columns}
    for column in columns:
        if column.name in types and column.type != types[column.name]:
            raise _Unfit(
                f"column {name}.{column.name}: expected {types[column.name]}, found {column.type[:60]!r}"
            )
    added = tuple(column for column in columns if column.name not in types and column.type in _TYPES)
    return Table(name, known.meaning, known.columns + added, order)


def _columns(table: str, described: list[Any]) -> Iterator[Column]:
    seen: set[str] = set()
    for stored in described:
        name, kind, unit, meaning = (
            _of(_of(stored, dict)[key], str) for key in ("name", "type", "unit", "meaning")
        )
        if not _NAME.fullmatch(name):
            raise _Unfit(
                f"column {name[:60]!r} of table {table}: expected a name of lower-case letters, digits and _"
            )
        if name in seen:
            raise _Unfit(f"column {table}.{name} is listed twice")
        seen.add(name)
        yield Column(name, kind, unit, meaning)


def _file(trail: Path, table: str, stored: Mapping[str, Any]) -> DataFile:
    name = _of(stored["path"], str)
    parts = name.split("/")
    if len(parts) != 3 or parts[:2] != ["data", table] or not _FILE_NAME.fullmatch(parts[2]):
        raise _Unfit(f"file {name[:200]!r} of table {table}: expected a path data/{table}/NAME.parquet")
    rows, size = _number(stored["rows"], 0), _number(stored["bytes"], 0)
    times = [stored[key] if stored[key] is None else _number(stored[key]) for key in ("min_ts", "max_ts")]
    return DataFile(trail / name, rows, size, name, *times)


def _number(value: Any, least: int = -(2**63)) -> int:
    number = _of(value, int)
    if isinstance(value, bool) or not least <= number < 2**63:
        raise _Unfit(f"expected a whole number from {least} on, found {value!r}")
    return number


def _of(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise _Unfit(f"expected {_JSON[kind]}, found {str(value)[:60]!r}")
    return value


_JSON: Mapping[type, str] = {dict: "an object", list: "a list", str: "text", int: "a whole number"}
