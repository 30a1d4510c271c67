"""`iotrail model scale` and `iotrail model diff`: requests of a scaled model, and of two models, beside each other."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iotrail.importers.base import READ

from ..command import iotrail

GIB = 1 << 30


def fitted(folder: Path, name: str, *, reads: float = 0.7, size: int = 8192, count: int = 4000) -> Path:
    """A model of requests 1 ms apart in the mean, anywhere in 8 GiB."""
    random, at, lines = Random(1), 0, []
    for _ in range(count):
        at += random.randrange(1, 2000)
        op = "R" if random.random() < reads else "W"
        lines.append(f"{at},{op},{random.randrange(8 * GIB // size) * size},{size}")
    trace = folder / f"{name}.csv"
    trace.write_text("\n".join(["ts_us,op,offset,size", *lines, ""]))
    iotrail("import", "csv", trace, "-o", folder / f"{name}.trail")
    iotrail("model", "fit", folder / f"{name}.trail", "-o", folder / f"{name}.json", "--levels", 2)
    return folder / f"{name}.json"


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("model"), "m")


@pytest.fixture
def model(fitted_once: Path, tmp_path: Path) -> Path:
    return shutil.copy(fitted_once, tmp_path / "m.json")


def drawn(model: Path) -> dict[str, float]:
    """What is drawn from a model."""
    trail = model.with_name(f"{model.stem}-drawn.trail")
    iotrail("generate", model, "-o", trail, "--force")
    query = (
        "SELECT COUNT(*) AS n, MAX(ts) - MIN(ts) AS length_ns, MAX(pos + length) AS reach, AVG(pos) AS pos, "
        f"AVG(length) AS size, AVG((op = {READ})::INT) AS reads FROM device_request"
    )
    found = json.loads(iotrail("sql", trail, query, "--format", "json"))
    row: dict[str, float] = found[0] if isinstance(found, list) else found
    return row


@pytest.mark.parametrize(("capacity", "rate"), [(4, 1), (1, 10), (2.5, 0.5), (0.25, 3)])
def test_addresses_and_times_are_scaled(model: Path, tmp_path: Path, capacity: float, rate: float) -> None:
    scaled = tmp_path / "s.json"
    iotrail("model", "scale", model, "-o", scaled, "--capacity", capacity, "--rate", rate)
    one, other = drawn(model), drawn(scaled)
    assert other["n"] == one["n"]
    assert other["length_ns"] == pytest.approx(one["length_ns"] / rate, rel=0.01)
    assert other["pos"] == pytest.approx(one["pos"] * capacity, rel=0.05)
    reach = json.loads(model.read_text())["devices"][0]["reach_bytes"]
    assert 0.9 * reach * capacity < other["reach"] <= reach * capacity + 4096
    assert other["size"] == one["size"]
    assert other["reads"] == pytest.approx(one["reads"], abs=0.01)
    values = json.loads(scaled.read_text())
    assert values["devices"][0]["reach_bytes"] == pytest.approx(reach * capacity, abs=4096)
    assert values["devices"][0]["reach_bytes"] % 4096 == 0
    assert values["rate"]["tick_ns"] == int(1000 / rate)


def test_a_clock_has_a_step_of_a_nanosecond_at_least(model: Path, tmp_path: Path) -> None:
    iotrail("model", "scale", model, "-o", tmp_path / "s.json", "--rate", 1e5)
    values = json.loads((tmp_path / "s.json").read_text())
    assert values["rate"]["tick_ns"] == 1
    assert drawn(tmp_path / "s.json")["n"] == 4000


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "neither --capacity nor --rate"),
        (("--capacity", "0"), "--capacity: expected a number above 0, found 0"),
        (("--capacity=-1",), "--capacity: expected a number above 0, found -1"),
        (("--capacity", "nan"), "--capacity: expected a number above 0, found nan"),
        (("--rate", "inf"), "--rate: expected a number above 0, found inf"),
        (("--rate", "1e30"), "expected a total time of 1 ns or more"),
        (("--rate", "1e-30"), "expected a total time of less than 146 years"),
        (("--capacity", "1e30"), "devices[0].reach_bytes: expected less than 4 EiB"),
        (("--capacity", "1e-9"), "room for its largest request"),
    ],
)
def test_factors_that_make_no_sense_are_refused(
    model: Path, tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    said = iotrail("model", "scale", model, "-o", tmp_path / "s.json", *words, fails=True)
    assert expected in said and "hint:" in said and "Traceback" not in said
    assert not (tmp_path / "s.json").exists()


def test_a_model_is_not_replaced(model: Path) -> None:
    before = model.read_text()
    said = iotrail("model", "scale", model, "-o", model, "--rate", 2, fails=True)
    assert "exists already" in said and model.read_text() == before
    iotrail("model", "scale", model, "-o", model, "--rate", 2, "--force")
    assert model.read_text() != before


def compared(one: Path, other: Path, *words: object) -> dict[str, Any]:
    """Figures by their keys."""
    said = json.loads(iotrail("model", "diff", one, other, "--json", *words))
    assert (said["a"], said["b"]) == (str(one), str(other))
    assert said["series"].keys() == {"a", "b"}
    return {each["key"]: each for each in said["figures"]}


def test_a_model_is_like_itself(model: Path) -> None:
    figures = compared(model, model)
    assert all(each["deviation"] in (0, None) for each in figures.values()), figures
    assert not any(each["beyond"] for each in figures.values())
    assert figures["gap_ks"]["noise"] > 0
    assert not any(key.startswith("baseline") for key in figures["iops"])


def test_what_differs_is_beyond_the_noise(model: Path, tmp_path: Path) -> None:
    other = fitted(tmp_path, "other", reads=0.2, size=16384)
    figures = compared(model, other)
    assert (figures["requests"]["a"], figures["requests"]["b"]) == (4000, 4000)
    assert figures["read_share"]["deviation"] == pytest.approx(-0.5, abs=0.05)
    assert figures["mean_read_bytes"]["deviation"] == 1
    assert figures["read_sizes"]["deviation"] == 1
    for key in ("read_share", "mean_read_bytes", "read_sizes", "footprint_bytes"):
        assert figures[key]["beyond"], figures[key]
    assert not figures["iops"]["beyond"]
    said = iotrail("model", "diff", model, other)
    assert "B from A" in said and "baseline" not in said and "further draws of A" in said


def test_a_scaled_model_differs_in_what_was_scaled(model: Path, tmp_path: Path) -> None:
    iotrail("model", "scale", model, "-o", tmp_path / "s.json", "--rate", 10)
    figures = compared(model, tmp_path / "s.json", "--on", "hdd-7200", "--seeds", 2)
    assert figures["iops"]["deviation"] == pytest.approx(9, rel=0.02)
    assert figures["utilisation"]["deviation"] is not None
    assert figures["iops"]["b_range"] is not None
    for key in ("read_share", "mean_read_bytes", "transitions", "lru"):
        assert not figures[key]["beyond"], figures[key]


def test_models_of_different_disks_are_compared(model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "two.csv"
    lines = [f"{at * 1000},R,{at * 7919 % 1000 * 4096},4096,sd{at % 2}" for at in range(1000)]
    trace.write_text("\n".join(["ts_us,op,offset,size,device", *lines, ""]))
    iotrail("import", "csv", trace, "-o", tmp_path / "two.trail")
    iotrail("model", "fit", tmp_path / "two.trail", "-o", tmp_path / "two.json", "--levels", 1)
    for one, other in ((model, tmp_path / "two.json"), (tmp_path / "two.json", model)):
        figures = compared(one, other)
        assert figures["device_share"]["deviation"] == pytest.approx(0.5, abs=0.01)
        assert figures["transitions"]["deviation"] > 0.3


def test_a_model_that_is_not_there(model: Path, tmp_path: Path) -> None:
    assert "none.json: No such file" in iotrail("model", "diff", model, tmp_path / "none.json", fails=True)
