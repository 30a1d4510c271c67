"""Moments as people write them."""

import time
from collections.abc import Iterator

import pytest

from iotrail.errors import UsageError
from iotrail.moments import moment

# 2026-03-01T12:00:00.000000001Z
NOON = 1_772_366_400_000_000_000
START = NOON + 1


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is an hour ahead of UTC."""
    monkeypatch.setenv("TZ", "XST-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+0s", START),
        ("+30s", START + 30_000_000_000),
        ("+1.5ms", START + 1_500_000),
        ("+2h", START + 7_200_000_000_000),
        ("+0.1ns", START),
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T14:00", NOON + 3_600_000_000_000),
        ("2026-03-01T12:00:00.25+00:00", NOON + 250_000_000),
        ("14:00", NOON + 3_600_000_000_000),
        ("14:00:01", NOON + 3_601_000_000_000),
        # before the start of the trail: the next day
        ("13:00", NOON + 86_400_000_000_000),
    ],
)
def test_moment(text: str, expected: int) -> None:
    """Local where no zone is given, exact to the nanosecond."""
    assert moment(text, START, "--from") == expected


@pytest.mark.parametrize("text", ["", "noon", "30s", "+30", "-1s", "25:00", "2026-13-01T00:00", "+1e3s"])
def test_refused(text: str) -> None:
    """It names the option and the text."""
    with pytest.raises(UsageError, match="--to: expected a moment"):
        moment(text, START, "--to")
