"""Requests that a real disk served, as columns, and the classes in which a fit compares them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from iotrail.errors import FitError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Fewer tell nothing: the mean of so many rotational delays is known to 5 % of a revolution only.
LEAST_REQUESTS = 50
# A share of the capacity: some cylinders.
_NEAR = 5e-4
# The longest usual service time; a disk that is far slower is broken.
_MOST_TIME_NS = 1_000_000_000


@dataclass(frozen=True)
class Observed:
    """Reads and writes in the order of arrival, one array element each."""

    write: Mask
    # first byte
    pos: Ints
    # bytes
    length: Ints
    # ns, from any origin
    arrival: Ints
    # ns from the start of service (arrival, if the disk was idle) to completion
    service: Ints

    def __len__(self) -> int:
        return len(self.pos)

    def __getitem__(self, part: slice | Mask) -> "Observed":
        return Observed(
            self.write[part], self.pos[part], self.length[part], self.arrival[part], self.service[part]
        )

    def check(self) -> None:
        """Refuse requests from which nothing can be learned.

        Raises:
            FitError: too few, all of one place or instant, without service times, or out of order.
        """
        hint = "record reads and writes of various places, with the time each took"
        if len(self) < LEAST_REQUESTS:
            raise FitError(f"{len(self)} requests: expected at least {LEAST_REQUESTS}", hint)
        for name, column in (("position", self.pos), ("length", self.length), ("service time", self.service)):
            if column.min() < 0:
                at = int(np.argmin(column))
                raise FitError(f"request {at + 1}: expected a {name} from 0, found {column[at]}")
        if np.median(self.service) == 0:
            raise FitError("half of the requests or more have no service time", hint)
        if np.median(self.service) > _MOST_TIME_NS:
            median = float(np.median(self.service))
            raise FitError(f"half of the requests took {median:.0f} ns or more: expected at most 1 s")
        if (np.diff(self.arrival) < 0).any():
            at = int(np.argmax(np.diff(self.arrival) < 0)) + 1
            raise FitError(f"request {at + 1} arrives before request {at}: expected the order of arrival")
        if self.arrival[0] == self.arrival[-1]:
            raise FitError("all requests arrive at one instant", hint)
        if self.pos.min() == self.pos.max():
            raise FitError(f"all requests are at byte {self.pos[0]}: seeks can't be seen", hint)

    @cached_property
    def previous_end(self) -> Ints:
        """First byte after the previous request; the own position for the first one."""
        return np.concatenate((self.pos[:1], (self.pos + self.length)[:-1]))

    @cached_property
    def sequential(self) -> Mask:
        """Whether a request starts where the previous one ended."""
        return np.concatenate(([False], (self.pos == self.previous_end)[1:]))

    def near(self, capacity: int) -> Mask:
        """Whether a request is so near to the one before that the heads may not have to move."""
        distance: Ints = np.abs(self.pos - self.previous_end)
        return distance <= _NEAR * capacity

    @cached_property
    def serial(self) -> bool:
        """Whether each request arrived after the one before was done. Then they were issued in turn, most likely."""
        return bool((np.diff(self.arrival) >= self.service[:-1]).all())

    @cached_property
    def classes(self) -> Mapping[str, Mask]:
        """The classes that are compared one by one."""
        return {
            "sequential reads": self.sequential & ~self.write,
            "other reads": ~self.sequential & ~self.write,
            "writes": self.write,
        }
