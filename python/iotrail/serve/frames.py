"""What the page draws of recorded time: members and frames of samples, in the shape of the live stream.

Numbers come from the modules `sample` and `member_state`; DuckDB writes them as JSON, because a minute of a thousand
members is a million of them.
"""

import json
from dataclasses import dataclass

from iotrail.errors import UsageError
from iotrail.trail import Trail, quoted

MS = 1_000_000
# A sample's stretch begins before the moment it counts at: no agent samples less often than this.
LONGEST_STRETCH_MS = 60_000
MOST_FRAMES = 3_600

GROUPS = ("member", "host", "rack", "role")


@dataclass(frozen=True)
class Span:
    """What is asked for: the frames after start_ms up to end_ms, of some members and metrics or, if None, all."""

    start_ms: int
    end_ms: int
    every_ms: int
    by: str
    members: tuple[str, ...] | None
    metrics: tuple[str, ...] | None

    def __post_init__(self) -> None:
        """Refuse what makes no sense or too much."""
        if self.by not in GROUPS:
            raise UsageError(f"by: expected one of {', '.join(GROUPS)}, found {self.by!r}")
        if not 1 <= self.every_ms <= 86_400_000:
            raise UsageError(f"every_ms: expected 1 to 86,400,000 (a day), found {self.every_ms}")
        if not 0 <= self.start_ms <= self.end_ms < 2**63 // MS:
            raise UsageError(
                f"start_ms, end_ms: expected milliseconds since the epoch, the start first, "
                f"found {self.start_ms} and {self.end_ms}"
            )
        if (self.end_ms - self.start_ms) // self.every_ms > MOST_FRAMES:
            raise UsageError(
                f"expected at most {MOST_FRAMES:,} frames, found "
                f"{(self.end_ms - self.start_ms) // self.every_ms:,}: {self.end_ms - self.start_ms:,} ms each {self.every_ms:,}",
                "a larger every_ms, or a shorter span",
            )


def frames(trail: Trail, span: Span) -> str:
    """`{"members": […], "series": […], "frames": […]}` as JSON."""
    start, end = span.start_ms * MS, span.end_ms * MS
    _narrow(trail, start, end, span)
    trail.set_params({"every_ns": span.every_ms * MS})
    measure = trail.modules["sample"].measures["value"]
    # a host that is in no rack is a group of its own
    key = "COALESCE(rack, host)" if span.by == "rack" else quoted(span.by)
    sql = f"""
        WITH value AS (
            SELECT ts, {key} AS owner, metric, name, least, {measure} AS value
            FROM sample
            WHERE ts > $start AND ts <= $end AND {key} IS NOT NULL
            GROUP BY ALL
        ),
        series AS (
            SELECT owner, metric, name, least, ROW_NUMBER() OVER (ORDER BY owner, metric, name, least) - 1 AS n
            FROM (SELECT DISTINCT owner, metric, name, least FROM value)
        ),
        frame AS (
            SELECT v.ts, string_agg(s.n || ',' || printf('%.6g', v.value), ',') AS pairs
            FROM value AS v
            JOIN series AS s ON s.owner = v.owner AND s.metric = v.metric
                AND s.name IS NOT DISTINCT FROM v.name AND s.least IS NOT DISTINCT FROM v.least
            WHERE isfinite(v.value)
            GROUP BY v.ts
        )
        SELECT
            (SELECT string_agg('[' || n || ',' || to_json(owner) || ',' || to_json(metric) || ','
                || coalesce(CAST(to_json(name) AS VARCHAR), 'null') || ',' || coalesce(CAST(least AS VARCHAR), 'null') || ']', ',' ORDER BY n)
                FROM series) AS series,
            (SELECT string_agg('{{"ts_ms":' || ts // {MS} || ',"values":[' || pairs || ']}}', ',' ORDER BY ts)
                FROM frame) AS frames"""
    found = trail.rows_of(sql, {"start": start, "end": end})[0]
    return (
        f'{{"members":{_members(trail, start, end)},"series":[{found["series"] or ""}],'
        f'"frames":[{found["frames"] or ""}]}}'
    )


def members(trail: Trail, at_ms: int | None) -> str:
    """The members at a moment and every change after it, as JSON; of no moment all changes."""
    return f'{{"members":{_members(trail, (at_ms or 0) * MS, 2**62)}}}'


def span(trail: Trail) -> str:
    """First and last moment of samples and members, as JSON; null of a trail without any."""
    files = [file for table in ("node_sample", "member") for file in trail.files(table)]
    first = [file.min_ts for file in files if file.min_ts is not None]
    last = [file.max_ts for file in files if file.max_ts is not None]
    # from what the snapshot says of its files: a scan of a month's samples would take seconds
    return json.dumps(
        {
            "start_ms": min(first) // MS if first else None,
            "end_ms": max(last) // MS if last else None,
            "snapshot": trail.snapshot,
        }
    )


def _members(trail: Trail, start: int, end: int) -> str:
    sql = f"""
        SELECT coalesce(CAST(to_json(array_agg(
            {{'member': member, 'role': role, 'node': node, 'place': place, 'host': host, 'rack': rack, 'state': state,
              'since_ms': ts // {MS}, 'detail': detail}} ORDER BY ts, member)) AS VARCHAR), '[]') AS json
        FROM member_state
        WHERE ts <= $end AND (until_ts IS NULL OR until_ts > $start)"""
    json_text: str = trail.rows_of(sql, {"start": start, "end": end})[0]["json"]
    return json_text


def _narrow(trail: Trail, start: int, end: int, span: Span) -> None:
    """Let `node_sample` be only what is asked for, before the modules: they would not push it down to the files."""
    earliest = start - LONGEST_STRETCH_MS * MS
    files = [
        file
        for file in trail.files("node_sample")
        if file.min_ts is None or file.max_ts is None or (file.min_ts <= end and earliest <= file.max_ts)
    ]
    conditions = [f"ts >= {earliest}", f"ts <= {end}", f"ts + COALESCE(dur, 0) > {start}"]
    if span.members is not None and span.by == "member":
        conditions.append(f"list_contains({_list(span.members)}, member)")
    if span.metrics is not None:
        conditions.append(f"list_contains({_list(span.metrics)}, metric)")
    rows = trail.scan("node_sample", files)
    trail.let({"node_sample": f"SELECT * FROM ({rows}) AS s WHERE {' AND '.join(conditions)}"})


def _list(names: tuple[str, ...]) -> str:
    return "[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]::VARCHAR[]"
