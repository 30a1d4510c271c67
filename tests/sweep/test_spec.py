"""What a sweep's specification says, and what is refused in one."""

from pathlib import Path

import numpy as np
import pytest

from iotrail.errors import UsageError
from iotrail.sweep import sampling, spec

TEXT = """
samples = 20
expect = "paper"
constraints = ["run <= stream", 'not (scheduler == "bfq" and concurrency > 4)']

[target]
command = "echo {concurrency} {stream} {run} {scheduler}"
unit = "bytes/s"

[workload.concurrency]
values = [1, 2, 4, 8]

[workload.stream]
values = ["64KiB", "1MiB"]

[workload.run]
values = ["16KiB", "64KiB", "1MiB"]

[workload.whole_file]
values = [false, true]

[system.scheduler]
values = ["none", "bfq"]
bypass = "none"
"""


def test_the_value_that_does_nothing_can_be_zero() -> None:
    text = TEXT.replace(
        'values = ["none", "bfq"]\nbypass = "none"', 'values = ["0KiB", "128KiB"]\nbypass = "0KiB"'
    )
    assert spec.parse(text.replace('"bfq"', "4"), "x.toml").controls["scheduler"].bypass == 0


def test_dimensions_and_settings() -> None:
    found = spec.parse(TEXT, "x.toml")
    concurrency, stream, run, whole, scheduler = found.dimensions
    assert concurrency.is_ordered and concurrency.unit == ""
    assert (stream.values, stream.unit) == ((65_536, 1_048_576), "bytes")
    assert run.is_ordered
    assert (whole.values, whole.is_ordered) == (("no", "yes"), False)
    assert not scheduler.is_ordered
    assert found.controls["scheduler"].bypass == "none"
    assert found.workload == {"concurrency", "stream", "run", "whole_file"}
    codes = found.space().feasible
    # of four runs and streams five, times whole files, times (4 + 3)
    assert len(codes) == 5 * 2 * 7
    assert all(run.values[row[2]] <= stream.values[row[1]] for row in codes)


def test_units() -> None:
    text = '[target]\nsimulator = "stack"\n[workload.think]\nvalues = ["500us", "1ms", "2 s"]\n'
    (think,) = spec.parse(text, "x.toml").dimensions
    assert (think.values, think.unit) == ((500_000, 1_000_000, 2_000_000_000), "ns")
    (think,) = spec.parse(text.replace('"2 s"', '"fast"'), "x.toml").dimensions
    assert not think.is_ordered


@pytest.mark.parametrize(("given", "seconds"), [('"2min"', 120), ('"500 ms"', 0.5), ("90", 90), ("0.5", 0.5)])
def test_a_timeout_has_a_unit_or_is_in_seconds(given: str, seconds: float) -> None:
    assert (
        spec.parse(change("[target]", f"[target]\ntimeout = {given}"), "x.toml").target.timeout_s == seconds
    )


def change(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "x.toml: not TOML"),
        ("samples = 1", r"expected a table \[target\], found nothing"),
        ('[target]\ncommand = "true"\n', "no dimension"),
        (change("samples = 20", "samples = 0"), "samples: expected a number, at least 1, found 0"),
        (change("samples = 20", "sample = 20"), "sample: not a key here"),
        (change("unit =", "units ="), "target.units: not a key here"),
        (change("[1, 2, 4, 8]", "[]"), "workload.concurrency.values: expected a list of values"),
        (change("[1, 2, 4, 8]", "[1, 4, 2]"), "concurrency.values: expected numbers in order"),
        (change("[1, 2, 4, 8]", "[1, 2, 2]"), "concurrency: value 2 is there twice"),
        (change("[1, 2, 4, 8]", "[[1]]"), "expected numbers or texts"),
        (change('["64KiB", "1MiB"]', '["64KiB", "1ms"]'), "stream.values: expected values of one unit"),
        (
            change("[system.scheduler]", "[system.run]"),
            "run is a dimension of the workload and of the system",
        ),
        (change("[system.scheduler]", '[system."a b"]'), "expected a name of letters"),
        (
            change('bypass = "none"', 'bypass = "off"'),
            "scheduler.bypass: expected one of its values, found 'off'",
        ),
        (change('bypass = "none"', 'get = "cat x"'), "scheduler.get: expected system.scheduler.set with it"),
        (change("[target]", '[target]\nsimulator = "stack"'), "expected one of simulator, command, device"),
        (change("[target]", "[target]\ntimeout = -1"), "target.timeout: expected a number above 0, found -1"),
        (
            change("[target]", '[target]\ntimeout = "2MiB"'),
            "target.timeout: expected a time above 0, like \"2min\", found '2MiB'",
        ),
        (change("[target]", '[target]\ntimeout = "0s"'), "target.timeout: expected a time above 0"),
        (change("[target]", "[repeat]\nleast = 3\nmost = 2\n[target]"), "repeat.most: expected at least 3"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        spec.parse(text, "x.toml")


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("run <=", "invalid syntax"),
        ("speed > 1", "no dimension speed"),
        ("run", "'run' is not a comparison"),
        ("run <= open('x')", "is not a value"),
        ("run <= scheduler", "not supported between"),
        ("run > stream * 100", "no setting is left"),
        ("run / 0 > 1", "division by zero"),
    ],
)
def test_constraints_that_mean_nothing(constraint: str, said: str) -> None:
    found = spec.parse(change("run <= stream", constraint), "x.toml")
    with pytest.raises(UsageError, match=said):
        found.space()


def test_too_many_settings(tmp_path: Path) -> None:
    values = list(range(60))
    text = '[target]\nsimulator = "stack"\n' + "".join(
        f"[workload.d{at}]\nvalues = {values}\n" for at in range(5)
    )
    with pytest.raises(UsageError, match="777,600,000 combinations of values"):
        spec.parse(text, "x.toml").space()
    with pytest.raises(UsageError, match="cannot read"):
        spec.read(tmp_path / "none.toml")


def test_samples_are_uniform_and_a_larger_sample_begins_with_a_smaller_one() -> None:
    space = spec.parse(TEXT, "x.toml").space()
    few, many = sampling.draw(space, 20, 3), sampling.draw(space, 50, 3)
    assert np.array_equal(few, many[:20])
    assert len(np.unique(sampling.draw(space, 1000, 3), axis=0)) == len(space.feasible)
    counts = np.zeros(4)
    for seed in range(300):
        counts += np.bincount(sampling.draw(space, 10, seed)[:, 0], minlength=4)
    shares = np.bincount(space.feasible[:, 0]) / len(space.feasible)
    assert counts / counts.sum() == pytest.approx(shares, abs=0.03)


def test_what_samples_can_miss() -> None:
    assert sampling.seen_probability(0.01, 400) == pytest.approx(1 - 0.99**400)
    assert sampling.seen_probability(sampling.unseen_share(400), 400) == pytest.approx(0.95)
    assert sampling.unseen_share(0) == 1.0
