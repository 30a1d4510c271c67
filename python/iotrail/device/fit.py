"""Fit a disk to the requests that a real one served: parameters whose simulated service times are distributed alike.

First the parameters that classes of requests determine by themselves (`classes`), then those of the caches and what
remains, by simulation of the same requests with many candidates (`refine`). What the requests can't tell has a default,
and says so. No device is asked, and no knowledge of models is used.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from iotrail.device import mechanics
from iotrail.device.classes import fit_mechanics, fit_media_rate, fit_memory, fit_rotation
from iotrail.device.compare import Comparison, compare
from iotrail.device.estimates import Draft, Estimate
from iotrail.device.observed import Observed
from iotrail.device.parameters import build
from iotrail.device.refine import refine
from iotrail.device.simulate import Simulator
from iotrail.errors import FitError

# Requests are simulated with their arrivals at so many phases of the rotation, so that their waits are spread evenly.
_PHASES = 4
_MOST_SIMULATED = 20_000
_MOST_BYTES = 1 << 50


@dataclass
class Fitted:
    """A disk fitted to requests."""

    # what `Disk::new` of crates/sim takes, in its JSON
    parameters: dict[str, Any]
    # by parameter
    estimates: dict[str, Estimate]
    # how the fitted disk compares on the requests it was fitted to
    comparison: Comparison


def fit(
    requests: Observed, program: list[str], rpm: float | None = None, capacity_bytes: int | None = None
) -> Fitted:
    """Fit a disk to requests.

    Args:
        requests: what was served, in the order of arrival
        program: the simulator's command line
        rpm: rotational speed, if known
        capacity_bytes: capacity, if known; else the disk ends where the requests do

    Raises:
        FitError: nothing can be learned from these requests, or the simulator failed.
    """
    requests.check()
    end = int((requests.pos + requests.length).max())
    if capacity_bytes is not None and capacity_bytes < end:
        raise FitError(
            f"capacity: expected at least {end} bytes, where the requests end, found {capacity_bytes}"
        )
    if max(end, capacity_bytes or 0) > _MOST_BYTES:
        raise FitError(f"requests end at byte {end}: expected at most {_MOST_BYTES}, no disk is larger")
    draft = Draft(-(-(capacity_bytes or end) // 512) * 512)
    source = "given" if capacity_bytes else "default: the end of the requests"
    draft.set("capacity_bytes", draft.capacity, source)
    reads, medium = fit_memory(draft, requests)
    moves = mechanics.regress(requests, medium, draft.capacity)
    turns = fit_rotation(draft, requests, medium, moves, rpm)
    moves = mechanics.regress(requests, medium, draft.capacity, turns.revolution_ns / 2)
    fit_mechanics(draft, requests, medium, moves, turns, reads)
    fit_media_rate(draft, requests, moves, reads)
    # Simulation is exact but takes its time, and more requests tell little more.
    some = requests[:_MOST_SIMULATED]
    shifts = [int(turns.revolution_ns * part / _PHASES) for part in range(_PHASES)]
    with ExitStack() as stack:
        simulators = [stack.enter_context(Simulator(program, some, shift)) for shift in shifts]
        refine(draft, some, simulators)
        parameters = build(draft.estimates)
        simulated = [simulate(parameters) for simulate in simulators]
    return Fitted(parameters, draft.estimates, compare(some, simulated))
