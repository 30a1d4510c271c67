"""An expectation that is a user's Python function: `expect = "FILE.py:FUNCTION"` in a specification.

It is called with a setting, values by the names of dimensions, sizes in bytes and times in ns. It returns the number that the
target is expected to measure, or numbers layer by layer: `{"application": {"value": 2.1e6}, "device": {"seek_ns": 3e6}}`.
"""

import importlib.util
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeGuard

from iotrail.errors import UsageError
from iotrail.expected.workload import Expected

# The layer of the target's own number.
APPLICATION = "application"


def load(where: str, path: str, metric: str) -> Callable[[Mapping[str, Any]], list[Expected]]:
    """The function that "FILE.py:FUNCTION" names, the file beside the specification `path`; `metric` is what the target's own
    number is called in the layer application.

    Raises `UsageError` if there is none, or it can't be loaded; so does what is returned where the function fails or returns
    no number above 0 for the target.
    """
    name, _, function = where.rpartition(":")
    file = Path(path).parent / name
    spec = importlib.util.spec_from_file_location("iotrail_expectation", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{path}: expect: {where}: there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path}: expect: cannot load {file}: {type(error).__name__}: {error}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{path}: expect: {file} has no function {function}")

    def expect(setting: Mapping[str, Any]) -> list[Expected]:
        text = ", ".join(f"{name}={value}" for name, value in setting.items())
        try:
            answer = found(dict(setting))
        except Exception as error:
            raise UsageError(f"{path}: {where} failed for {text}: {type(error).__name__}: {error}") from error
        layers = answer if isinstance(answer, Mapping) else {APPLICATION: {metric: answer}}
        target = layers[APPLICATION].get(metric) if isinstance(layers.get(APPLICATION), Mapping) else None
        if not _is_number(target) or not target > 0:
            raise UsageError(
                f"{path}: {where}: expected a number above 0 for {text}, found {target if isinstance(answer, Mapping) else answer!r}"
            )
        expected = [Expected(APPLICATION, metric, float(target))]
        for layer, metrics in layers.items():
            for name, value in metrics.items() if isinstance(metrics, Mapping) else [("", metrics)]:
                if not name or not _is_number(value):
                    raise UsageError(
                        f"{path}: {where}: {layer} {name}: expected a number for {text}, found {value!r}"
                    )
                if (layer, name) != (APPLICATION, metric):
                    expected.append(Expected(str(layer), str(name), float(value)))
        return expected

    return expect


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
