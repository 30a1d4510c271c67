"""The tables of a trail, read from `schema.json`: the committed output of `iotrail-native schema`.

`crates/format/src/schema.rs` is where tables are described; a test holds the two equal.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from iotrail.modules import Column


@dataclass(frozen=True)
class Table:
    """A table: what a row is, its columns, the order of rows in a file."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """A call the recorder knows, with what it does: read, write, flush, meta, map or wait."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True)
class Schema:
    """What this version of iotrail knows."""

    trail_version: int
    tables: Mapping[str, Table]
    calls: tuple[Call, ...]


# The table of calls is not stored in trails: it is made from the schema.
CALL_TABLE = Table(
    "call",
    "What each call does.",
    (
        Column("call", "VARCHAR", "", "Name of the call."),
        Column("kind", "VARCHAR", "", "What it does: read, write, flush, meta, map or wait."),
        Column("meaning", "VARCHAR", "", "One line."),
    ),
    ("call",),
)


@cache
def load() -> Schema:
    """Read `schema.json`."""
    stored = json.loads((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))
    return Schema(
        trail_version=stored["iotrail_trail"],
        tables={
            table["name"]: Table(
                table["name"], table["meaning"], columns(table["columns"]), tuple(table["order"])
            )
            for table in stored["tables"]
        },
        calls=tuple(Call(call["name"], call["kind"], call["meaning"]) for call in stored["calls"]),
    )


def columns(stored: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Columns as the schema and a trail's snapshot describe them."""
    return tuple(
        Column(c["name"], c["type"], c["unit"], c["meaning"], nullable=c["nullable"]) for c in stored
    )
