"""CSV and Parquet: module `op`, one row a call with the names of call, file and process, in order of time."""

from pathlib import Path

from iotrail.trail import Trail

OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}


def write(trail: Trail, output: Path, *, format: str, **_: object) -> None:
    """Write the file; DuckDB streams it and spills what it sorts."""
    place = str(output).replace("'", "''")
    copy = f"COPY (SELECT * FROM op ORDER BY ts, trace_row, thread) TO '{place}' ({OPTIONS[format]})"
    # so that a place that can't be written is an error of the system, not of a query
    output.touch()
    trail.prepare(copy)
    with trail.errors(copy):
        trail.connection.execute(copy)
