"""Fitting a disk: a simulated one is found again from its service times, and useless requests are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrail import native
from iotrail.device.compare import compare
from iotrail.device.demerit import demerit
from iotrail.device.fit import fit
from iotrail.device.memory import find_line
from iotrail.device.observed import Observed
from iotrail.device.rotation import by_phase
from iotrail.device.simulate import Simulator
from iotrail.errors import FitError

ROOT = Path(__file__).resolve().parents[2]

TRUTH: dict[str, Any] = {
    "capacity_bytes": 20_000_000_000,
    "sector_bytes": 512,
    "heads": 6,
    "zones": [{"cylinders": 3_350, "sectors_per_track": sectors} for sectors in (800, 650, 500)],
    "revolution_ns": 8_333_333,
    "track_skew_ns": 900_000,
    "cylinder_skew_ns": 1_200_000,
    "head_switch_ns": 900_000,
    "cylinder_switch_ns": 1_200_000,
    "seek": {"curve": {"a_ns": 1.5e6, "b_ns": 12e6, "c_ns": 4.764e6, "d_ns": 9.6e6, "e": 0.16}},
    "write_settle_ns": 0,
    "zero_latency": False,
    "read_cache": {
        "segments": 8,
        "segment_bytes": 262_144,
        "read_ahead_bytes": 131_072,
        "read_ahead_on_hit": False,
        "track_buffer": False,
    },
    "write_cache": None,
    "bus": {
        "rate_bytes_per_s": 40_000_000,
        "read_overlap": True,
        "read_ns": 300_000,
        "write_ns": 500_000,
        "read_hit_ns": 200_000,
        "write_hit_ns": 200_000,
    },
    "queue_depth": 1,
    "scheduler": "fcfs",
    "age_limit_ns": None,
    "power": None,
}
MS = 1_000_000


@pytest.fixture(scope="module")
def program() -> list[str]:
    return [str(native.binary()), "simulate", "disk"]


def requests(count: int, seed: int = 1) -> Observed:
    """A third writes; of all, a quarter sequential, a fifth near; 4 to 64 KiB; 2 to 40 ms after the one before."""
    random = np.random.default_rng(seed)
    length = 4096 * random.integers(1, 17, count)
    pos = 4096 * random.integers(0, TRUTH["capacity_bytes"] // 4096 - 32, count)
    write = random.random(count) < 0.33
    kind = random.random(count)
    for at in range(1, count):
        end = pos[at - 1] + length[at - 1]
        if kind[at] < 0.25 and end + length[at] <= TRUTH["capacity_bytes"]:
            pos[at], write[at] = end, write[at - 1]
        elif kind[at] < 0.45:
            pos[at] = max(0, pos[at - 1] - 4096 * random.integers(-64, 64))
    pos = np.minimum(pos, TRUTH["capacity_bytes"] - length)
    # with no service time, each arrives so long after the one before
    return Observed(
        write,
        pos,
        length,
        np.cumsum(random.integers(2 * MS, 40 * MS, count)),
        np.zeros(count, dtype=np.int64),
    )


def serve(program: list[str], asked: Observed) -> Observed:
    """The requests as the true disk serves them in turn."""
    with Simulator(program, asked) as simulate:
        service = simulate(TRUTH)
    return replace(asked, service=service, arrival=asked.arrival + np.cumsum(service) - service)


@pytest.fixture(scope="module")
def served(program: list[str]) -> Observed:
    return serve(program, requests(6000))


def test_a_disk_is_found_again(program: list[str], served: Observed) -> None:
    first, second = served[:3000], served[3000:]
    fitted = fit(first, program, capacity_bytes=TRUTH["capacity_bytes"])
    found = fitted.parameters
    assert found["revolution_ns"] == pytest.approx(TRUTH["revolution_ns"], rel=0.002)
    assert found["bus"]["rate_bytes_per_s"] == pytest.approx(40e6, rel=0.02)
    assert found["bus"]["read_overlap"]
    assert fitted.estimates["revolution_ns"].source.startswith("fitted: phases of")
    curve, true = found["seek"]["curve"], TRUTH["seek"]["curve"]
    for distance in (0.1, 0.3, 0.6, 0.9):
        assert seek(curve, distance) == pytest.approx(seek(true, distance), abs=0.6 * MS)
    with Simulator(program, second) as simulate:
        held_out = compare(second, [simulate(found)])
    assert held_out.demerit <= 0.05 * held_out.measured_mean
    for name, part in held_out.classes.items():
        assert part.simulated_mean == pytest.approx(part.measured_mean, rel=0.1), name


def seek(curve: dict[str, float], distance: float) -> float:
    if distance <= curve["e"]:
        return curve["a_ns"] + curve["b_ns"] * distance**0.5
    return curve["c_ns"] + curve["d_ns"] * distance


def test_what_requests_do_not_tell_is_a_default(program: list[str], served: Observed) -> None:
    reads = served[~served.write]
    # without the writes between them, reads arrive as they did
    fitted = fit(reads, program, rpm=7200)
    assert fitted.estimates["write_cache"].source == "default: no writes"
    assert not fitted.estimates["bus.write_hit_ns"].known
    assert fitted.estimates["revolution_ns"].source == "given"
    assert fitted.estimates["bus.read_hit_ns"].source.endswith("reads that memory served")


def constant(column: str, value: int) -> Callable[[Observed], Observed]:
    return lambda all_: replace(all_, **{column: np.full(len(all_), value)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda all_: all_[:1], "1 requests: expected at least 50"),
        (constant("pos", 4096), "all requests are at byte 4096"),
        (constant("arrival", 5), "all requests arrive at one instant"),
        (constant("service", 0), "half of the requests or more have no service time"),
        (constant("service", 5_000_000_000), "half of the requests took 5000000000 ns or more"),
        (lambda all_: replace(all_, pos=all_.pos - 10**12), "expected a position from 0"),
        (lambda all_: replace(all_, arrival=all_.arrival[::-1]), "request 2 arrives before request 1"),
        (lambda all_: replace(all_, service=80_000 + all_.length * 2), "no disk seeks so fast"),
        (lambda all_: replace(all_, pos=all_.pos * 1_000_000), "no disk is larger"),
    ],
)
def test_useless_requests_are_refused(
    served: Observed, change: Callable[[Observed], Observed], message: str
) -> None:
    with pytest.raises(FitError, match=message):
        fit(change(served[:200]), ["false"])


def test_options_that_contradict_the_requests_are_refused(served: Observed) -> None:
    with pytest.raises(FitError, match="capacity: expected at least"):
        fit(served, ["false"], capacity_bytes=4096)
    with pytest.raises(FitError, match="rpm: expected 60 to"):
        fit(served, ["false"], rpm=0)


def test_a_simulator_that_fails_is_named(served: Observed) -> None:
    with pytest.raises(FitError, match="the simulator failed"):
        fit(served[:200], ["false"], rpm=7200)


def test_parameters_are_what_the_simulator_takes(program: list[str], served: Observed) -> None:
    wrong = json.loads(json.dumps(TRUTH))
    wrong["heads"] = 0
    with Simulator(program, served[:50]) as simulate, pytest.raises(FitError, match="heads"):
        simulate(wrong)


def test_demerit_is_the_horizontal_distance() -> None:
    one = np.arange(1000)
    assert demerit(one, one) == 0
    assert demerit(one, one + 7) == 7
    assert demerit(one, np.repeat(one, 3)) == 0
    # half of the second distribution is 10 later
    assert demerit(np.zeros(10), np.repeat([0.0, 10.0], 5)) == pytest.approx(10 / 2**0.5)


def test_the_line_of_memory_is_found_among_waits() -> None:
    random = np.random.default_rng(2)
    length = 4096 * random.integers(1, 9, 2000)
    time = 150_000 + 25 * length + random.integers(0, 3000, 2000)
    waits = random.integers(2 * MS, 12 * MS, 2000)
    is_hit = random.random(2000) < 0.3
    line = find_line(length, np.where(is_hit, time, waits))
    assert line is not None
    assert line.overhead_ns == pytest.approx(151_500, rel=0.02)
    assert line.ns_per_byte == pytest.approx(25, rel=0.02)
    assert line.has(length, np.where(is_hit, time, waits)).sum() == is_hit.sum()
    assert find_line(length, waits) is None


def test_phases_need_requests_near_each_other(served: Observed) -> None:
    far = ~served.near(TRUTH["capacity_bytes"]) & served.write
    apart = served[far]
    apart = apart[np.argsort(apart.pos, kind="stable")][::7]
    assert by_phase(apart, np.cumsum(np.full(len(apart), 1e7))) is None
