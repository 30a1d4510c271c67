"""The simulated stack as a target: its settings by the names of dimensions, and what is expected of it."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from iotrail import native
from iotrail.anomaly.space import Value
from iotrail.errors import UsageError
from iotrail.expected import paper, stack
from iotrail.expected.device import Disk, SeekCurve
from iotrail.expected.workload import Expected, Length, Workload

# Dimensions that the simulated stack has.
DIMENSIONS = ("concurrency", "stream", "run", "think", "whole_file", "span", "prefetch", "scheduler")
FAULTS = ("cancel", "distance", "reset", "timer")
_PREFETCH_BYTES = 128 * 1024
EXPECTATIONS = {"paper": paper.expect, "stack": stack.expect}


@dataclass(frozen=True)
class Medium:
    """A disk of the simulated stack. By default that of section 5 of Shen, Zhong and Li (FAST 2005), an IBM disk of 36 GB
    and 10,000 turns a minute. Its transfer rates are in a figure only: here they are those of IBM's Ultrastar 36LZX, a disk
    of that size and speed (21 to 36 MB/s: Bryant and O'Hallaron, Computer Systems, 2003, figure 6.13)."""

    size_bytes: int = 36_000_000_000
    turn_ns: int = 6_000_000
    rates: tuple[float, ...] = (36e6, 32e6, 28e6, 25e6, 21e6)
    seek: SeekCurve = field(
        default_factory=lambda: SeekCurve(
            a_ns=1_054_600, b_ns=6_955_500, c_ns=2_753_900, d_ns=6_886_700, e=0.1171
        )
    )

    def disk(self) -> Disk:
        """The same for an expectation."""
        return Disk(self.seek, self.turn_ns, self.rates)

    def json(self) -> str:
        """The same for the simulator. The two parts of a measured seek curve differ where they meet."""
        return json.dumps({**asdict(self), "seek": {**asdict(self.seek), "allow_gap": True}})


def _workload(setting: Mapping[str, Value]) -> dict[str, Any]:
    for name in setting:
        if name not in DIMENSIONS:
            raise UsageError(f"the simulated stack has no {name}", f"it has {', '.join(DIMENSIONS)}")
    stream = int(setting.get("stream", 1 << 20))
    return {
        "concurrency": int(setting.get("concurrency", 1)),
        "stream_bytes": stream,
        "run_bytes": int(setting.get("run", stream)),
        "whole_file": setting.get("whole_file", "no") == "yes",
        "think_ns_per_mib": int(setting.get("think", 0)),
        "span": float(setting.get("span", 1.0)),
    }


def _system(setting: Mapping[str, Value]) -> dict[str, Any]:
    prefetch = setting.get("prefetch", "on")
    size = (
        {"off": None, "on": _PREFETCH_BYTES}.get(prefetch, prefetch)
        if isinstance(prefetch, str)
        else prefetch
    )
    return {"prefetch_bytes": size or None, "scheduler": setting.get("scheduler", "elevator")}


def simulate(
    settings: Iterable[Mapping[str, Value]],
    *,
    faults: Iterable[str] = (),
    seed: int = 1,
    medium: Medium | None = None,
) -> list[dict[str, Any]]:
    """Outcomes of settings, in their order: what each layer showed, by name with its unit.

    Raises `UsageError` for a setting or fault that the simulator refuses.
    """
    given = dict.fromkeys(faults, True)
    for fault in given:
        if fault not in FAULTS:
            raise UsageError(f"the simulated stack has no fault {fault}", f"it has {', '.join(FAULTS)}")
    questions = [
        {"workload": _workload(one), "system": {**_system(one), "faults": given}, "seed": seed}
        for one in settings
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "medium.json"
        path.write_text((medium or Medium()).json())
        return native.answers(["simulate", "stack", path], questions)


def expect(
    setting: Mapping[str, Value], model: str = "stack", medium: Medium | None = None
) -> list[Expected]:
    """What a model expects of a setting: `stack`, the simulated stack's design, or `paper`."""
    workload, system = _workload(setting), _system(setting)
    reads = Workload(
        concurrency=workload["concurrency"],
        streams=(Length(workload["stream_bytes"], 1.0),),
        run_bytes=workload["run_bytes"],
        think_ns_per_mib=workload["think_ns_per_mib"],
        whole_file=workload["whole_file"],
        span=workload["span"],
    )
    return EXPECTATIONS[model](
        reads, paper.System(system["prefetch_bytes"], system["scheduler"]), (medium or Medium()).disk()
    )
