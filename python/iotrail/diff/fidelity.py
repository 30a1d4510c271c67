"""How faithfully a replay did what its original did: the table that ends `iotrail replay`; `iotrail diff --fidelity`
shows it again.

A replay names each thread by the id of the thread it replays and says in its trail where it was done. An operation of
it is the k-th like it of its thread (same call, file, offset, length), and replays the k-th like it of the original.

Reads and writes that moved another number of bytes have a cause, the first of `CAUSES` whose evidence is there.
"""

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from iotrail import schema
from iotrail.causal import check
from iotrail.errors import IotrailError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail
from iotrail.units import duration, size
from iotrail.visible import one_line

# Operations that came out differently, shown as examples.
EXAMPLES = 5
# Calls that were not replayed, named in the table.
NAMED = 4
# Why operations moved other bytes: name in JSON -> what the table says.
CAUSES = {
    "order": "began before a write that they followed, or after one that followed them",
    "race": "overlapped a write of another thread in the recording",
    "kernel": "are of files that the kernel makes up (/proc, /sys, /dev)",
    "not_replayed": "are of files with calls that are not replayed",
    "position": "are of lseek",
    "unknown": "have no cause that the trails show",
}


@dataclass(frozen=True)
class Fidelity:
    """A replay (b) beside its original (a). Times are ns."""

    # How it was replayed: think, afap or timed; psync or io_uring; the factor on all recorded times.
    mode: str
    engine: str
    scale: float
    # Between the first operation's start and the last one's end; a's times the scale.
    run_time_a: int
    run_time_b: int
    threads_a: int
    threads_b: int
    operations_a: int
    operations_b: int
    # Operations of a that have their replay.
    matched: int
    # The others, by call.
    not_replayed: dict[str, int]
    # Operations that began before one was done that they have to follow: of their thread, or by file range, size and
    # name. Replays wait for those, except as fast as possible, where they only count them.
    out_of_order: int
    # Matched operations that failed otherwise, or moved another number of bytes.
    failed_differently: int
    returned_differently: int
    # Of those, by cause: operations, bytes that they moved in a and in b.
    moved_by_cause: list[dict[str, Any]]
    # Bytes that all matched reads and writes moved.
    bytes_a: int
    bytes_b: int
    # How much later than in a operations began. Mode timed measured it against the clock; in the others, which hold
    # no schedule, it is relative to the promptest operation.
    late_p50: int
    late_p99: int
    late_max: int
    late_over_ms: int
    # Operations that had to wait for one of another thread.
    waited: int
    # If it was interrupted: where in a, since its start, and how many operations of a begin later. Null if it was not.
    interrupted_at: int | None
    not_reached: int
    # CPU time of the replaying threads, with the kernel's on their behalf.
    cpu: int
    # The most frequent of those: call, path, how each ended, times, and offset and results of the first.
    differences: list[dict[str, Any]]

    @property
    def run_time_error(self) -> float | None:
        """Of b's run time, relative to a's."""
        return self.run_time_b / self.run_time_a - 1 if self.run_time_a else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"run_time_error": self.run_time_error}


def fidelity(a: Trail, b: Trail) -> Fidelity:
    """Compare a replay with its original.

    Raises:
        IotrailError: `b` is no trail of a replay, or replays none of `a`'s operations.
    """
    facts = _facts(b)
    connection = a.connection
    a.prepare("file_op file")
    for table in ("file_op", "file", "thread"):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW _b_{table} AS {b.source(table)}")
    statements = _matching(facts)
    for statement in statements:
        with a.errors(statement):
            connection.execute(statement)
    counted = _one(
        a,
        """
        SELECT
            (SELECT COUNT(*) FROM file_op) AS operations_a, (SELECT COUNT(*) FROM _b_file_op) AS operations_b,
            (SELECT COUNT(DISTINCT thread) FROM file_op) AS threads_a,
            (SELECT COUNT(DISTINCT original) FROM _b) AS threads_b,
            (SELECT COUNT(*) FROM _matched) AS matched,
            (SELECT MAX(ts + COALESCE(dur, 0)) - MIN(ts) FROM file_op) AS run_time_a,
            (SELECT MAX(ts + COALESCE(dur, 0)) - MIN(ts) FROM _b) AS run_time_b""",
    )
    interrupted_at = facts.get("interrupted_at")
    if counted["matched"] == 0 and interrupted_at is not None:
        raise IotrailError(f"{b.path}: the replay was interrupted before its first operation")
    if counted["matched"] == 0:
        raise IotrailError(
            f"{b.path}: no operation of it replays one of {a.path}",
            f"it says that it replays {facts.get('of')}" if facts.get("of") else None,
        )
    if interrupted_at is not None:
        counted["run_time_a"] = min(counted["run_time_a"], interrupted_at)
    counted["run_time_a"] = round(counted["run_time_a"] * facts["scale"])
    reads, writes = (_names(kind) for kind in ("read", "write"))
    bytes = f"call_a IN ({reads}, {writes})"
    moved = f"call_a IN ({reads}, {writes}, 'lseek')"
    differs = f"(errno_a <> errno_b OR ({moved} AND result_a IS DISTINCT FROM result_b))"
    judged = _one(
        a,
        f"""
        WITH late AS (
            SELECT *, ts_b - (MIN(ts_b) OVER ())
                - CAST((ts_a - (MIN(ts_a) OVER ())) * $scale AS BIGINT) AS late,
                ts_a < LAG(ts_a) OVER (PARTITION BY thread ORDER BY ts_b, ts_a) AS behind
            FROM _matched
        )
        SELECT
            COUNT(*) FILTER (WHERE behind) AS out_of_order,
            COUNT(*) FILTER (WHERE errno_a <> errno_b) AS failed_differently,
            COUNT(*) FILTER (WHERE errno_a = errno_b AND {differs}) AS returned_differently,
            COALESCE(SUM(result_a) FILTER (WHERE {bytes} AND result_a > 0), 0)::BIGINT AS bytes_a,
            COALESCE(SUM(result_b) FILTER (WHERE {bytes} AND result_b > 0), 0)::BIGINT AS bytes_b,
            quantile_disc(late, 0.5) - MIN(late) AS late_p50, quantile_disc(late, 0.99) - MIN(late) AS late_p99,
            MAX(late) - MIN(late) AS late_max,
            COUNT(*) FILTER (WHERE late > 1000000 + (SELECT MIN(late) FROM late)) AS late_over_ms
        FROM late""",
        scale=facts["scale"],
    )
    if facts.get("late"):
        judged |= {f"late_{name}": facts["late"][name] for name in ("p50", "p99", "max", "over_ms")}
    judged["out_of_order"] += facts.get("order_broken", 0)
    not_reached = (
        "FALSE" if interrupted_at is None else f"a.ts >= (SELECT MIN(ts) FROM _a) + {interrupted_at}"
    )
    missing = a.connection.execute(f"""
        SELECT CASE WHEN NOT ({not_reached}) THEN a.call END, COUNT(*)
        FROM _a AS a ANTI JOIN _b AS b ON b.original = a.thread AND b.alike = a.alike AND b.k = a.k
        GROUP BY ALL ORDER BY 2 DESC, 1""").fetchall()
    causes = _rows(a, _by_cause(f"errno_a = errno_b AND {differs}", writes))
    examples = _rows(
        a,
        f"""
        SELECT m.call_a AS call, f.path, m.errno_a, m.errno_b, COUNT(*) AS times,
            arg_min(m.pos, m.ts_a) AS pos, arg_min(m.result_a, m.ts_a) AS result_a, arg_min(m.result_b, m.ts_a) AS result_b
        FROM _matched AS m
        LEFT JOIN (SELECT file, MAX(path) AS path FROM file GROUP BY file) AS f ON f.file = m.file
        WHERE {differs}
        GROUP BY ALL ORDER BY times DESC, MIN(m.ts_a) LIMIT {EXAMPLES}""",
    )
    return Fidelity(
        mode=facts["mode"],
        engine=facts["engine"],
        scale=facts["scale"],
        waited=facts["waited"],
        cpu=facts["cpu"],
        not_replayed={call: count for call, count in missing if call is not None},
        not_reached=sum(count for call, count in missing if call is None),
        interrupted_at=interrupted_at,
        moved_by_cause=causes,
        differences=examples,
        **counted,
        **judged,
    )


def _facts(b: Trail) -> dict[str, Any]:
    """What a replay says in its trail of how it was done."""
    found = b.rows_of("SELECT name, value FROM recording WHERE name IN ('replay', 'replay_of')")
    texts = {row["name"]: row["value"] for row in found}
    if "replay" not in texts:
        raise IotrailError(
            f"{b.path}: is no replay",
            "`iotrail replay` makes one; `iotrail diff` without --fidelity compares any two runs",
        )
    facts: dict[str, Any] = json.loads(texts["replay"])
    return facts | {"of": texts.get("replay_of")}


def _matching(facts: dict[str, Any]) -> list[str]:
    """Statements that make `_a`, `_b` (operations with what they are like, and the how-manieth of those) and `_matched`."""
    # A target stands for a device; under a root each path lies below it.
    if root := facts.get("root"):
        pairs = f"""
            SELECT f.node, f.file AS file_a, MAX(g.file) AS file_b
            FROM file AS f JOIN _b_file AS g ON g.path = {_text(root.rstrip("/"))} || f.path
            GROUP BY ALL"""
    else:
        targets = ", ".join(
            f"({_text(t['node'])}, {_text(t['path'])}, {_text(t['target'])})" for t in facts["targets"]
        )
        pairs = f"""
            SELECT f.node, f.file AS file_a, MAX(g.file) AS file_b
            FROM file AS f
            JOIN (VALUES {targets}) AS t (node, path, target) ON t.path = f.path AND t.node IN (f.node, '')
            JOIN _b_file AS g ON g.path = t.target
            GROUP BY ALL"""
    # Folded offsets are others than the trace's.
    pos = "0" if facts.get("fold") else "COALESCE(pos, -1)"

    def alike(file: str) -> str:
        return f"hash(call, COALESCE({file}, 0), {pos}, COALESCE(length, -1))"

    def numbered(thread: str) -> str:
        return f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {thread}, alike ORDER BY ts) AS k FROM known"

    columns = "ts, dur, call, file, pos, length, result, errno, flags"
    return [
        f"""
        CREATE OR REPLACE TEMP TABLE _a AS
        WITH known AS (
            SELECT thread, file2, {columns}, {alike("o.file_b")} AS alike
            FROM file_op LEFT JOIN ({pairs}) AS o ON o.file_a = file_op.file AND o.node = file_op.node
        )
        {numbered("thread")}""",
        f"""
        CREATE OR REPLACE TEMP TABLE _b AS
        WITH known AS (
            SELECT TRY_CAST(t.name AS BIGINT) AS original, {columns}, {alike("file")} AS alike
            FROM _b_file_op JOIN (SELECT thread, MAX(name) AS name FROM _b_thread GROUP BY thread) AS t USING (thread)
        )
        {numbered("original")}""",
        """
        CREATE OR REPLACE TEMP TABLE _matched AS
        SELECT
            a.thread, a.ts AS ts_a, b.ts AS ts_b, a.call AS call_a, a.file, a.pos, a.length, a.flags,
            a.errno AS errno_a, b.errno AS errno_b, a.result AS result_a, b.result AS result_b,
            a.ts + COALESCE(a.dur, 0) AS end_a, b.ts + COALESCE(b.dur, 0) AS end_b
        FROM _a AS a JOIN _b AS b ON b.original = a.thread AND b.alike = a.alike AND b.k = a.k""",
    ]


def _by_cause(differs: str, writes: str) -> str:
    """The matched operations that moved other bytes, by cause: from `_matched`, `_a` and `_b`."""
    resizes = f"(call_a IN ('truncate', 'creat', 'fallocate') OR call_a IN ('open', 'fopen') AND flags & {os.O_TRUNC} <> 0)"
    overlaps = "(w.resizes OR w.pos IS NULL OR m.pos IS NULL OR w.pos < m.pos + m.length AND w.pos + w.length > m.pos)"
    return f"""
        WITH m AS (SELECT ROW_NUMBER() OVER () AS id, * FROM _matched WHERE {differs}),
        w AS (
            SELECT *, {resizes} AS resizes FROM _matched
            WHERE errno_a = 0 AND (call_a IN ({writes}) OR {resizes}) AND file IN (SELECT file FROM m)
        ),
        other AS (
            SELECT m.id,
                bool_or(w.end_a <= m.ts_a AND w.end_b > m.ts_b OR w.ts_a >= m.end_a AND w.ts_b < m.end_b) AS is_order,
                bool_or(w.ts_a < m.end_a AND w.end_a > m.ts_a) AS is_race
            FROM m JOIN w ON w.file = m.file AND w.thread <> m.thread AND {overlaps}
            GROUP BY m.id
        ),
        lost AS (
            SELECT file, file2 FROM _a AS a ANTI JOIN _b AS b ON b.original = a.thread AND b.alike = a.alike AND b.k = a.k
        ),
        path AS (SELECT file, MAX(path) AS path FROM file GROUP BY file)
        SELECT
            CASE
                WHEN m.call_a = 'lseek' THEN 'position'
                WHEN regexp_matches(path.path, '^/(proc|sys|dev)/') THEN 'kernel'
                WHEN other.is_order THEN 'order'
                WHEN other.is_race THEN 'race'
                WHEN m.file IN (SELECT file FROM lost UNION ALL SELECT file2 FROM lost WHERE file2 IS NOT NULL)
                    THEN 'not_replayed'
                ELSE 'unknown'
            END AS cause,
            COUNT(*) AS operations,
            SUM(CASE WHEN m.call_a <> 'lseek' THEN m.result_a END)::BIGINT AS bytes_a,
            SUM(CASE WHEN m.call_a <> 'lseek' THEN m.result_b END)::BIGINT AS bytes_b
        FROM m LEFT JOIN other USING (id) LEFT JOIN path ON path.file = m.file
        GROUP BY cause ORDER BY operations DESC, cause"""


def _names(kind: str) -> str:
    """The calls of a kind, for SQL."""
    return ", ".join(_text(call.name) for call in schema.load().calls if call.kind == kind)


def _text(value: str) -> str:
    """A string, for SQL."""
    return "'{}'".format(value.replace("'", "''"))


def _rows(trail: Trail, sql: str, **values: object) -> list[dict[str, Any]]:
    with trail.errors(sql):
        found = trail.connection.execute(sql, values or None)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _one(trail: Trail, sql: str, **values: object) -> dict[str, Any]:
    (row,) = _rows(trail, sql, **values)
    return row


def judge(said: str) -> None:
    """Print how faithful the replay was of which `iotrail-native replay` says this."""
    outcome = json.loads(said)
    recorded = Trail(outcome["replay_of"])
    result = fidelity(recorded, Trail(outcome["trail"]))
    checked = check.found(recorded) if result.mode == "causal" else None
    if outcome["json"]:
        found = result.as_dict() | {"check": checked, "trail": outcome["trail"]}
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        show(result)
        if checked:
            print(check.sentence(checked))
        print(f"next: iotrail diff {outcome['replay_of']} {outcome['trail']}")


def show(result: Fidelity) -> None:
    """Print the fidelity table."""
    console = Console()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    matched, error = result.matched, result.run_time_error
    share = "" if error is None else f" ({error:+.1%})"
    scaled = f" × {result.scale:g}" if result.scale != 1 else ""
    late = (
        f"p50 {duration(result.late_p50)}, p99 {duration(result.late_p99)}, max {duration(result.late_max)}"
    )
    rows = [
        ("run time", f"{duration(result.run_time_b)}, recorded {duration(result.run_time_a)}{scaled}{share}"),
        ("lateness", f"{late}; {result.late_over_ms / matched:.2%} over 1 ms"),
        ("operations", f"{matched:,} of {result.operations_a:,}, by {result.threads_b:,} of {result.threads_a:,} threads"),
        ("failed differently", f"{result.failed_differently:,} ({result.failed_differently / matched:.2%})"),
        ("moved other bytes", f"{result.returned_differently:,} ({result.returned_differently / matched:.2%}); "
            f"{size(result.bytes_b)} of {size(result.bytes_a)} moved"),
        *(("", f"{row['operations']:,} {CAUSES[row['cause']]}") for row in result.moved_by_cause),
        ("order kept", f"{1 - result.out_of_order / matched:.2%}; {result.waited:,} waited for another thread"),
    ]  # fmt: skip
    if result.out_of_order:
        rows.append(
            ("order broken", f"{result.out_of_order:,} began before an operation that they follow was done")
        )
    if result.interrupted_at is not None:
        rows.insert(0, (
            "interrupted",
            f"{duration(result.interrupted_at)} after the start of the recording; {result.not_reached:,} operations not reached",
        ))  # fmt: skip
    if result.not_replayed:
        named = list(result.not_replayed.items())
        words = ", ".join(f"{count:,} {call}" for call, count in named[:NAMED])
        rows.append(
            ("not replayed", f"{sum(result.not_replayed.values()):,}: {words}{' …' * (len(named) > NAMED)}")
        )
    for name, value in rows:
        table.add_row(Text(name, style="dim"), value)
    console.print(
        Text(f"Fidelity of the replay (--mode {result.mode}, --engine {result.engine})", style="bold")
    )
    console.print(table)
    for row in result.differences:
        place = f", first at {row['pos']:,}" if row["pos"] is not None else ""
        times = f" ({row['times']:,} times{place})" if row["times"] > 1 else ""
        line = f"  {row['call']} {row['path'] or ''}: recorded {_ended(row, 'a')}, replayed {_ended(row, 'b')}{times}"
        console.print(Text(one_line(line), style="yellow"), soft_wrap=True)


def _ended(row: dict[str, Any], side: str) -> str:
    number = row[f"errno_{side}"]
    return os.strerror(number) if number else f"{row[f'result_{side}']}"
