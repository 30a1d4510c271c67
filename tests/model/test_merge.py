"""`iotrail model merge`: a model of workloads that run side by side keeps what each of them does."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from iotrail.errors import ModelError
from iotrail.model import merge as merging
from iotrail.model.fit import draw, load
from tests.command import run

GIB, SECOND = 1 << 30, 10**9


def iotrail(*words: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """A command, and what it printed."""
    done = run(*words)
    assert (done.returncode != 0) == fails, done.stderr
    assert "Traceback" not in done.stderr
    return done


def fitted(
    folder: Path, name: str, *, reads: float, size: int, count: int = 4000, levels: int = 2, reach: int = 8
) -> Path:
    """A model of requests 1 ms apart in the mean, anywhere in 8 GiB."""
    random, at, lines = Random(name), 0, []
    for _ in range(count):
        at += random.randrange(1, 2000)
        op = "R" if random.random() < reads else "W"
        lines.append(f"{at},{op},{random.randrange(reach * GIB // size) * size},{size}")
    trace = folder / f"{name}.csv"
    trace.write_text("\n".join(["ts_us,op,offset,size", *lines, ""]))
    iotrail("import", "csv", trace, "-o", folder / f"{name}.trail")
    iotrail("model", "fit", folder / f"{name}.trail", "-o", folder / f"{name}.json", "--levels", levels)
    return folder / f"{name}.json"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Reads of 8 KiB for 4 s; writes of 16 KiB for 4 s, on a smaller disk; and such writes for 1 s."""
    folder = tmp_path_factory.mktemp("models")
    return (
        fitted(folder, "reads", reads=0.9, size=8192),
        fitted(folder, "writes", reads=0.2, size=16384, levels=1, reach=2),
        fitted(folder, "short", reads=0.2, size=16384, count=1000, reach=2),
    )


def merge(folder: Path, *words: object) -> tuple[Path, dict[str, Any]]:
    """A merged model and what --json says of it."""
    output = folder / "merged.json"
    return output, json.loads(iotrail("model", "merge", *words, "-o", output, "--json", "--force").stdout)


@dataclass
class OnDevice:
    """What is drawn on a device."""

    count: int
    reads: float
    size: float
    per_second: float
    reach: int
    ts: npt.NDArray[np.int64]


def drawn(model: Path) -> list[OnDevice]:
    """What is drawn from a model, by device."""
    with draw(model, seed=3) as batches:
        table = pa.Table.from_batches(batches)
    columns = {name: table[name].to_numpy() for name in table.schema.names}
    found = []
    for number in range(len(load(model)["devices"])):
        ts, op, pos, length = (
            columns[name][columns["device"] == number] for name in ("ts", "op", "pos", "length")
        )
        per_second = len(ts) / (ts[-1] - ts[0]) * SECOND
        found.append(OnDevice(len(ts), np.mean(op == 0), length.mean(), per_second, (pos + length).max(), ts))
    return found


def test_a_model_and_itself_on_devices_of_their_own(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, *_ = models
    merged, said = merge(tmp_path, one, one)
    [alone] = drawn(one)
    both = drawn(merged)
    assert [each["devices"] for each in said["models"]] == [[0], [1]]
    assert (said["requests"], said["levels"]) == (8000, 2)
    assert sum(each.count for each in both) == 8000
    for each in both:
        assert each.count == pytest.approx(4000, rel=0.03)
        assert each.reads == pytest.approx(alone.reads, abs=0.02)
        assert each.size == pytest.approx(alone.size, rel=0.001)
        assert each.per_second == pytest.approx(alone.per_second, rel=0.03)
    reach = load(one)["devices"][0]["reach_bytes"]
    assert [each["reach_bytes"] for each in load(merged)["devices"]] == [reach, reach]


def test_each_device_keeps_its_mix(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, other, _ = models
    merged, said = merge(tmp_path, one, other)
    assert said["levels"] == 2
    for alone, beside in zip((drawn(one)[0], drawn(other)[0]), drawn(merged), strict=True):
        assert beside.count == pytest.approx(alone.count, rel=0.03)
        assert beside.reads == pytest.approx(alone.reads, abs=0.05)
        assert beside.size == pytest.approx(alone.size, rel=0.05)
        assert beside.per_second == pytest.approx(alone.per_second, rel=0.03)
        assert beside.reach <= alone.reach + (1 << 20)


def test_the_same_devices(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, other, _ = models
    merged, said = merge(tmp_path, one, other, "--same-devices")
    assert [each["devices"] for each in said["models"]] == [[0], [0]]
    [together] = drawn(merged)
    alone = drawn(one)[0], drawn(other)[0]
    assert together.count == 8000
    assert together.per_second == pytest.approx(sum(each.per_second for each in alone), rel=0.03)
    assert together.reads == pytest.approx((0.9 + 0.2) / 2, abs=0.02)
    assert together.size == pytest.approx(12288, rel=0.02)
    assert load(merged)["devices"][0]["reach_bytes"] == load(one)["devices"][0]["reach_bytes"]


def test_a_shorter_model_ends_or_is_repeated(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, _, short = models
    output = tmp_path / "merged.json"
    said = iotrail("model", "merge", one, short, "-o", output).stderr
    assert f"{short} ends after" in said and " of 4.0" in said
    assert f"{one} ends" not in said
    first, second = drawn(output)
    assert first.count == pytest.approx(4000, rel=0.03)
    assert second.count == pytest.approx(1000, rel=0.1)
    # it has none after 1 s; a model ends a device's part less sharply
    assert (second.ts > 2 * SECOND).sum() < 150
    merged, facts = merge(tmp_path, one, short, "--repeat")
    assert [each["laps"] for each in facts["models"]] == [1, pytest.approx(4, abs=1)]
    first, second = drawn(merged)
    for each in (first, second):
        assert each.count == pytest.approx(4000, rel=0.05)
        assert (each.ts > 2 * SECOND).sum() == pytest.approx(2000, rel=0.05)
    assert facts["length_ns"] <= load(one)["rate"]["length_ns"]


def test_draws_of_a_model_merged_with_itself_differ(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, *_ = models
    merged, _ = merge(tmp_path, one, one)
    again = merged.read_text()
    assert merge(tmp_path, one, one)[0].read_text() == again
    assert merge(tmp_path, one, one, "--seed", 2)[0].read_text() != again
    first, second = (set(each.ts.tolist()) for each in drawn(merged))
    assert len(first & second) < 1000


def test_what_cannot_be_merged_is_refused(
    models: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, short = models
    output = tmp_path / "merged.json"
    alone = iotrail("model", "merge", one, "-o", output, fails=True).stderr
    assert "expected two models or more, found 1" in alone and "hint:" in alone
    mine = tmp_path / "mine.json"
    shutil.copy(one, mine)
    before = mine.read_text()
    said = iotrail("model", "merge", mine, other, "-o", mine, "--force", fails=True).stderr
    assert "is read and can't be written too" in said and mine.read_text() == before
    output.write_text("kept")
    assert "exists already" in iotrail("model", "merge", one, other, "-o", output, fails=True).stderr
    assert output.read_text() == "kept"
    assert (
        "No such file"
        in iotrail("model", "merge", one, "none.json", "-o", tmp_path / "n.json", fails=True).stderr
    )
    options: dict[str, Any] = {"same_devices": False, "repeat": False, "seed": 1, "min_count": 5}
    monkeypatch.setattr(merging, "MOST_REQUESTS", 4500)
    with pytest.raises(ModelError, match="expected at most 4,500 requests in all, found 5,000"):
        merging.merge([load(one), load(short)], **options)
    with pytest.raises(ModelError, match="found 8,") as error:
        merging.merge([load(one), load(short)], **{**options, "repeat": True})
    assert "leave out --repeat" in str(error.value.hint)
    many = {**load(short), "devices": load(short)["devices"] * 3000}
    with pytest.raises(ModelError, match="expected at most 4,096 devices in all, found 6,000"):
        merging.merge([many, many], **options)
