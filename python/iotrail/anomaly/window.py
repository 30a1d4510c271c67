"""When the settings of a sweep were measured, and how a person sees what happened then."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from iotrail.trail import Trail


@dataclass(frozen=True)
class Window:
    """The first measurement of a setting that didn't fail, of `count` such: from `ts` for `dur` ns, and whether the trail has
    requests of it (table `disk_op`)."""

    ts: int
    dur: int
    count: int
    has_requests: bool

    @property
    def end_ts(self) -> int:
        """The moment at which it was over, ns since the epoch."""
        return self.ts + self.dur


@dataclass(frozen=True)
class Windows:
    """The windows of a trail by setting, and the trail's first moment, from which `--from +…` counts; None where it has none."""

    start_ts: int | None
    of: Mapping[int, Window]


def read_windows(trail: Trail) -> Windows:
    """When each setting was measured first."""
    rows = trail.rows_of(
        """WITH first AS (
            SELECT setting, arg_min(node, ts) AS node, min(ts) AS ts, arg_min(dur, ts) AS dur, count(*) AS n
            FROM measurement WHERE value IS NOT NULL GROUP BY setting
        ),
        -- The last of them that had begun when a request did: one pass over all requests.
        seen AS (
            SELECT DISTINCT f.setting
            FROM disk_op AS d ASOF JOIN first AS f ON d.node = f.node AND d.ts >= f.ts
            WHERE d.ts < f.ts + f.dur
        )
        SELECT f.setting, f.ts, f.dur, f.n, s.setting IS NOT NULL AS has_requests
        FROM first AS f LEFT JOIN seen AS s ON s.setting = f.setting"""
    )
    (span,) = trail.rows_of("SELECT start_ts FROM trail_span")
    return Windows(
        start_ts=span["start_ts"],
        of={row["setting"]: Window(row["ts"], row["dur"], row["n"], row["has_requests"]) for row in rows},
    )


def report_command(trail: str, window: Window, start_ts: int) -> str:
    """The command line that shows the requests of a measurement, for a shell. Moments are from the trail's start, for those
    have nanoseconds; its first measurement may have begun before the trail's first request, which is its start."""
    since, until = max(window.ts - start_ts, 0), window.end_ts - start_ts
    return shlex.join(["iotrail", "report", trail, "--from", _offset(since), "--to", _offset(until)])


def _offset(ns: int) -> str:
    """Nanoseconds as seconds after a trail's start, exactly."""
    seconds = f"{ns // 10**9}.{ns % 10**9:09}".rstrip("0").rstrip(".")
    return f"+{seconds}s"
