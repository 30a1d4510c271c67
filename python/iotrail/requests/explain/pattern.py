"""What a client asks for: sizes and places of its accesses, and what a cache of its own would leave of them.

Numbers are those of modules `request_access` and `client_cache`. The drawing's cells are Stardust's figure 11: which
bytes were accessed when, all files one above the other.
"""

from dataclasses import dataclass

from iotrail.requests.find import Chosen
from iotrail.trail import Trail

# Cells of the drawing.
COLUMNS, ROWS = 320, 100


@dataclass(frozen=True)
class Cell:
    """Accesses of one kind at one place and time of the drawing."""

    column: int
    row: int
    # of 1 B, 2 B, 4 B …: the largest access here
    size_row: int
    kind: str
    n: int


@dataclass(frozen=True)
class Pattern:
    """A client's reads and writes. Counts as module `client_cache` says."""

    reads: int
    writes: int
    bytes: int
    small: int
    sequential: int
    shared: int
    sent_reads: int
    sent_writes: int
    page_bytes: int
    write_back_ns: int
    # 1st, 50th, 99th percentile of the sizes, bytes
    sizes: tuple[int, int, int]
    files: int
    # which requests these are: component and operation
    kinds: tuple[str, ...]
    # bytes of all files from first to last access: the height of the drawing
    span_bytes: int
    # from the first to the last access, ns: the width of the drawing
    lasts_ns: int
    cells: tuple[Cell, ...]

    @property
    def n(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    @property
    def sent(self) -> int:
        """What a cache of the client's own would leave of them."""
        return self.sent_reads + self.sent_writes

    @property
    def absorbed(self) -> float:
        """The share that it would absorb."""
        return 1 - self.sent / self.n if self.n else 0.0


_PLACES = """CREATE OR REPLACE TEMP TABLE explain_access AS
    WITH a AS (SELECT * FROM request_access WHERE client = $client AND kind <> 'sync'),
    extent AS (
        SELECT file, MIN(ts) AS ts, MIN(pos) AS least, MAX(pos + length) - MIN(pos) AS bytes FROM a GROUP BY file
    ),
    stacked AS (
        SELECT file, least, bytes, SUM(bytes) OVER (ORDER BY ts, file) - bytes AS below, SUM(bytes) OVER () AS span
        FROM extent
    )
    SELECT a.ts, a.kind, a.component, a.op, a.length, a.file, s.below + a.pos - s.least AS place, s.span
    FROM a JOIN stacked AS s USING (file)"""


def collect(trail: Trail, chosen: Chosen) -> Pattern | None:
    """The pattern of the chosen requests, all of one client; None if they neither read nor write. Narrows the trail to
    the requests of all clients in that time."""
    if chosen.start_ts is not None or chosen.end_ts is not None:
        window = Chosen(start_ts=chosen.start_ts, end_ts=chosen.end_ts)
        trail.prepare("request")
        trail.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE explain_request AS SELECT node, crumb FROM request WHERE {window.where}"
        )
        trail.narrow("explain_request")
    trail.prepare("request_access client_cache")
    client = {"client": chosen.client}
    with trail.errors(_PLACES):
        trail.connection.execute(_PLACES, client)
    cached = trail.rows_of("SELECT * FROM client_cache WHERE client = $client", client)
    if not cached:
        return None
    counts = {name: value for name, value in cached[0].items() if name != "client"}
    [whole] = trail.rows_of(
        """SELECT quantile_disc(length, [0.01, 0.5, 0.99]) AS sizes, COUNT(DISTINCT file) AS files,
            list_sort(list(DISTINCT concat_ws(' ', component, op))) AS kinds,
            CAST(MAX(span) AS BIGINT) AS span_bytes, MIN(ts) AS first_ts, MAX(ts) AS last_ts
        FROM explain_access"""
    )
    [params] = trail.rows_of("SELECT page_bytes, write_back_ns FROM params")
    cells = trail.rows_of(
        f"""SELECT CAST((ts - $first) * {COLUMNS - 1} // GREATEST($last - $first, 1) AS INTEGER) AS "column",
            CAST(place * {ROWS - 1} // GREATEST(span, 1) AS INTEGER) AS "row", kind,
            CAST(FLOOR(LOG2(MAX(length))) AS INTEGER) AS size_row, COUNT(*) AS n
        FROM explain_access GROUP BY ALL ORDER BY ALL""",
        {"first": whole["first_ts"], "last": whole["last_ts"]},
    )
    return Pattern(
        **counts,
        **params,
        sizes=tuple(whole["sizes"]),
        files=whole["files"],
        kinds=tuple(whole["kinds"]),
        span_bytes=whole["span_bytes"],
        lasts_ns=whole["last_ts"] - whole["first_ts"],
        cells=tuple(Cell(c["column"], c["row"], c["size_row"], c["kind"], c["n"]) for c in cells),
    )
