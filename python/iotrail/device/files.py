"""Write device files: values in readable units, each with its source (crates/sim/src/file reads them)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrail.device.estimates import Estimate
from iotrail.errors import DeviceError
from iotrail.visible import visible

FORMAT = 1

# End of a parameter's name -> unit in the file, and how many of the parameter's unit one is. The longest end first.
_UNITS = (
    ("_bytes_per_s", "MB/s", 1e6),
    ("_bytes", "B", 1),
    ("_ns", "ms", 1e6),
    ("_w", "W", 1),
)


@dataclass(frozen=True)
class _Value:
    """A value as it stands in a file."""

    name: str
    text: str
    unit: str | None


def write(
    path: Path, *, name: str, kind: str, parameters: Mapping[str, Any], estimates: Mapping[str, Estimate]
) -> None:
    """Write a device file.

    Args:
        path: where; what is there is replaced
        name: the device's name for people
        kind: disk or ssd or fixed
        parameters: what the simulator takes: names with units, tables, lists of tables of numbers; None is left out
        estimates: by path of a parameter, as `bus.read_ns`, or of a table, as `seek`: where its value is from

    Raises:
        DeviceError: the file can't be written.
    """
    lines = [
        f"format = {FORMAT}",
        f"kind = {_text(kind)}",
        f"name = {_text(name)}",
        *_table(kind, "", parameters, estimates),
    ]
    try:
        path.write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise DeviceError(f"cannot write {path}: {error.strerror}") from error


def _table(
    header: str, place: str, fields: Mapping[str, Any], estimates: Mapping[str, Estimate]
) -> Iterator[str]:
    tables = {}
    if any(value is not None and not isinstance(value, Mapping) for value in fields.values()):
        yield from ("", f"[{header}]")
    for key, value in fields.items():
        path = f"{place}.{key}" if place else key
        if isinstance(value, Mapping):
            tables[key] = value
        elif value is not None:
            written = _value(key, value)
            yield f"{written.name} = {{ value = {written.text}{_unit(written)}{_source(path, place, written, estimates)} }}"
    for key, value in tables.items():
        yield from _table(f"{header}.{key}", f"{place}.{key}" if place else key, value, estimates)


def _value(key: str, value: Any) -> _Value:
    """A value in the unit of files, without the unit in its name."""
    if isinstance(value, bool):
        return _Value(key, "true" if value else "false", None)
    if isinstance(value, str):
        return _Value(key, _text(value), None)
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        rows = [{inner: _value(inner, number) for inner, number in row.items()} for row in value]
        texts = ", ".join(
            "{ " + ", ".join(f"{each.name} = {each.text}" for each in row.values()) + " }" for row in rows
        )
        units = ", ".join(f"{each.name} = {_text(each.unit or 'count')}" for each in rows[0].values())
        return _Value(key, f"[{texts}]", f"{{ {units} }}")
    for end, unit, factor in _UNITS:
        if key.endswith(end):
            return _Value(key.removesuffix(end), _numbers(value, factor), unit)
    return _Value(key, _numbers(value, 1), "count" if _is_whole(value) else "ratio")


def _is_whole(value: Any) -> bool:
    return all(map(_is_whole, value)) if isinstance(value, list) else isinstance(value, int)


def _numbers(value: Any, factor: float) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_numbers(each, factor) for each in value)}]"
    # 15 digits are exact to the nanosecond and the byte
    return str(value) if factor == 1 and isinstance(value, int) else f"{value / factor:.15g}"


def _unit(written: _Value) -> str:
    if written.unit is None:
        return ""
    return f", unit = {written.unit}" if written.unit.startswith("{") else f", unit = {_text(written.unit)}"


def _source(path: str, place: str, written: _Value, estimates: Mapping[str, Estimate]) -> str:
    """Source and standard error of a value: its own, or those of its table."""
    while path and path not in estimates:
        path = path.rpartition(".")[0]
    if not path:
        return f", source = {_text('default: the requests do not tell')}"
    estimate = estimates[path]
    source = f", source = {_text(estimate.source)}"
    if estimate.error is None or not isinstance(estimate.value, (int, float)) or written.unit is None:
        return source
    factor = next((factor for end, _, factor in _UNITS if path.endswith(end)), 1)
    return f"{source}, error = {estimate.error / factor:.3g}"


def _text(text: str) -> str:
    """A TOML basic string (https://toml.io, 1.0.0): control characters are shown as letters."""
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
