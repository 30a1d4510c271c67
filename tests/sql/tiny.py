"""Tiny trails for the SQL tests: CSV files become Arrow streams, `iotrail-native ingest` writes the trail."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from iotrail import schema

ARROW = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "DOUBLE": pa.float64()}
# What a CSV may leave out though the column can't be null.
DEFAULTS: dict[str, object] = {"node": "n", "crumb": 0, "calls": 1}


def write_trail(
    native: Path, folder: Path, into: Path, change: Callable[[str, pa.Table], pa.Table] = lambda _, rows: rows
) -> Path:
    """Write the trail of a folder's CSV files; one without any gets an empty table, as ingest wants one.

    `change` is given each table's name and rows, and returns what is written instead.
    """
    tables = {}
    for table in schema.load().tables.values():
        columns = {column.name: ARROW[column.type] for column in table.columns}
        source = folder / f"{table.name}.csv"
        if source.exists():
            convert = csv.ConvertOptions(column_types=columns, strings_can_be_null=True)
            given = csv.read_csv(source, convert_options=convert)
        elif table.name == "file_op" and not any(folder.glob("*_op.csv")):
            given = pa.table({name: pa.array([], kind) for name, kind in columns.items()})
        else:
            continue
        for name, value in DEFAULTS.items():
            if name in columns and name not in given.column_names:
                given = given.append_column(name, pa.array([value] * given.num_rows, columns[name]))
        tables[table.name] = change(table.name, given)
    return ingest(native, tables, into / f"{folder.name}.trail")


def ingest(native: Path, tables: Mapping[str, pa.Table], trail: Path) -> Path:
    """Write a trail of these tables."""
    streams = []
    for name, table in tables.items():
        path = trail.with_name(f"{name}.arrow")
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
        streams.append(f"{name}={path}")
    subprocess.run([native, "ingest", "-o", trail, *streams], check=True)
    return trail
