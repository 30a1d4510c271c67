"""The sweep itself: settings in random order, or chosen by what was measured; each measured often enough, surprising ones again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np

from iotrail.anomaly.pursuit import Fit, Pursuit
from iotrail.anomaly.space import Box, Codes, Space, Values
from iotrail.errors import SweepError
from iotrail.expected.user import APPLICATION
from iotrail.expected.workload import Expected
from iotrail.importers.ids import hash63
from iotrail.sweep import adaptive
from iotrail.sweep.confirm import Pair, choose_pairs
from iotrail.sweep.journal import Journal, Measurement
from iotrail.sweep.repeats import Sampled, is_enough, summarize
from iotrail.sweep.settings import Settings
from iotrail.sweep.spec import Repeats, Spec
from iotrail.sweep.targets import Measuring

# Purposes of measurements, see table `measurement`.
UNIFORM, AGAIN, ADAPTIVE, CONFIRM = "uniform", "again", "adaptive", "confirm"
# What is going on while nothing is measured.
CHOOSING = "choosing"
# Settings on which something that is short rests, up to which they are measured again.
_FEW = 10
# Measurements of a surprising setting, at least: of three, two agree.
_AGAIN = 3
# Settings that fail, one after the other from the first on, before the sweep ends.
_MOST_FAILED = 3
# Of an adaptive sweep's settings: the part that is uniform, at least, and that of the pairs at its end.
UNIFORM_SHARE, CONFIRM_SHARE = 1 / 3, 0.15
# Settings that are chosen at once.
_BATCH = 10
# Loss from which on causes get pairs at the end of an adaptive sweep: what `iotrail anomalies` reports.
_LEAST_LOSS = 0.1

Code = tuple[int, ...]


class Sweep:
    """A sweep that runs: what it has measured, by setting, and the pairs that were measured to confirm clusters."""

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
        self.pairs: list[Pair] = []
        # Taken in the order in which it was measured: what is chosen next then sees what it saw the first time.
        self._before: dict[Code, deque[Measurement]] = {}
        for one in measured:
            self._before.setdefault(one.setting, deque()).append(one)
        self._tried: set[Code] = set()
        self._last: tuple[object, Pursuit, Fit] | None = None
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
        self._sample_all(every, UNIFORM, advance)
        self._sample_surprising(every, advance)
        self._keep_rest()

    def run_adaptive(self, order: Codes, number: int, advance: Callable[[str], None]) -> None:
        """Measures so many settings: a third in `order`, which has all settings at random; then, once a loss stands out,
        where what was measured leaves most open (`iotrail.sweep.adaptive`), and until then uniform ones; at the end pairs across
        the faces of what was found. The choice follows from what was measured and the seed.

        Raises:
            SweepError: a setting can't be made, or the first ones can't be measured.
        """
        number = min(number, len(order))
        pairs = int(CONFIRM_SHARE * number) // 2
        drawn = (code for row in order if (code := code_of(row)) not in self.measurements)
        every = _take(drawn, int(np.ceil(UNIFORM_SHARE * number)))
        purpose = UNIFORM
        self._sample_all(every, purpose, advance)
        self._sample_surprising(every, advance)
        while len(every) < number - 2 * pairs:
            size = min(_BATCH, number - 2 * pairs - len(every))
            chosen: list[Code] = []
            if purpose == ADAPTIVE or adaptive.stands_out(self._known(every)[1]):
                purpose = ADAPTIVE
                advance(CHOOSING)
                chosen = self._choose(every, size)
            chosen += _take((code for code in drawn if code not in chosen), size - len(chosen))
            self._sample_all(chosen, purpose, advance)
            every += chosen
            self._sample_surprising(every, advance)
        advance(CHOOSING)
        boxes = self._boxes(every)
        self.confirm(choose_pairs(self.space, boxes, every, self.spec.seed, total=pairs), advance)
        # What no pair needs.
        left = _take(drawn, number - len(every) - 2 * len(self.pairs))
        self._sample_all(left, purpose, advance)
        self._sample_surprising(every + left, advance)
        self._keep_rest()

    def confirm(self, pairs: Sequence[Pair], advance: Callable[[str], None]) -> None:
        """Measures pairs, one after the other.

        Raises:
            SweepError: a setting can't be made.
        """
        for pair in pairs:
            for code in pair.settings:
                self._sample(code, CONFIRM, self.spec.repeats)
                advance(CONFIRM)
        self.pairs += pairs

    def sampled(self, code: Code) -> Sampled:
        """What the measurements of a setting say."""
        return summarize(self._values(code), self.spec.repeats)

    def purpose(self, code: Code) -> str:
        """Why a setting was measured first."""
        return self.measurements[code][0].purpose

    @property
    def uniform(self) -> int:
        """How many uniform samples have a known loss, or a known value if nothing is expected."""
        known = [code for code in self.measurements if self.purpose(code) == UNIFORM]
        if not self.expected:
            return sum(self.sampled(code).value is not None for code in known)
        return len(self._known(known)[0])

    def counted(self, code: Code) -> list[Measurement]:
        """The measurements of a setting that say what it reaches: those for a pair only if there are no others, as
        what a cluster was found by isn't changed by what confirms it."""
        measurements = self.measurements.get(code, [])
        return [one for one in measurements if one.purpose != CONFIRM] or measurements

    def _values(self, code: Code) -> list[float]:
        return [one.value for one in self.counted(code) if one.value is not None]

    def _sample_all(self, codes: Sequence[Code], purpose: str, advance: Callable[[str], None]) -> None:
        is_begin = not self.measurements
        for number, code in enumerate(codes, 1):
            self._sample(code, purpose, self.spec.repeats)
            advance(purpose)
            if is_begin and number == _MOST_FAILED and not any(map(self._values, codes[:number])):
                raise SweepError(
                    f"the first {_MOST_FAILED} settings could not be measured: {self.measurements[code][-1].detail}",
                    "try the command by hand",
                )

    def _sample_surprising(self, codes: Sequence[Code], advance: Callable[[str], None]) -> None:
        """Measures settings again whose loss doesn't fit the others'."""
        advance(CHOOSING)
        repeats = self.spec.repeats
        often = replace(repeats, least=max(repeats.least, _AGAIN), most=max(repeats.most, _AGAIN))
        while again := [code for code in self._surprising(codes) if code not in self._tried]:
            for code in again:
                self._sample(code, AGAIN, often)
                advance(AGAIN)
            self._tried.update(again)

    def _sample(self, code: Code, purpose: str, repeats: Repeats) -> None:
        """Measures a setting until that is enough; failures of a sweep before don't count."""
        setting, failed = self.space.setting(code), 0
        measurements = self.measurements.setdefault(code, [])
        before = self._before.get(code)
        while not is_enough(self._values_for(code, purpose), failed, repeats):
            if before:
                measurements.append(before.popleft())
                continue
            self._settings.apply(setting)
            begin = self._now()
            found = self._measure(setting, _seed(self.spec.seed, code, len(measurements)))
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
            measurements.append(measurement)
            failed += found.value is None

    def _values_for(self, code: Code, purpose: str) -> list[float]:
        """The values that count for a purpose: a pair is measured anew."""
        if purpose != CONFIRM:
            return self._values(code)
        measurements = self.measurements.get(code, [])
        return [one.value for one in measurements if one.purpose == CONFIRM and one.value is not None]

    def _keep_rest(self) -> None:
        """Keeps what was measured before and was not needed again."""
        for code, left in self._before.items():
            if left:
                self.measurements.setdefault(code, []).extend(left)
                left.clear()

    def _known(self, codes: Sequence[Code]) -> tuple[list[Code], Values]:
        """Settings whose loss is known, and that."""
        known = [(code, loss) for code in codes if (loss := self._loss(code)) is not None]
        return [code for code, _ in known], np.array([loss for _, loss in known])

    def _surprising(self, codes: Sequence[Code]) -> list[Code]:
        """Settings whose loss doesn't fit what the others say, and the few that alone say that something is short: some settings vary
        more than others from one measurement to the next, and those would be taken for a cause."""
        known, losses = self._known(codes)
        if not known:
            return []
        pursuit, fit = self._fitted(known, losses)
        again = pursuit.wrong(fit) > 0.5
        for box in self._boxes(codes):
            inside = self.space.contains(box, np.array(known))
            if inside.sum() <= _FEW:
                again |= inside
        return [code for code, is_again in zip(known, again, strict=True) if is_again]

    def _fitted(self, known: Sequence[Code], losses: Values) -> tuple[Pursuit, Fit]:
        """What the losses of settings say: fitted once, as what is surprising and what is chosen next both ask."""
        key = (tuple(known), losses.tobytes())
        if self._last is None or self._last[0] != key:
            pursuit = Pursuit(self.space, np.array(known), losses)
            self._last = (key, pursuit, pursuit.run())
        return self._last[1:]

    def _choose(self, every: Sequence[Code], number: int) -> list[Code]:
        """The settings to measure next, of those that something is expected of."""
        known, losses = self._known(every)
        measured = set(every)
        rng = np.random.default_rng([self.spec.seed, len(every)])
        feasible = self.space.feasible
        if len(feasible) > adaptive.MOST_CANDIDATES:
            feasible = feasible[rng.choice(len(feasible), adaptive.MOST_CANDIDATES, replace=False)]
        every_code = map(tuple, feasible.tolist())
        left = [code for code in every_code if code not in measured and code in self.expected]
        if not left:
            return []
        chosen = adaptive.choose(*self._fitted(known, losses), np.array(left), number, rng)
        return [code_of(row) for row in chosen]

    def _boxes(self, codes: Sequence[Code]) -> list[Box]:
        """Where the settings say that something is short."""
        known, losses = self._known(codes)
        if not known:
            return []
        _, fit = self._fitted(known, losses)
        least = -np.log1p(-_LEAST_LOSS)
        return [box for box, height in zip(fit.boxes, fit.heights, strict=True) if height >= least]

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


def _take(codes: Iterator[Code], number: int) -> list[Code]:
    """The next so many, or as many as there are."""
    return [code for _, code in zip(range(number), codes, strict=False)]


def _seed(sweep: int, code: Code, number: int) -> int:
    """Of a setting's measurement: if settings shared one, those of the same streams would be slow together, which looks like a cause."""
    return hash63(f"{sweep} {code} {number}".encode())
