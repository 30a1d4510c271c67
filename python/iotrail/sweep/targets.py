"""What is measured: a simulator, or a command that prints one number."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from iotrail.anomaly.space import Value
from iotrail.errors import UsageError
from iotrail.sweep import shell, stack
from iotrail.sweep.shell import Running
from iotrail.sweep.spec import Spec, Target

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Measured:
    """One measurement. `value` is None if it failed, and `detail` says why; `layers` has what layers showed, by layer and
    metric."""

    value: float | None
    detail: str = ""
    layers: Mapping[tuple[str, str], float] = field(default_factory=dict)


class Measuring(Protocol):
    """Measures one setting; repeats have other seeds."""

    def __call__(self, setting: Mapping[str, Value], seed: int) -> Measured: ...


# Metrics of the simulated stack, by layer and metric.
_LAYERS = {
    "throughput_bytes_per_s": ("application", "throughput_bytes_per_s"),
    "requests_per_stream": ("prefetch", "requests_per_stream"),
    "prefetch_request_bytes": ("prefetch", "request_bytes"),
    "useful_share": ("prefetch", "useful_share"),
    "request_bytes": ("scheduler", "request_bytes"),
    "seek_distance": ("scheduler", "seek_distance"),
    "idle_ns": ("scheduler", "idle_ns"),
    "seek_ns": ("device", "seek_ns"),
    "rotation_ns": ("device", "rotation_ns"),
    "transfer_ns": ("device", "transfer_ns"),
}


def target_of(spec: Spec, running: Running) -> Measuring:
    """How settings of a simulator or a command are measured; `running` makes a context in which a command runs."""
    target = spec.target
    if target.command is not None:
        _check_places(spec, target.command)
        return lambda setting, seed: _run(target, setting, running)
    for dimension in spec.dimensions:
        if dimension.name not in stack.DIMENSIONS:
            raise UsageError(
                f"{spec.path}: {dimension.name}: the simulated stack has no such dimension",
                f"it has {', '.join(stack.DIMENSIONS)}",
            )

    def simulated(setting: Mapping[str, Value], seed: int) -> Measured:
        (outcome,) = stack.simulate([setting], faults=target.faults, seed=seed)
        layers = {place: outcome[name] for name, place in _LAYERS.items() if outcome[name] is not None}
        return Measured(outcome["throughput_bytes_per_s"], layers=layers)

    return simulated


def _check_places(spec: Spec, command: str) -> None:
    """Refuses a command that a dimension of the workload does nothing to."""
    for dimension in spec.dimensions:
        control = spec.controls[dimension.name]
        if f"{{{dimension.name}}}" not in command and control.set is None:
            raise UsageError(
                f"{spec.path}: {dimension.name}: nothing uses it",
                f"name it in target.command as {{{dimension.name}}}, or set it by a command of its own (set = …)",
            )


def _run(target: Target, setting: Mapping[str, Value], running: Running) -> Measured:
    said = shell.run(shell.fill(target.command or "", setting), target.timeout_s, running)
    if said.status != 0:
        return Measured(None, said.why(target.timeout_s))
    words = said.out.split()
    # A number, and perhaps its unit.
    numbers = [bool(_NUMBER.fullmatch(word)) for word in words]
    if numbers not in ([True], [True, False]):
        printed = " ".join(words)[:80]
        return Measured(
            None, f"expected one number on stdout, found {printed!r}" if printed else "printed nothing"
        )
    return Measured(float(words[0]))
