"""The finding `held_up` of programs that really ran: the slow thread is named, with what it does; of threads that do alike nothing is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iotrail.trail import Trail

# The third thread that is made; the first of the process makes them.
SLOW = 2


def found(trail: Trail) -> tuple[list[str], list[dict[str, object]]]:
    """Names of threads in the order in which they were made, and the findings."""
    threads = trail.rows_of("SELECT tid, pid FROM thread_life ORDER BY tid")
    made = [f"thread {row['tid']}" for row in threads if row["tid"] != row["pid"]]
    return made, trail.rows_of("SELECT * FROM finding_held_up")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("compute", "Mostly it computes meanwhile"),
        ("io", "Mostly it is in pwrite of "),
        ("lock", "Mostly it is in pwrite of "),
    ],
)
def test_the_slow_thread_is_named(
    how: str, says: str, build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    # What it computes while other programs have its core explains little, and nothing is said.
    for _ in range(4):
        made, rows = found(record(build("hold"), how, 40, tmp_path / "file"))
        if rows:
            break
    [row] = rows
    with_lock = " with a lock" if how == "lock" else ""
    assert str(row["title"]).startswith(
        f"hold-{str(row['title'])[5:17]}: {made[SLOW]} holds the others up{with_lock}: "
    ), row
    assert str(row["evidence"]).startswith(says), row


@pytest.mark.parametrize("again", range(3))
def test_nothing_is_said_of_threads_that_do_alike(
    again: int, build: Callable[[str], Path], record: Callable[..., Trail], tmp_path: Path
) -> None:
    trail = record(build("hold"), "alike", 40, tmp_path / "file")
    _, rows = found(trail)
    [[waits]] = trail.query("SELECT COUNT(*) FROM wait_state WHERE state = 'barrier'").fetchall()
    assert waits == 160
    assert rows == []
