"""The simulated stack without faults does what its design's model says; each fault is seen where its mechanism is."""

import numpy as np
import pytest

from iotrail.anomaly.space import Values
from iotrail.errors import UsageError
from iotrail.sweep import stack
from tests.anomaly import planted

SPACE = planted.paper_space()


def settings(number: int, seed: int) -> list[dict[str, str | int | float]]:
    """Uniform settings of the paper's space, by name."""
    codes = SPACE.feasible[
        np.random.default_rng(seed).choice(len(SPACE.feasible), size=number, replace=False)
    ]
    found = []
    for row in codes:
        setting = {one.name: one.values[code] for one, code in zip(SPACE.dimensions, row, strict=True)}
        found.append({**setting, "think": int(setting["think"]) * 1_000_000})
    return found


def losses(given: list[dict[str, str | int | float]], *, faults: tuple[str, ...] = ()) -> Values:
    """1 - measured / expected of each setting."""
    measured = [outcome["throughput_bytes_per_s"] for outcome in stack.simulate(given, faults=faults)]
    expected = [stack.expect(setting)[0].value for setting in given]
    return np.asarray(1 - np.array(measured) / np.array(expected))


@pytest.mark.parametrize("seed", [1, 2])
def test_without_faults_it_does_what_is_expected(seed: int) -> None:
    found = losses(settings(400, seed))
    assert np.mean(np.abs(found) < 0.1) >= 0.95
    assert np.median(found) == pytest.approx(0, abs=0.03)
    # What is faster than designed is no anomaly; nothing falls short.
    assert np.sum(found >= 0.1) <= 1


def test_layers_are_as_expected() -> None:
    given = settings(200, 3)
    names = {
        ("prefetch", "requests_per_stream"): "requests_per_stream",
        ("prefetch", "request_bytes"): "prefetch_request_bytes",
        ("prefetch", "useful_share"): "useful_share",
        ("scheduler", "request_bytes"): "request_bytes",
    }
    for outcome, setting in zip(stack.simulate(given), given, strict=True):
        if setting["concurrency"] in (64, 128) or setting["prefetch"] == "off":
            # At the edge of congestion windows are read ahead now and then.
            continue
        expected = {(one.layer, one.metric): one.value for one in stack.expect(setting)}
        for place, name in names.items():
            if name == "request_bytes" and int(setting["run"]) < 262_144:
                # What is asked for in which short run, and whether it pays to wait for it, depends on the other stream.
                continue
            assert outcome[name] == pytest.approx(expected[place], rel=0.1), (place, setting)


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        ("cancel", {"concurrency": 256, "prefetch": "on", "scheduler": "elevator"}),
        ("distance", {"concurrency": 32, "prefetch": "on", "scheduler": "anticipatory"}),
    ],
)
def test_a_fault_costs_where_it_is(fault: str, where: dict[str, str | int]) -> None:
    setting = {"stream": 1 << 20, "run": 1 << 20, "think": 1_000_000, "whole_file": "yes", **where}
    sound, faulty = (stack.simulate([setting], faults=faults)[0] for faults in ((), (fault,)))
    assert faulty["throughput_bytes_per_s"] < 0.85 * sound["throughput_bytes_per_s"]
    # Streams of one window have nothing that it could do to them.
    short = {**setting, "stream": 65_536, "run": 65_536}
    sound, faulty = (stack.simulate([short], faults=faults)[0] for faults in ((), (fault,)))
    assert faulty["throughput_bytes_per_s"] == pytest.approx(sound["throughput_bytes_per_s"], rel=0.05)


def test_what_the_simulated_stack_does_not_have() -> None:
    with pytest.raises(UsageError, match="no fault slow"):
        stack.simulate([{}], faults=["slow"])
    with pytest.raises(UsageError, match="no color"):
        stack.simulate([{"color": "red"}])
    with pytest.raises(UsageError, match="run_bytes"):
        stack.simulate([{"stream": 65_536, "run": 131_072}])
