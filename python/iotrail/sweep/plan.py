"""What a sweep will measure: the settings that are drawn, and what is expected of each."""

import contextlib
import difflib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from iotrail import native
from iotrail.anomaly.space import Codes, Space
from iotrail.errors import SweepError, TraceError, UsageError
from iotrail.expected import linux
from iotrail.expected.user import load
from iotrail.expected.workload import Expected
from iotrail.sweep import device, filesystem, sampling, stack
from iotrail.sweep import journal as journals
from iotrail.sweep import spec as specs
from iotrail.sweep import trail as trails
from iotrail.sweep.guard import Guard
from iotrail.sweep.journal import Journal, Measurement
from iotrail.sweep.run import UNIFORM_SHARE, Code, Sweep, code_of
from iotrail.sweep.settings import Settings
from iotrail.sweep.shell import Running, alone
from iotrail.sweep.spec import Control, Spec
from iotrail.sweep.targets import Measuring, target_of
from iotrail.trail import Trail

# Of specifications that differ in these alone, one goes on with the other's sweep.
_MAY_DIFFER = ("path", "text", "samples", "is_adaptive")
# Lines of a difference that an error shows.
_MOST_CHANGED = 4


@dataclass(frozen=True)
class Plan:
    """Settings to measure, by their codes in random order (of an adaptive sweep those that are uniform whatever is
    measured), and what each is expected to show (none without an expectation)."""

    spec: Spec
    space: Space
    codes: Codes
    expected: Mapping[Code, Sequence[Expected]]

    def run(
        self,
        output: Path,
        *,
        command: Sequence[str],
        resume: bool = False,
        force: bool = False,
        advance: Callable[[str], None] = lambda _: None,
    ) -> Sweep:
        """Measures all of it and writes the trail; `command` is what the trail says made it. `advance` is called after each
        setting, with the purpose of its measurement. With `resume` what a sweep before measured is kept.

        Raises:
            SweepError: a setting can't be made, the target can't be measured, or the sweep before was another.
            TraceError: the trail can't be written.
        """
        path = journal_of(output)
        measured = self._before(output, path, resume=resume, force=force)
        node, offset = native.clock()
        records = records_of(output)
        with sweeping(self.spec, self.space, self.expected, path, records, offset, measured) as sweep:
            if self.spec.is_adaptive:
                order = sampling.draw(self.space, len(self.space.feasible), self.spec.seed)
                sweep.run_adaptive(order, self.spec.samples, advance)
            else:
                sweep.run(self.codes, advance)
        trails.write(output, sweep, node, command, records, force=force)
        path.unlink()
        shutil.rmtree(records_of(output), ignore_errors=True)
        return sweep

    def _before(self, output: Path, path: Path, *, resume: bool, force: bool) -> Sequence[Measurement]:
        """What a sweep before has measured; nothing if this one begins anew."""
        if not os.access(output.absolute().parent, os.W_OK):
            raise TraceError(f"{output}: can't be written in {output.absolute().parent}")
        if os.path.lexists(output) and not force:
            raise TraceError(f"{output}: exists", "replace it with --force, or choose another name with -o")
        if not path.exists():
            if resume:
                raise SweepError(f"nothing to resume: there is no {path}", "leave --resume out")
            return []
        if failed := journals.restore(path):
            raise SweepError(f"cannot put back {'; '.join(failed)}", "put it back by hand")
        if resume:
            before = journals.read(path)
            self._check_same(replace(specs.parse(before.spec, before.path), seed=before.seed), path)
            return before.measurements
        if not force:
            raise SweepError(
                f"{path}: a sweep ended early", "go on with --resume, or begin anew with --force"
            )
        path.unlink()
        shutil.rmtree(records_of(output), ignore_errors=True)
        return []

    def _check_same(self, other: Spec, path: Path) -> None:
        for field in fields(Spec):
            now, before = getattr(self.spec, field.name), getattr(other, field.name)
            if field.name not in _MAY_DIFFER and now != before:
                changed = _changed_lines(other.text, self.spec.text)
                raise SweepError(
                    f"{path} is of another sweep: {changed or f'{field.name} was {before}, is {now}'}",
                    "begin anew with --force, or choose another name with -o",
                )


@contextlib.contextmanager
def sweeping(
    spec: Spec,
    space: Space,
    expected: Mapping[Code, Sequence[Expected]],
    path: Path,
    records: Path,
    offset: int,
    measured: Sequence[Measurement],
) -> Iterator[Sweep]:
    """A sweep that can measure: with a journal at `path`, settings of the system that are put back when this is left, and a
    process that does so if this one is killed. What the kernel sees of a device's measurements is kept in `records`. `offset` is what the clock of trails is ahead of the monotonic one, in ns;
    `measured` is kept from before.

    Raises:
        SweepError: another sweep writes the journal, or a setting can't be read or put back.
    """
    if spec.target.device is not None:
        device.check_ready(spec)
    with contextlib.ExitStack() as contexts:
        journal = contexts.enter_context(Journal(path))
        if not path.stat().st_size:
            journal.begin(spec.text, spec.path, spec.seed, spec.samples if spec.is_adaptive else None)
        running: Running = alone
        setting: Running = alone
        serving: Running = alone
        if spec.target.simulator is None:
            guard = contexts.enter_context(Guard(path))
            running, setting, serving = guard.running, guard.setting, guard.serving
        controls: Mapping[str, Control] = spec.controls
        measure: Measuring
        if spec.target.device is None:
            measure = target_of(spec, running)
        else:
            records.mkdir(exist_ok=True)
            block = contexts.enter_context(device.opened(spec, serving, records))
            mounted = records.absolute() / "mounted"
            if device.has_filesystem(spec):
                mounted.mkdir(exist_ok=True)
                filesystem.make(block)
            controls = device.controls(spec, block, mounted)
            measure = device.Reading(spec, block, running, mounted, device.model_of(spec), records, offset)
        settings = contexts.enter_context(Settings(controls, journal, setting))
        yield Sweep(
            spec,
            space,
            expected,
            measure,
            settings,
            journal,
            lambda: time.monotonic_ns() + offset,
            measured,
        )


def adaptive_before(output: Path) -> int | None:
    """How many settings the adaptive sweep to a trail that ended early measures; None if there is none, or it isn't adaptive.

    Raises `SweepError` if its journal can't be read.
    """
    path = journal_of(output)
    return journals.read(path).adaptive if path.exists() else None


def journal_of(output: Path) -> Path:
    """The journal of a sweep to a trail."""
    return output.with_name(f"{output.name}.sweep")


def records_of(output: Path) -> Path:
    """Where what the kernel saw of each measurement is kept until the trail is whole."""
    return output.with_name(f"{output.name}.sweep.records")


def plan(
    path: Path, *, samples: int | None = None, adaptive: int | None = None, seed: int | None = None
) -> Plan:
    """Reads a specification and draws its settings; `samples` (all uniform) or `adaptive` (some chosen by what was measured)
    and `seed` instead of its own.

    Raises `UsageError` for a specification that can't be, for both `samples` and `adaptive`, and for an expectation that is no
    number above 0.
    """
    if samples is not None and adaptive is not None:
        raise UsageError(
            "--samples can't be combined with --adaptive", "both say how many settings are measured: give one"
        )
    spec = specs.read(path)
    if samples is not None or adaptive is not None:
        spec = replace(spec, samples=samples or adaptive or 0, is_adaptive=adaptive is not None)
    if seed is not None:
        spec = replace(spec, seed=seed)
    if spec.is_adaptive and spec.expect is None:
        raise UsageError(
            f"{path}: an adaptive sweep needs an expectation: it measures where losses are",
            "add expect = …, or use --samples",
        )
    space = spec.space()
    # said before anything is measured
    if spec.target.device is None:
        target_of(spec, alone)
    else:
        device.check(spec)
    number = min(spec.samples, len(space.feasible))
    if spec.is_adaptive:
        number = math.ceil(UNIFORM_SHARE * number)
    codes = sampling.draw(space, number, spec.seed)
    return Plan(spec, space, codes, expectations(spec, space, codes))


class _Function(Mapping[Code, Sequence[Expected]]):
    """What a function expects of settings: asked once of each, when that is needed."""

    def __init__(
        self, space: Space, expect: Callable[[Sequence[Mapping[str, Any]]], list[list[Expected]]]
    ) -> None:
        self._space = space
        self._expect = expect
        self._known: dict[Code, list[Expected]] = {}

    def ask(self, codes: Sequence[Code]) -> None:
        """Asks of many settings at once."""
        new = [code for code in codes if code not in self._known]
        found = self._expect([self._space.setting(code) for code in new])
        self._known.update(zip(new, found, strict=True))

    def __getitem__(self, code: Code) -> list[Expected]:
        self.ask([code])
        return self._known[code]

    def __contains__(self, code: object) -> bool:
        # It says something of every setting, or ends the sweep.
        return True

    def __iter__(self) -> Iterator[Code]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def expectations(spec: Spec, space: Space, codes: Codes) -> Mapping[Code, Sequence[Expected]]:
    """What is expected of settings, by the specification's expectation. Of `codes` it is asked at once, so that errors show
    before anything is measured.

    Raises `UsageError` if the expectation isn't there, or is no number above 0.
    """
    if spec.expect is None:
        return {}
    if spec.expect.endswith(".trail"):
        return _measured_before(spec, space, codes)
    name, target = spec.expect, spec.target
    if ".py:" in name:
        function = load(name, spec.path, target.metric)
        expected = _Function(space, lambda settings: [function(one) for one in settings])
    elif target.simulator is not None and name in stack.EXPECTATIONS:
        expected = _Function(space, lambda settings: [stack.expect(one, name) for one in settings])
    elif target.device is not None and name in linux.EXPECTATIONS:
        model, seconds = device.model_of(spec), target.seconds
        expected = _Function(space, lambda settings: linux.expect_all(settings, name, model, seconds))
    else:
        own: Sequence[str] = ()
        if target.command is None:
            own = linux.EXPECTATIONS if target.device is not None else tuple(stack.EXPECTATIONS)
        raise UsageError(
            f"{spec.path}: expect: expected {', '.join(['FILE.py:FUNCTION', 'OLD.trail', *own])}, found {name!r}"
        )
    expected.ask([code_of(row) for row in codes])
    return expected


def _measured_before(spec: Spec, space: Space, codes: Codes) -> dict[Code, list[Expected]]:
    """What an older sweep measured at the same settings: those that are drawn, of an adaptive sweep all that may be chosen."""
    path = Path(spec.path).parent / (spec.expect or "")
    before: dict[int, list[Expected]] = {}
    for row in Trail(path).rows_of(
        "SELECT setting, layer, metric, value FROM measured WHERE value IS NOT NULL"
    ):
        before.setdefault(row["setting"], []).append(Expected(row["layer"], row["metric"], row["value"]))
    drawn = {code_of(row) for row in codes}
    settings = {code_of(row): space.setting(row) for row in (space.feasible if spec.is_adaptive else codes)}
    known = {code: found for code, one in settings.items() if (found := before.get(trails.setting_id(one)))}
    if drawn and not drawn & known.keys():
        raise UsageError(
            f"{spec.path}: expect: {path} has none of the settings that are to be measured",
            "sweep the same dimensions with the same seed",
        )
    return known


def _changed_lines(before: str, now: str) -> str:
    """The first lines of a specification that differ, as a difference shows them; empty if none do."""
    lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), n=0, lineterm=""))
    shown = [line for line in lines[2:] if not line.startswith("@@")]
    return "; ".join(shown[:_MOST_CHANGED]) + ("; …" if len(shown) > _MOST_CHANGED else "")
