"""Where a process read and wrote where Recorder doesn't say it: followed through its opens, seeks, reads and writes."""

import numpy as np
import numpy.typing as npt

from iotrail.importers.base import Ints
from iotrail.importers.recorder.meaning import CLOSE, MOVE, NOTHING, OPEN, SEEK, Calls

_SEEK_CUR, _SEEK_END = 1, 2
_TOP = 1 << 62


class Positions:
    """Positions of a process' files. Descriptors aren't in the trace: a path that is open twice has no known position."""

    def __init__(self) -> None:
        # handle -> position, if known; handle -> how often it is open
        self.at: dict[int, int] = {}
        self.opens: dict[int, int] = {}
        # Reads and writes of which the place isn't known.
        self.unknown = 0

    def follow(self, calls: Calls, numbers: npt.NDArray[np.int32]) -> Ints:
        """Where these calls were, in their order; -1 unknown or nowhere."""
        place = calls.pos[numbers]
        does = calls.does[numbers]
        acting = np.flatnonzero((does != NOTHING) & (calls.handle[numbers] >= 0))
        chosen = numbers[acting]
        found = [
            self._one(*call)
            for call in zip(
                does[acting].tolist(),
                calls.handle[chosen].tolist(),
                calls.step[chosen].tolist(),
                calls.whence[chosen].tolist(),
                strict=True,
            )
        ]
        if found:
            place[acting] = np.array(found, np.int64)
        self.unknown += int(np.count_nonzero(calls.placed[numbers] & (place < 0)))
        return place

    def _one(self, does: int, handle: int, step: int, whence: int) -> int:
        if does == MOVE:
            at = self.at.get(handle, -1)
            if at < 0:
                return -1
            if step < 0 or at + step > _TOP:
                del self.at[handle]
                return -1
            self.at[handle] = at + step
            return at
        if does == OPEN:
            opens = self.opens[handle] = self.opens.get(handle, 0) + 1
            self._set(handle, step if opens == 1 else -1)
        elif does == CLOSE:
            self.opens[handle] = max(self.opens.get(handle, 0) - 1, 0)
            self._set(handle, -1)
        elif does == SEEK:
            if whence == _SEEK_CUR and handle in self.at:
                step += self.at[handle]
            elif whence != 0 or self.opens.get(handle, 0) > 1:
                step = -1
            self._set(handle, step)
        return -1

    def _set(self, handle: int, at: int) -> None:
        if 0 <= at <= _TOP:
            self.at[handle] = at
        else:
            self.at.pop(handle, None)
