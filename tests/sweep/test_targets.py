"""Measuring settings: by a simulator, by a command that behaves and by those that don't; repeats."""

import os
import time
from pathlib import Path

import pytest

from iotrail.errors import UsageError
from iotrail.sweep import repeats, shell, spec, targets
from iotrail.sweep.spec import Repeats


def target(command: str, timeout: float = 60) -> targets.Measuring:
    """A target of one dimension, n."""
    text = f"[target]\ncommand = '''{command}'''\ntimeout = {timeout}\n[workload.n]\nvalues = [1, 2]\n"
    return targets.target_of(spec.parse(text, "x.toml"), shell.alone)


def test_a_command_prints_a_number() -> None:
    assert target("expr {n} '*' 7")({"n": 6}, 1).value == 42
    assert target("echo ' 1.5e3 bytes/s' # {n}")({"n": 6}, 1).value == 1500


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (": {n}", "printed nothing"),
        ("echo fast {n}", "expected one number on stdout, found 'fast 2'"),
        ("echo 1 {n}", "expected one number on stdout, found '1 2'"),
        ("echo {n}; echo a b", "expected one number"),
        ("echo nan # {n}", "expected one number on stdout, found 'nan'"),
        ("echo broken >&2; exit 3 # {n}", "ended with status 3: broken"),
        ("kill -9 $$ # {n}", "ended with status -9"),
        ("no-such-program-here {n}", "ended with status 127"),
    ],
)
def test_commands_that_measure_nothing(command: str, said: str) -> None:
    found = target(command)({"n": 2}, 1)
    assert found.value is None
    assert said in found.detail


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # A child that ignores SIGTERM.
    command = f"sh -c 'trap : TERM; echo $$ > {pids}; while :; do sleep 0.1; done' & wait # {{n}}"
    found = target(command, timeout=1)({"n": 2}, 1)
    assert found.value is None
    assert found.detail == "did not end within 1 s"
    pid = int(pids.read_text())
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.1)
    raise AssertionError("the command's child is still there")


def test_values_are_quoted() -> None:
    assert shell.fill("echo {n} ${HOME} {other}", {"n": "a b; rm x"}) == "echo 'a b; rm x' ${HOME} {other}"


def test_a_dimension_that_nothing_uses() -> None:
    with pytest.raises(UsageError, match="n: nothing uses it"):
        target("echo 1")


def test_the_simulated_stack() -> None:
    text = '[target]\nsimulator = "stack"\nfaults = ["cancel"]\n[workload.concurrency]\nvalues = [1, 256]\n'
    measure = targets.target_of(spec.parse(text, "x.toml"), shell.alone)
    one = measure({"concurrency": 4}, 1)
    assert one.value is not None
    assert one.layers["application", "throughput_bytes_per_s"] == one.value
    assert one.layers["prefetch", "request_bytes"] == pytest.approx(131_072)
    assert measure({"concurrency": 4}, 1) == one
    assert measure({"concurrency": 4}, 2) != one
    # Cancelled windows are read page by page.
    assert measure({"concurrency": 256}, 1).layers["prefetch", "request_bytes"] < 65_536
    with pytest.raises(UsageError, match="depth: the simulated stack has no such dimension"):
        targets.target_of(spec.parse(text.replace("concurrency", "depth"), "x.toml"), shell.alone)


def test_repeats_until_the_interval_is_narrow() -> None:
    rule = Repeats(least=2, most=5, within=0.05)
    assert not repeats.is_enough([100], 0, rule)
    assert repeats.is_enough([100, 100.1], 0, rule)
    assert not repeats.is_enough([100, 120], 0, rule)
    assert repeats.is_enough([100, 120, 90, 110, 100], 0, rule)
    # Failed ones count, so that it ends; what only fails is given up.
    assert repeats.is_enough([100, 120], 3, rule)
    assert not repeats.is_enough([], 1, rule)
    assert repeats.is_enough([], 2, rule)
    assert repeats.is_enough([100], 0, Repeats(least=1))


def test_what_repeats_say() -> None:
    rule = Repeats()
    assert repeats.summarize([], rule) == repeats.Sampled(None, None, None, "failed")
    assert repeats.summarize([7], rule) == repeats.Sampled(7, None, None, "ok")
    narrow = repeats.summarize([100, 101, 99], rule)
    assert (narrow.value, narrow.state) == (100, "ok")
    # Student's t with 2 degrees of freedom, 4.303
    assert narrow.high == pytest.approx(100 + 4.303 / 3**0.5, abs=1e-3)
    assert repeats.summarize([100, 140, 60], rule).state == "wide"
    bfq = repeats.summarize([17.7, 10.0, 17.6, 10.1, 17.8], rule)
    assert bfq.state == "two modes"
    assert bfq.value == pytest.approx(17.7)
    assert (bfq.low, bfq.high) == (10.0, 17.8)
    # One value apart from the others is wrong.
    apart = repeats.summarize([100, 101, 99, 30], rule)
    assert (apart.value, apart.state) == (100, "ok")
    assert apart.low == pytest.approx(100 - 4.303 / 3**0.5, abs=1e-3)
