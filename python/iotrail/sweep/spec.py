"""A sweep's specification: what is measured, over which settings, and what is expected. A TOML file.

    samples = 400
    expect = "paper"
    constraints = ["run <= stream"]

    [target]
    command = "fio --bs={stream} --numjobs={concurrency} job.fio | jq .jobs[0].read.bw_bytes"
    unit = "bytes/s"

    [workload.concurrency]
    values = [1, 2, 4, 8]

    [workload.stream]
    values = ["64KiB", "1MiB"]

    [system.scheduler]
    values = ["none", "mq-deadline"]
    set = "echo {value} > /sys/block/sdb/queue/scheduler"
    get = "sed 's/.*\\[//; s/\\].*//' /sys/block/sdb/queue/scheduler"
    bypass = "none"

Numbers, sizes and times are ordered, words are not unless `ordered = true`.
"""

import ast
import operator
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iotrail.anomaly.space import Codes, Dimension, Flags, Space, Value
from iotrail.errors import UsageError
from iotrail.units import BYTES, NANOSECONDS

# Combinations of values of which the feasible ones are listed.
MOST_COMBINATIONS = 20_000_000

_MEASURE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")
_KEYS = {"samples", "adaptive", "seed", "expect", "constraints", "target", "workload", "system", "repeat"}
_DIMENSION_KEYS = {"values", "ordered", "set", "get", "bypass"}
_TARGET_KEYS = {"simulator", "command", "device", "model", "seconds", "unit", "better", "timeout", "faults"}
_REPEAT_KEYS = {"least", "most", "within"}


@dataclass(frozen=True)
class Control:
    """How a setting of the system is made and read back; shell commands, in which `{value}` is the value."""

    set: str | None = None
    get: str | None = None
    # the value with which the component does nothing
    bypass: Value | None = None
    # whether `get` says what is in effect
    is_read_back: bool = True


@dataclass(frozen=True)
class Repeats:
    """How often a setting is measured: until the 95 % interval of its mean is `within` a share of it."""

    least: int = 1
    most: int = 5
    within: float = 0.05


@dataclass(frozen=True)
class Target:
    """What is measured: a simulator by its name, a shell command that prints one number, or a block device: its path, or a
    device file that it is emulated by."""

    simulator: str | None = None
    command: str | None = None
    device: str | None = None
    # device file that says what is expected of the device
    model: str | None = None
    # how long a measurement of a device takes
    seconds: float = 5.0
    unit: str = ""
    is_higher_better: bool = True
    timeout_s: float = 600.0
    faults: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """What its number is called in the layer application."""
        return "value" if self.command is not None else "throughput_bytes_per_s"


@dataclass(frozen=True)
class Spec:
    """All of it; `text` is the file's, which a trail keeps."""

    path: str
    text: str
    dimensions: tuple[Dimension, ...]
    # names of the dimensions that are the workload's; the others are the system's
    workload: frozenset[str]
    controls: Mapping[str, Control]
    constraints: tuple[str, ...]
    target: Target
    expect: str | None
    # settings to measure in all
    samples: int
    # whether two thirds of them are chosen by what was measured
    is_adaptive: bool
    seed: int
    repeats: Repeats

    def space(self) -> Space:
        """The settings that the constraints leave."""
        combinations = 1
        for dimension in self.dimensions:
            combinations *= len(dimension.values)
        if combinations > MOST_COMBINATIONS:
            raise UsageError(
                f"{self.path}: {combinations:,} combinations of values, expected at most {MOST_COMBINATIONS:,}",
                "leave out dimensions or values",
            )
        codes = np.stack(
            [
                grid.reshape(-1)
                for grid in np.meshgrid(
                    *(np.arange(len(one.values)) for one in self.dimensions), indexing="ij"
                )
            ],
            axis=1,
        )
        feasible = np.ones(len(codes), dtype=bool)
        for constraint in self.constraints:
            feasible &= evaluate(constraint, self.dimensions, codes, self.path)
            if not feasible.any():
                raise UsageError(f"{self.path}: no setting is left by the constraints up to {constraint!r}")
        return Space(self.dimensions, codes[feasible])


def read(path: Path) -> Spec:
    """Reads a specification.

    Raises `UsageError` for a file that can't be read, a key that isn't known or missing, and values that contradict.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return parse(text, str(path))


def parse(text: str, path: str) -> Spec:
    """A specification from its text; `path` is what errors call it."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    _check_keys(content, _KEYS, path, "")
    target = _target(_table(content, "target", path), path)
    dimensions, controls, workload = [], {}, set()
    for part in ("workload", "system"):
        for name, given in _table(content, part, path, is_needed=False).items():
            key = f"{part}.{name}"
            if not name.isidentifier():
                raise UsageError(f"{path}: {key}: expected a name of letters, digits and _, found {name!r}")
            if not isinstance(given, dict):
                raise UsageError(f"{path}: {key}: expected a table with values, found {given!r}")
            _check_keys(given, _DIMENSION_KEYS, path, f"{key}.")
            if name in controls:
                raise UsageError(f"{path}: {name} is a dimension of the workload and of the system")
            dimensions.append(_dimension(name, given, key, path))
            controls[name] = _control(given, dimensions[-1], key, path)
            if part == "workload":
                workload.add(name)
    if not dimensions:
        raise UsageError(f"{path}: no dimension", "add [workload.NAME] or [system.NAME] with values = […]")
    constraints = content.get("constraints", [])
    if not isinstance(constraints, list) or not all(isinstance(one, str) for one in constraints):
        raise UsageError(
            f'{path}: constraints: expected a list like ["run <= stream"], found {constraints!r}'
        )
    expect = content.get("expect")
    if expect is not None and not isinstance(expect, str):
        raise UsageError(f"{path}: expect: expected a name or a file, found {expect!r}")
    if "samples" in content and "adaptive" in content:
        raise UsageError(
            f"{path}: samples and adaptive can't be combined", "both say how many settings are measured"
        )
    is_adaptive = "adaptive" in content
    return Spec(
        path=path,
        text=text,
        dimensions=tuple(dimensions),
        workload=frozenset(workload),
        controls=controls,
        constraints=tuple(constraints),
        target=target,
        expect=expect,
        samples=_integer(content, "adaptive" if is_adaptive else "samples", 400, path),
        is_adaptive=is_adaptive,
        seed=_integer(content, "seed", 1, path, least=0),
        repeats=_repeats(_table(content, "repeat", path, is_needed=False), path),
    )


def _check_keys(given: Mapping[str, Any], known: set[str], path: str, prefix: str) -> None:
    for key in given:
        if key not in known:
            raise UsageError(
                f"{path}: {prefix}{key}: not a key here", f"expected one of {', '.join(sorted(known))}"
            )


def _table(content: Mapping[str, Any], key: str, path: str, *, is_needed: bool = True) -> dict[str, Any]:
    given = content.get(key, None if is_needed else {})
    if not isinstance(given, dict):
        found = "nothing" if given is None else repr(given)
        raise UsageError(f"{path}: expected a table [{key}], found {found}")
    return given


def _integer(content: Mapping[str, Any], key: str, default: int, path: str, least: int = 1) -> int:
    given = content.get(key, default)
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise UsageError(f"{path}: {key}: expected a number, at least {least}, found {given!r}")
    return given


def _number(content: Mapping[str, Any], key: str, default: float, path: str, prefix: str) -> float:
    given = content.get(key, default)
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < float("inf"):
        raise UsageError(f"{path}: {prefix}{key}: expected a number above 0, found {given!r}")
    return float(given)


def _seconds(content: Mapping[str, Any], key: str, default: float, path: str, prefix: str) -> float:
    """A time with its unit, or a number of seconds."""
    given = content.get(key, default)
    if not isinstance(given, str):
        return _number(content, key, default, path, prefix)
    number, unit = _measure(given)
    if unit != "ns" or not number:
        raise UsageError(f'{path}: {prefix}{key}: expected a time above 0, like "2min", found {given!r}')
    return number / NANOSECONDS["s"]


def _text(content: Mapping[str, Any], key: str, path: str, prefix: str) -> str | None:
    given = content.get(key)
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{path}: {prefix}{key}: expected a text, found {given!r}")
    return given


def _target(given: Mapping[str, Any], path: str) -> Target:
    _check_keys(given, _TARGET_KEYS, path, "target.")
    kinds = {name: _text(given, name, path, "target.") for name in ("simulator", "command", "device")}
    if sum(kind is not None for kind in kinds.values()) != 1:
        raise UsageError(f"{path}: [target]: expected one of {', '.join(kinds)}")
    simulator = kinds["simulator"]
    if simulator not in (None, "stack"):
        raise UsageError(f'{path}: target.simulator: expected "stack", found {simulator!r}')
    better = given.get("better", "higher")
    if better not in ("higher", "lower"):
        raise UsageError(f'{path}: target.better: expected "higher" or "lower", found {better!r}')
    faults = given.get("faults", [])
    if not isinstance(faults, list) or not all(isinstance(one, str) for one in faults):
        raise UsageError(f"{path}: target.faults: expected a list of names, found {faults!r}")
    return Target(
        **kinds,
        model=_text(given, "model", path, "target."),
        seconds=_number(given, "seconds", 5.0, path, "target."),
        unit=_text(given, "unit", path, "target.") or ("" if kinds["command"] else "bytes/s"),
        is_higher_better=better == "higher",
        timeout_s=_seconds(given, "timeout", Target.timeout_s, path, "target."),
        faults=tuple(faults),
    )


def _repeats(given: Mapping[str, Any], path: str) -> Repeats:
    _check_keys(given, _REPEAT_KEYS, path, "repeat.")
    least = _integer(given, "least", Repeats.least, path)
    most = _integer(given, "most", max(Repeats.most, least), path)
    if most < least:
        raise UsageError(f"{path}: repeat.most: expected at least {least}, as repeat.least, found {most}")
    return Repeats(least, most, _number(given, "within", Repeats.within, path, "repeat."))


def _dimension(name: str, given: Mapping[str, Any], key: str, path: str) -> Dimension:
    values = given.get("values")
    if not isinstance(values, list) or not values:
        raise UsageError(f"{path}: {key}.values: expected a list of values, found {values!r}")
    if any(not isinstance(one, str | int | float | bool) for one in values):
        raise UsageError(f"{path}: {key}.values: expected numbers or texts, found {values!r}")
    ordered = given.get("ordered")
    if ordered is not None and not isinstance(ordered, bool):
        raise UsageError(f"{path}: {key}.ordered: expected true or false, found {ordered!r}")
    if all(isinstance(one, bool) for one in values):
        return Dimension(name, tuple("yes" if one else "no" for one in values), is_ordered=False)
    numbers, units = zip(*(_measure(one) for one in values), strict=True)
    if None in numbers:
        words = tuple(one if isinstance(one, str) else str(one) for one in values)
        return Dimension(name, words, is_ordered=bool(ordered))
    if len(set(units)) > 1:
        raise UsageError(f"{path}: {key}.values: expected values of one unit, found {values!r}")
    if ordered is False:
        return Dimension(name, tuple(numbers), is_ordered=False, unit=units[0])
    if list(numbers) != sorted(numbers):
        raise UsageError(
            f"{path}: {key}.values: expected numbers in order, found {values!r}",
            "set ordered = false if they have none",
        )
    return Dimension(name, tuple(numbers), unit=units[0])


def _measure(value: str | int | float | bool) -> tuple[int | float | None, str]:
    """A value in bytes or ns with that unit, or a number without; None for a word."""
    if isinstance(value, bool):
        return None, ""
    if isinstance(value, int | float):
        return (value, "") if np.isfinite(value) else (None, "")
    found = _MEASURE.fullmatch(value.strip())
    if not found:
        return None, ""
    number, unit = float(found[1]), found[2]
    for scale, name in ((BYTES, "bytes"), (NANOSECONDS, "ns")):
        if unit in scale:
            scaled = number * scale[unit]
            return (int(scaled) if scaled.is_integer() else scaled), name
    return None, ""


def _control(given: Mapping[str, Any], dimension: Dimension, key: str, path: str) -> Control:
    control = Control(_text(given, "set", path, f"{key}."), _text(given, "get", path, f"{key}."))
    if control.get is not None and control.set is None:
        raise UsageError(f"{path}: {key}.get: expected {key}.set with it, found none")
    if "bypass" not in given:
        return control
    bypass = given["bypass"]
    value: Value = "yes" if bypass is True else "no" if bypass is False else bypass
    if isinstance(bypass, str) and dimension.unit:
        number, _ = _measure(bypass)
        value = value if number is None else number
    if value not in dimension.values:
        raise UsageError(f"{path}: {key}.bypass: expected one of its values, found {bypass!r}")
    return Control(control.set, control.get, value)


# ---------------------------------------------------------------------- constraints

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(constraint: str, dimensions: Sequence[Dimension], codes: Codes, path: str) -> Flags:
    """Which settings a constraint permits, such as `run <= stream and not (scheduler == "bfq" and tags > 64)`. Sizes and
    times in quotes have units: `run <= "1MiB"`."""
    try:
        tree = ast.parse(constraint, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: constraint {constraint!r}: {getattr(error, 'msg', error)}") from error
    columns = {
        one.name: np.array(one.values, dtype=object)[codes[:, at]] for at, one in enumerate(dimensions)
    }

    def wrong(what: str) -> UsageError:
        return UsageError(
            f"{path}: constraint {constraint!r}: {what}", f"dimensions are {', '.join(columns)}"
        )

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                if name not in columns:
                    raise wrong(f"no dimension {name}")
                return columns[name]
            case ast.Constant(value=bool() as given):
                return "yes" if given else "no"
            case ast.Constant(value=int() | float() as given):
                return given
            case ast.Constant(value=str() as given):
                number, _ = _measure(given)
                return given if number is None else number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](value(left), value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
        raise wrong(f"{ast.unparse(node)!r} is not a value")

    def holds(node: ast.expr) -> Flags:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return np.asarray(np.logical_and.reduce([holds(part) for part in parts]))
            case ast.BoolOp(op=ast.Or(), values=parts):
                return np.asarray(np.logical_or.reduce([holds(part) for part in parts]))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~holds(operand)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                result = np.ones(len(codes), dtype=bool)
                for op, one, other in zip(ops, [left, *others], others, strict=False):
                    result &= np.broadcast_to(
                        _COMPARISONS[type(op)](value(one), value(other)), len(codes)
                    ).astype(bool)
                return result
        raise wrong(f"{ast.unparse(node)!r} is not a comparison")

    try:
        return holds(tree)
    except (TypeError, ZeroDivisionError) as error:
        raise wrong(str(error)) from error
