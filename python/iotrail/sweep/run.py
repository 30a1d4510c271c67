"""The sweep itself: settings in random order, each measured often enough, surprising ones again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from iotrail.anomaly.pursuit import Pursuit
from iotrail.anomaly.space import Codes, Space
from iotrail.errors import SweepError
from iotrail.expected.user import APPLICATION
from iotrail.expected.workload import Expected
from iotrail.sweep.journal import Journal, Measurement
from iotrail.sweep.repeats import Sampled, is_enough, summarize
from iotrail.sweep.settings import Settings
from iotrail.sweep.spec import Repeats, Spec
from iotrail.sweep.targets import Measuring

# Purposes of measurements, see table `measurement`.
UNIFORM, AGAIN = "uniform", "again"
# Measurements of a surprising setting, at least: of three, two agree.
_AGAIN = 3
# Settings that fail, one after the other from the first on, before the sweep ends.
_MOST_FAILED = 3

Code = tuple[int, ...]


class Sweep:
    """A sweep that runs: what it has measured, by setting."""

    def __init__(
        self,
        spec: Spec,
        space: Space,
        expected: Mapping[Code, Sequence[Expected]],
        measure: Measuring,
        settings: Settings,
        journal: Journal,
        now: Callable[[], int],
        measured: Iterable[Measurement] = (),
    ) -> None:
        """`measured` is what was measured before, `now` the clock of trails in ns."""
        self.spec = spec
        self.space = space
        self.expected = expected
        self.measurements: dict[Code, list[Measurement]] = {}
        for one in measured:
            self.measurements.setdefault(one.setting, []).append(one)
        self._measure = measure
        self._settings = settings
        self._journal = journal
        self._now = now

    def run(self, codes: Codes, advance: Callable[[str], None]) -> None:
        """Measures settings; `advance` is called after each, with what is going on.

        Raises:
            SweepError: a setting can't be made, or the first ones can't be measured.
        """
        every = [code_of(row) for row in codes]
        for number, code in enumerate(every):
            self._sample(code, UNIFORM, self.spec.repeats)
            advance(UNIFORM)
            if number + 1 == _MOST_FAILED and not any(map(self._values, every[:_MOST_FAILED])):
                raise SweepError(
                    f"the first {_MOST_FAILED} settings could not be measured: {self.measurements[code][-1].detail}",
                    "try the command by hand",
                )
        repeats = self.spec.repeats
        often = replace(repeats, least=max(repeats.least, _AGAIN), most=max(repeats.most, _AGAIN))
        tried: set[Code] = set()
        while again := [code for code in self._surprising(every) if code not in tried]:
            for code in again:
                self._sample(code, AGAIN, often)
                advance(AGAIN)
            tried.update(again)

    def sampled(self, code: Code) -> Sampled:
        """What the measurements of a setting say."""
        return summarize(self._values(code), self.spec.repeats)

    def _values(self, code: Code) -> list[float]:
        return [one.value for one in self.measurements.get(code, []) if one.value is not None]

    def _sample(self, code: Code, purpose: str, repeats: Repeats) -> None:
        """Measures a setting until that is enough; failures of a sweep before don't count."""
        setting, failed = self.space.setting(code), 0
        while not is_enough(self._values(code), failed, repeats):
            self._settings.apply(setting)
            begin = self._now()
            found = self._measure(setting, self.spec.seed + len(self.measurements.get(code, [])))
            measurement = Measurement(
                setting=code,
                purpose=purpose,
                ts=begin,
                dur=self._now() - begin,
                value=found.value,
                detail=found.detail,
                layers={f"{layer}/{metric}": value for (layer, metric), value in found.layers.items()},
            )
            self._journal.measured(measurement)
            self.measurements.setdefault(code, []).append(measurement)
            failed += found.value is None

    def _surprising(self, codes: Sequence[Code]) -> list[Code]:
        """Settings whose loss doesn't fit what the others say."""
        known = [(code, loss) for code in codes if (loss := self._loss(code)) is not None]
        if not known:
            return []
        pursuit = Pursuit(
            self.space, np.array([code for code, _ in known]), np.array([loss for _, loss in known])
        )
        wrong = pursuit.wrong(pursuit.run())
        return [code for (code, _), chance in zip(known, wrong, strict=True) if chance > 0.5]

    def _loss(self, code: Code) -> float | None:
        """log(expected / measured), or the reverse where less is better; None if either isn't known."""
        value, target = self.sampled(code).value, (APPLICATION, self.spec.target.metric)
        expected = [one.value for one in self.expected.get(code, []) if (one.layer, one.metric) == target]
        if not expected or expected[0] <= 0 or value is None or value <= 0:
            return None
        loss = log(expected[0] / value)
        return loss if self.spec.target.is_higher_better else -loss


def code_of(row: Iterable[int]) -> Code:
    """A setting's codes as a key."""
    return tuple(int(code) for code in row)
