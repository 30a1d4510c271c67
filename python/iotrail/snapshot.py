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
_SNAPSHOT_NAME = re.compile(r"[0-9]{8,20}\.json")
# Names of tables and columns, as declared types have them.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.parquet")
# Types of columns (`ColumnType::sql` in crates/format/src/schema.rs).
_TYPES = frozenset({"BIGINT", "VARCHAR", "DOUBLE"})
# Largest numbers that a document may have: u64, u32 and i64 of crates/trail/src/snapshot.rs.
_U64, _U32, _I64 = 2**64 - 1, 2**32 - 1, 2**63 - 1


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
            # not the bytes: json would take other encodings, too
            stored = json.loads(_read(path).decode())
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
        if type(version) is not int or not 1 <= version <= known:
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
        names = [
            entry for entry in os.listdir(folder) if _SNAPSHOT_NAME.fullmatch(entry) and _is_numbered(entry)
        ]
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


def _is_numbered(name: str) -> bool:
    """Whether it is what a writer calls a snapshot: no number has two names."""
    number = int(name.removesuffix(".json"))
    return 0 < number <= _U64 and name == f"{number:08}.json"


def _parse(trail: Path, number: int, stored: Mapping[str, Any]) -> Snapshot:
    if _number(stored["snapshot"], 1, _U64) != number:
        raise _Unfit(f"it says that it is snapshot {stored['snapshot']}")
    if stored.get("parent") is not None and _number(stored["parent"], 0, _U64) >= number:
        raise _Unfit(f"snapshot {number} can't have parent {stored['parent']}")
    for key in ("created", "writer"):
        _of(stored[key], str)
    tables = dict(trail_schema.load().tables)
    files: dict[str, list[DataFile]] = {name: [] for name in tables}
    for name, described in _of(stored["tables"], dict).items():
        table = _table(name, _of(described, dict))
        if table is None:
            continue
        tables[name] = table
        files[name] = [_file(trail, name, _of(file, dict)) for file in _of(described["files"], list)]
    dead = [_dead(_of(file, dict)) for file in _of(stored.get("dead", []), list)]
    live = [file for of_table in files.values() for file in of_table]
    listed: set[str] = set()
    for path in (*(file.name for file in live), *dead):
        if path in listed:
            raise _Unfit(f"{path} is listed twice")
        listed.add(path)
    for what, total in (("rows", sum(f.rows for f in live)), ("bytes", sum(f.bytes for f in live))):
        if total > _I64:
            raise _Unfit(f"more {what} than can be counted")
    tables[CALL_TABLE.name] = CALL_TABLE
    return Snapshot(number, tables, files, tuple(_of(node, str) for node in _of(stored["node"], list)))


def _table(name: str, described: Mapping[str, Any]) -> Table | None:
    """A table; None of one that only a later iotrail can read."""
    if not _NAME.fullmatch(name):
        raise _Unfit(f"table {name[:60]!r}: expected a name of lower-case letters, digits and _")
    known = trail_schema.load().tables.get(name)
    meaning = _of(described["meaning"], str)
    columns = list(_columns(name, _of(described["columns"], list)))
    order = tuple(_of(column, str) for column in _of(described["order"], list))
    found = {column.name: column for column in columns}
    if not {*order} <= found.keys():
        raise _Unfit(f"table {name}: its order names a column that it doesn't have")
    if known is None:
        if any(column.type not in _TYPES for column in columns):
            return None
        return Table(name, meaning, tuple(columns), order)
    for column in known.columns:
        if column.name not in found and not column.nullable:
            raise _Unfit(f"table {name}: column {column.name} is missing")
        if column.name in found and found[column.name].type != column.type:
            raise _Unfit(
                f"column {name}.{column.name}: expected {column.type}, found {found[column.name].type[:60]!r}"
            )
    if order != known.order:
        raise _Unfit(f"table {name}: expected the order {', '.join(known.order)}")
    types = {column.name for column in known.columns}
    added = tuple(column for column in columns if column.name not in types and column.type in _TYPES)
    return Table(name, known.meaning, known.columns + added, order)


def _columns(table: str, described: list[Any]) -> Iterator[Column]:
    seen: set[str] = set()
    for stored in described:
        name, kind, unit, meaning = (
            _of(_of(stored, dict)[key], str) for key in ("name", "type", "unit", "meaning")
        )
        _of(stored["nullable"], bool)
        if not _NAME.fullmatch(name):
            raise _Unfit(
                f"column {name[:60]!r} of table {table}: expected a name of lower-case letters, digits and _"
            )
        if name in seen:
            raise _Unfit(f"column {table}.{name} is listed twice")
        seen.add(name)
        yield Column(name, kind, unit, meaning)


def _file(trail: Path, table: str, stored: Mapping[str, Any]) -> DataFile:
    name = _path(table, _of(stored["path"], str))
    rows, size = _number(stored["rows"], 0), _number(stored["bytes"], 0)
    _number(stored["crc32"], 0, _U32)
    times = [stored.get(key) for key in ("min_ts", "max_ts")]
    first, last = (None if time is None else _number(time) for time in times)
    if (first is None) != (last is None):
        raise _Unfit(f"file {name}: min_ts and max_ts come together")
    if first is not None and last is not None and first > last:
        raise _Unfit(f"file {name}: min_ts {first} is after max_ts {last}")
    return DataFile(trail / name, rows, size, name, first, last)


def _dead(stored: Mapping[str, Any]) -> str:
    """The path of a file that is no longer live."""
    path = _of(stored["path"], str)
    _number(stored["since"])
    table = path.split("/")[1] if path.count("/") == 2 else ""
    return _path(table if _NAME.fullmatch(table) else "TABLE", path)


def _path(table: str, path: str) -> str:
    """The path of a table's file."""
    parts = path.split("/")
    if len(parts) != 3 or parts[:2] != ["data", table] or not _FILE_NAME.fullmatch(parts[2]):
        raise _Unfit(f"file {path[:200]!r} of table {table}: expected a path data/{table}/NAME.parquet")
    return path


def _number(value: Any, least: int = -_I64 - 1, most: int = _I64) -> int:
    number = _of(value, int)
    if isinstance(value, bool) or not least <= number <= most:
        raise _Unfit(f"expected a whole number from {least} to {most}, found {value!r}")
    return number


def _of(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        # not what is in it, which may be long and deep
        found = (
            "a list"
            if isinstance(value, list)
            else "an object"
            if isinstance(value, dict)
            else repr(value)[:60]
        )
        raise _Unfit(f"expected {_JSON[kind]}, found {found}")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Unfit(f"expected text, found half a character in {value[:60]!r}") from None
    return value


_JSON: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
}
