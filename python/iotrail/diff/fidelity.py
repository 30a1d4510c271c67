"""How faithfully trail B replays trail A: `iotrail diff --fidelity`, and the table that ends a replay.

A replay names each thread by the id of the thread it replays; the k-th operation on a file of one is the k-th of the
other. Several threads of one name share its operations, in the order of their starts.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotrail.diff.files import match_files
from iotrail.diff.run import files_of
from iotrail.errors import IotrailError
from iotrail.trail import Trail
from iotrail.units import duration

# Operations that differ, shown as examples.
EXAMPLES = 5


@dataclass
class Fidelity:
    """A replay beside its original. Times are ns."""

    # Between the first operation's start and the last one's end.
    run_time_a: int
    run_time_b: int
    threads_a: int
    threads_b: int
    operations_a: int
    operations_b: int
    matched: int
    # Matched operations that are the same call, at the same place of the same file, of the same length.
    in_order: int
    # Of those, how many failed, or returned something else, in one only.
    failed_differently: int
    returned_differently: int
    # How much later than in A operations began, from the promptest one on; None without a matched one.
    late_p50: int | None
    late_p99: int | None
    late_max: int | None
    first_differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def run_time_error(self) -> float | None:
        """Of B's run time, relative to A's."""
        return self.run_time_b / self.run_time_a - 1 if self.run_time_a else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"run_time_error": self.run_time_error}


def fidelity(a: Trail, b: Trail, *, renamed: Sequence[tuple[str, str]] = (), scale: float = 1.0) -> Fidelity:
    """Compare a replay with its original, whose times were multiplied by `scale`."""
    connection = a.connection
    files = match_files(files_of(a), files_of(b), renamed)
    same = pa.table(
        {
            "a": pa.array([p.a for p in files.both], pa.string()),
            "b": pa.array([p.b for p in files.both], pa.string()),
        }
    )
    connection.register("_same_path", same)
    a.prepare("file_op file")
    for table in ("file_op", "file", "thread"):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW _b_{table} AS {b.source(table)}")
    matched = """
        CREATE OR REPLACE TEMP TABLE _matched AS
        WITH first AS (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY thread ORDER BY ts) AS k FROM file_op
        ),
        named AS (
            SELECT o.*, TRY_CAST(t.name AS BIGINT) AS original
            FROM _b_file_op AS o
            JOIN (SELECT thread, MAX(name) AS name FROM _b_thread GROUP BY thread) AS t USING (thread)
        ),
        second AS (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY original ORDER BY ts) AS k FROM named WHERE original IS NOT NULL
        ),
        other AS (
            SELECT f.file AS file_a, MAX(g.file) AS file_b
            FROM _same_path AS s
            JOIN file AS f ON f.path = s.a
            JOIN _b_file AS g ON g.path = s.b
            GROUP BY f.file
        )
        SELECT
            a.thread, a.k, a.ts AS ts_a, b.ts AS ts_b, a.ts + COALESCE(a.dur, 0) AS end_a,
            b.ts + COALESCE(b.dur, 0) AS end_b,
            a.call AS call_a, b.call AS call_b, a.pos AS pos_a, b.pos AS pos_b, a.length AS length_a,
            b.length AS length_b, a.errno AS errno_a, b.errno AS errno_b, a.result AS result_a, b.result AS result_b,
            a.file AS file_a, b.file AS file_b,
            a.call = b.call AND a.pos IS NOT DISTINCT FROM b.pos AND a.length IS NOT DISTINCT FROM b.length
            AND COALESCE(o.file_b, a.file) IS NOT DISTINCT FROM b.file AS same,
            -- what open and the like return is a descriptor: another number means nothing
            a.call NOT IN ('open', 'creat', 'dup', 'mkstemp', 'fcntl', 'fopen', 'opendir', 'fdopen', 'mmap')
            AND a.result IS DISTINCT FROM b.result AS other_result
        FROM first AS a
        JOIN second AS b ON b.original = a.thread AND b.k = a.k
        LEFT JOIN other AS o ON o.file_a = a.file"""
    with a.errors(matched):
        connection.execute(matched)
        row = connection.execute(
            """
            WITH late AS (
                SELECT MIN(ts_a) OVER () AS a0, MIN(ts_b) OVER () AS b0, * FROM _matched
            ),
            shifted AS (
                SELECT *, (ts_b - b0) - CAST((ts_a - a0) * $scale AS BIGINT) AS late FROM late
            )
            SELECT
                COUNT(*), COUNT(*) FILTER (WHERE same), COUNT(*) FILTER (WHERE same AND errno_a <> errno_b),
                COUNT(*) FILTER (WHERE same AND errno_a = errno_b AND other_result),
                quantile_disc(late, 0.5) - MIN(late), quantile_disc(late, 0.99) - MIN(late), MAX(late) - MIN(late),
                MAX(end_a) - MIN(ts_a), MAX(end_b) - MIN(ts_b)
            FROM shifted""",
            {"scale": scale},
        ).fetchone()
        assert row is not None
        counted = connection.execute("""
            SELECT
                (SELECT COUNT(*) FROM file_op), (SELECT COUNT(*) FROM _b_file_op),
                (SELECT COUNT(DISTINCT thread) FROM file_op),
                (SELECT COUNT(DISTINCT name) FROM _b_thread WHERE TRY_CAST(name AS BIGINT) IS NOT NULL)""").fetchone()
        assert counted is not None
        examples = connection.execute(
            """
            SELECT m.thread, m.k, m.call_a, m.call_b, f.path AS path_a, g.path AS path_b, m.pos_a, m.pos_b, m.length_a,
                m.length_b, m.result_a, m.result_b, m.errno_a, m.errno_b
            FROM _matched AS m
            LEFT JOIN (SELECT file, MAX(path) AS path FROM file GROUP BY file) AS f ON f.file = m.file_a
            LEFT JOIN (SELECT file, MAX(path) AS path FROM _b_file GROUP BY file) AS g ON g.file = m.file_b
            WHERE NOT m.same OR m.errno_a <> m.errno_b OR m.other_result
            ORDER BY m.ts_a LIMIT $most""",
            {"most": EXAMPLES},
        )
        names = [column[0] for column in examples.description]
        differ = [dict(zip(names, values, strict=True)) for values in examples.fetchall()]
    if row[0] == 0:
        raise IotrailError(
            f"{b.path}: no operation of it replays one of {a.path}",
            "--fidelity compares a replay with its original: `iotrail replay` names its threads by the original's; "
            "`iotrail diff` without it compares any two runs",
        )
    return Fidelity(
        run_time_a=row[7],
        run_time_b=row[8],
        threads_a=counted[2],
        threads_b=counted[3],
        operations_a=counted[0],
        operations_b=counted[1],
        matched=row[0],
        in_order=row[1],
        failed_differently=row[2],
        returned_differently=row[3],
        late_p50=row[4],
        late_p99=row[5],
        late_max=row[6],
        first_differences=differ,
    )


def show(result: Fidelity) -> None:
    """Print the fidelity table."""
    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    error = result.run_time_error
    for name, value in (
        ("run time", f"{duration(result.run_time_b)}, recorded {duration(result.run_time_a)}"),
        ("run-time error", "–" if error is None else f"{error:+.2%}"),
        ("lateness p50 / p99 / max", " / ".join("–" if x is None else duration(x) for x in (result.late_p50, result.late_p99, result.late_max))),
        ("operations", f"{result.operations_b:,} of {result.operations_a:,}, {result.threads_b} threads of {result.threads_a}"),
        ("order, place and length kept", f"{result.in_order:,} of {result.matched:,} ({result.in_order / result.matched:.2%})"),
        ("failed differently", f"{result.failed_differently:,}"),
        ("returned something else", f"{result.returned_differently:,}"),
    ):  # fmt: skip
        table.add_row(Text(name, style="dim"), value)
    console.print(Text("Fidelity", style="bold underline"))
    console.print(table)
    for row in result.first_differences:
        console.print(
            Text(
                f"  operation {row['k']:,} of thread {row['thread']}: "
                f"{_operation(row, 'a')}; replayed {_operation(row, 'b')}",
                style="yellow",
            )
        )


def _operation(row: dict[str, Any], side: str) -> str:
    place = f" at {row[f'pos_{side}']:,}" if row[f"pos_{side}"] is not None else ""
    length = f" of {row[f'length_{side}']:,}" if row[f"length_{side}"] is not None else ""
    ended = f"errno {row[f'errno_{side}']}" if row[f"errno_{side}"] else f"→ {row[f'result_{side}']}"
    return f"{row[f'call_{side}']} {row[f'path_{side}'] or ''}{place}{length} {ended}"
