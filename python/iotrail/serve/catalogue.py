"""What can be asked of a trail in SQL: its tables and the modules, with their columns, for the page's prompt."""

import json

from iotrail.trail import Trail


def listing(trail: Trail) -> str:
    """Tables and modules as JSON: name, kind, what it is, rows of a table, columns with type, unit and meaning."""
    entries = []
    for kind, names in (("table", trail.tables), ("module", trail.modules)):
        for name in sorted(names):
            meaning, columns = trail.describe(name)
            entries.append(
                {
                    "name": name,
                    "kind": kind,
                    "meaning": meaning,
                    "rows": trail.rows.get(name) if kind == "table" else None,
                    "columns": [
                        {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
                        for c in columns
                    ],
                }
            )
    return json.dumps(entries)
