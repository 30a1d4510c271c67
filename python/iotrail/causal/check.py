"""What `iotrail record --causal --check` found: how far a prediction of a run with longer operations was off."""

from typing import Any

from iotrail import units
from iotrail.trail import Trail

_FACTS = "SELECT name, CAST(value AS BIGINT) AS value FROM recording WHERE starts_with(name, 'check_')"


def found(trail: Trail) -> dict[str, Any] | None:
    """`longer_ns` (how much longer an operation took), `took_ns`, `took_longer_ns` and `predicted_ns` (of the program as it is, with longer
    operations, and predicted so), `error` (positive: predicted too long); None if the recording wasn't checked."""
    facts = {name.removeprefix("check_"): value for name, value in trail.query(_FACTS).fetchall()}
    if not facts:
        return None
    return facts | {"error": facts["predicted_ns"] / facts["took_longer_ns"] - 1}


def sentence(check: dict[str, Any]) -> str:
    """The same for people."""
    return (
        f"Checked when it was recorded: with operations that took {units.duration(check['longer_ns'])} longer it ran "
        f"{units.duration(check['took_longer_ns'])} instead of {units.duration(check['took_ns'])}; predicted "
        f"{units.duration(check['predicted_ns'])} ({100 * check['error']:+.1f} %)."
    )
