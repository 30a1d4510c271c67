"""The specifications of examples/anomaly that measure real systems: they say what can be measured, and expect something everywhere."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from iotrail.expected.user import load
from iotrail.sweep import spec

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "anomaly"
# The dimensions that what is expected depends on; the others should make no difference.
DEPENDS_ON = {
    "fio": {"block", "depth", "jobs"},
    "postgresql": {"clients", "rows"},
    "ceph": {"object", "writers", "replicas"},
}


def test_each_specification_is_here() -> None:
    # others are simulated (stack), read by handlers of the sweep (kernel), or describe a device (disk)
    real = {path.stem for path in FOLDER.glob("*.toml")} - {"stack", "kernel", "disk"}
    assert real == set(DEPENDS_ON)


@pytest.mark.parametrize("name", DEPENDS_ON)
def test_what_would_be_measured(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", "sweep", FOLDER / f"{name}.toml", "--dry"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = spec.read(FOLDER / f"{name}.toml")
    assert f"of which {found.samples} are measured." in done.stdout
    assert f"{len(found.space().feasible):,} settings" in done.stdout


@pytest.mark.parametrize("name", DEPENDS_ON)
def test_something_is_expected_of_every_setting(name: str) -> None:
    path = FOLDER / f"{name}.toml"
    found = spec.read(path)
    assert found.expect is not None
    expect, space = load(found.expect, str(path), found.target.metric), found.space()
    expected = {}
    for code in space.feasible:
        (one,) = expect(space.setting(code))
        assert math.isfinite(one.value) and one.value > 0
        expected[tuple(code)] = one.value
    for at, dimension in enumerate(space.dimensions):
        by_others: dict[tuple[int, ...], set[float]] = {}
        for code, value in expected.items():
            by_others.setdefault((*code[:at], *code[at + 1 :]), set()).add(value)
        differs = any(len(values) > 1 for values in by_others.values())
        assert differs == (dimension.name in DEPENDS_ON[name]), dimension.name


def test_settings_of_the_system_can_be_read_and_put_back() -> None:
    controls = spec.read(FOLDER / "postgresql.toml").controls
    made = {name for name, control in controls.items() if control.set is not None}
    assert made == {"random_page_cost", "effective_io_concurrency", "shared_buffers", "index"}
    assert all(controls[name].get is not None for name in made)
