"""Estimates of parameters, with the data on which they rest."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """Where a parameter's value is from."""

    value: Any
    # standard error, in the unit of the value; None if it isn't known or the value is a default
    error: float | None
    # "fitted: 3,021 reads elsewhere", "given", "default: …"
    source: str

    @property
    def known(self) -> bool:
        """Whether the requests or the user determine it."""
        return not self.source.startswith("default")


@dataclass
class Draft:
    """Estimates while a fit makes them."""

    capacity: int
    estimates: dict[str, Estimate] = field(default_factory=dict)

    def set(self, name: str, value: Any, source: str, error: float | None = None) -> None:
        """Give a parameter a value, or another one."""
        if error is not None and not np.isfinite(error):
            error = None
        self.estimates[name] = Estimate(value, error, source)

    def __getitem__(self, name: str) -> Any:
        return self.estimates[name].value
