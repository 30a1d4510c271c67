"""What a sweep will measure: the settings that are drawn, and what is expected of each."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from iotrail import native
from iotrail.anomaly.space import Codes, Space, Value
from iotrail.errors import SweepError, TraceError, UsageError
from iotrail.expected import linux
from iotrail.expected.user import load
from iotrail.expected.workload import Expected
from iotrail.sweep import device, sampling, stack
from iotrail.sweep import journal as journals
from iotrail.sweep import spec as specs
from iotrail.sweep import trail as trails
from iotrail.sweep.guard import Guard
from iotrail.sweep.journal import Journal, Measurement
from iotrail.sweep.run import Code, Sweep, code_of
from iotrail.sweep.settings import Settings
from iotrail.sweep.shell import Running, alone
from iotrail.sweep.spec import Control, Spec
from iotrail.sweep.targets import Measuring, target_of
from iotrail.trail import Trail

# Of specifications that differ in these alone, one goes on with the other's sweep.
_MAY_DIFFER = ("path", "text", "samples")


@dataclass(frozen=True)
class Plan:
    """Settings to measure, by their codes in random order, and what each is expected to show (none without an
    expectation)."""

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
        with contextlib.ExitStack() as contexts:
            journal = contexts.enter_context(Journal(path))
            if not path.stat().st_size:
                journal.begin(self.spec.text, self.spec.path, self.spec.seed)
            running: Running = alone
            if self.spec.target.simulator is None:
                running = contexts.enter_context(Guard(path)).running
            controls: Mapping[str, Control] = self.spec.controls
            measure: Measuring
            if self.spec.target.device is None:
                measure = target_of(self.spec, running)
            else:
                block = contexts.enter_context(device.opened(self.spec, running))
                records_of(output).mkdir(exist_ok=True)
                controls = device.controls(self.spec, block.name)
                measure = device.Reading(self.spec, block, running, records_of(output), offset)
            settings = contexts.enter_context(Settings(controls, journal))
            sweep = Sweep(
                self.spec,
                self.space,
                self.expected,
                measure,
                settings,
                journal,
                lambda: time.monotonic_ns() + offset,
                measured,
            )
            sweep.run(self.codes, advance)
        trails.write(output, sweep, node, command, records_of(output), force=force)
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
            one, before = getattr(self.spec, field.name), getattr(other, field.name)
            if field.name not in _MAY_DIFFER and one != before:
                raise SweepError(
                    f"{path} is of another sweep: {field.name} was {_text(before)}, is {_text(one)}",
                    "begin anew with --force, or choose another name with -o",
                )


def journal_of(output: Path) -> Path:
    """The journal of a sweep to a trail."""
    return output.with_name(f"{output.name}.sweep")


def records_of(output: Path) -> Path:
    """Where what the kernel saw of each measurement is kept until the trail is whole."""
    return output.with_name(f"{output.name}.sweep.records")


def plan(path: Path, *, samples: int | None = None, seed: int | None = None) -> Plan:
    """Reads a specification and draws its settings; `samples` and `seed` instead of its own.

    Raises `UsageError` for a specification that can't be, and for an expectation that is no number above 0.
    """
    spec = specs.read(path)
    spec = replace(
        spec,
        samples=spec.samples if samples is None else samples,
        seed=spec.seed if seed is None else seed,
    )
    space = spec.space()
    # said before anything is measured
    if spec.target.device is None:
        target_of(spec, alone)
    else:
        device.check(spec)
    codes = sampling.draw(space, spec.samples, spec.seed)
    settings = {code_of(row): space.setting(row) for row in codes}
    return Plan(spec, space, codes, _expected(spec, settings))


def _expected(spec: Spec, settings: Mapping[Code, dict[str, Value]]) -> dict[Code, list[Expected]]:
    """What is expected of settings, by the specification's expectation."""
    if spec.expect is None:
        return {}
    if spec.expect.endswith(".trail"):
        return _measured_before(spec, settings)
    if spec.target.device is not None and spec.expect in linux.EXPECTATIONS:
        found = linux.expect_all(
            list(settings.values()), spec.expect, device.model_of(spec), spec.target.seconds
        )
        return dict(zip(settings, found, strict=True))
    expect: Callable[[Mapping[str, Any]], list[Expected]]
    if ".py:" in spec.expect:
        expect = load(spec.expect, spec.path, spec.target.metric)
    elif spec.target.simulator is not None and spec.expect in stack.EXPECTATIONS:
        model = spec.expect

        def expect(setting: Mapping[str, Any]) -> list[Expected]:
            return stack.expect(setting, model)

    else:
        known = {"simulator": stack.EXPECTATIONS, "device": linux.EXPECTATIONS}
        own = "".join(
            f", {name}"
            for kind, names in known.items()
            if getattr(spec.target, kind) is not None
            for name in names
        )
        raise UsageError(
            f"{spec.path}: expect: expected FILE.py:FUNCTION, OLD.trail{own}, found {spec.expect!r}"
        )
    return {code: expect(setting) for code, setting in settings.items()}


def _measured_before(spec: Spec, settings: Mapping[Code, dict[str, Value]]) -> dict[Code, list[Expected]]:
    """What an older sweep measured at the same settings."""
    path = Path(spec.path).parent / (spec.expect or "")
    before: dict[int, list[Expected]] = {}
    for row in Trail(path).rows_of(
        "SELECT setting, layer, metric, value FROM measured WHERE value IS NOT NULL"
    ):
        before.setdefault(row["setting"], []).append(Expected(row["layer"], row["metric"], row["value"]))
    known = {code: found for code, one in settings.items() if (found := before.get(trails.setting_id(one)))}
    if settings and not known:
        raise UsageError(
            f"{spec.path}: expect: {path} has none of the settings that are to be measured",
            "sweep the same dimensions with the same seed",
        )
    return known


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else f"{text[:200]}…"
