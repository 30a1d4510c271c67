"""A trail of the requests of another trail at other places: what `whatif defrag -o` writes, to report or replay."""

import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from iotrail.importers import command
from iotrail.importers.base import Options
from iotrail.terminal import Console
from iotrail.trail import Trail

_MAP = "ts=1,unit=ns,epoch=unix,dev=2,op=3,pos=4,length=5,header=no,sep=comma"


def write(trail: Trail, rearranged: Path, output: Path, *, force: bool) -> None:
    """Write the requests of `simulate defrag --rearranged`.

    Response times aren't known. Devices are named as in the trail.

    Raises:
        TraceError: `output` exists and `force` is false, or can't be written.
    """
    with pa.OSFile(str(rearranged), "rb") as source, pa.ipc.open_stream(source) as stream:
        parts = stream.read_all()
    trail.prepare("FROM block_device")
    connection = trail.connection
    connection.register("_part", parts)
    try:
        rows = connection.sql(
            """
            SELECT p.ts, COALESCE(d.dev, 'disk' || -p.device) AS dev,
                CASE p.op WHEN 0 THEN 'r' WHEN 1 THEN 'w' WHEN 2 THEN 'flush' ELSE 'discard' END AS op, p.pos, p.length
            FROM (SELECT *, ROW_NUMBER() OVER () AS number FROM _part) AS p
            LEFT JOIN block_device AS d ON d.device = p.device
            ORDER BY p.ts, p.number"""
        ).to_arrow_table()
    finally:
        connection.unregister("_part")
    with tempfile.TemporaryDirectory(prefix="iotrail-") as folder:
        path = Path(folder, f"{output.name.partition('.')[0] or 'rearranged'}.csv")
        csv.write_csv(rows, path, csv.WriteOptions(include_header=False, quoting_style="none"))
        with Path(folder, "said").open("w") as said:
            options = Options(map=_MAP)
            command.run([Path("csv"), path], output, force=force, options=options, console=Console(file=said))
