"""Moments as people write them, as nanoseconds since the epoch.

2026-03-01T14:00:05.25+01:00   ISO 8601; without a zone it is local time
14:00, 14:00:05                local time on the day the trail starts, or the next if that is before its start
+30s, +1.5ms, +5min            after the start of the trail
"""

import datetime
import re

from iotrail.errors import UsageError
from iotrail.units import NANOSECONDS

_OFFSET = re.compile(r"\+\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|m|h)")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment(text: str, start_ts: int, option: str) -> int:
    """The moment that `text` says, of a trail that starts at `start_ts`; `option` is named if it says none."""
    text = text.strip()
    if found := _OFFSET.fullmatch(text):
        # in integers: a float of ns since the epoch is no longer exact
        whole, _, fraction = found[1].partition(".")
        unit = NANOSECONDS[found[2]]
        return start_ts + int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
    try:
        if "T" in text or "-" in text:
            return _ns(datetime.datetime.fromisoformat(text).astimezone())
        time = datetime.time.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option}: expected a moment, found {text!r}",
            "2026-03-01T14:00, 14:00, or +30s after the start of the trail",
        ) from error
    start = (_EPOCH + datetime.timedelta(microseconds=start_ts // 1000)).astimezone()
    at = datetime.datetime.combine(start.date(), time.replace(tzinfo=None)).astimezone()
    if _ns(at) < start_ts:
        at = datetime.datetime.combine(
            start.date() + datetime.timedelta(days=1), time.replace(tzinfo=None)
        ).astimezone()
    return _ns(at)


def written(ts: int) -> str:
    """A moment, ns since the epoch, in local time to the millisecond."""
    at = (_EPOCH + datetime.timedelta(microseconds=ts // 1000)).astimezone()
    return at.isoformat(" ", "milliseconds")


def _ns(at: datetime.datetime) -> int:
    since = at - _EPOCH
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000
