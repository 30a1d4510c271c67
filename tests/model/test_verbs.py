"""`iotrail model` and `iotrail generate` as people run them: from a trace to a model, to a trail that is as much like it as said."""

import json
from pathlib import Path
from random import Random

import pytest

from iotrail import native

from ..command import iotrail


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random reads of 8 KiB, some of them again, and a log that is written from begin to end."""
    random, lines, at, log, used = Random(1), [], 0, 0, [0]
    for _ in range(6000):
        at += random.randrange(1, 20_000)
        if random.random() < 0.3:
            lines.append(f"{at},W,{(8 << 30) + log},4096")
            log += 4096
        else:
            again = random.random() < 0.5
            used.append(random.choice(used[-200:]) if again else random.randrange(1 << 20) * 8192)
            lines.append(f"{at},R,{used[-1]},8192")
    folder = tmp_path_factory.mktemp("trail")
    trace = folder / "t.csv"
    trace.write_text("ts_us,op,offset,size\n" + "".join(f"{line}\n" for line in lines))
    iotrail("import", "csv", trace, "-o", folder / "t.trail")
    return folder / "t.trail"


@pytest.fixture(scope="module")
def model(trail: Path) -> Path:
    """Its model."""
    made = trail.with_name("m.json")
    iotrail("model", "fit", trail, "-o", made, "--levels", "2")
    return made


def test_a_model_draws_what_it_was_fitted_to(trail: Path, model: Path, tmp_path: Path) -> None:
    said = json.loads(iotrail("model", "check", model, "--against", trail, "--json"))
    figures = {each["key"]: each for each in said["figures"]}
    assert figures["requests"]["synthetic"] == 6000
    assert abs(figures["read_share"]["deviation"]) < 0.01
    assert abs(figures["mean_gap_ns"]["deviation"]) < 0.01
    assert abs(figures["continue_32"]["deviation"]) < 0.02
    assert figures["lru"]["deviation"] < 0.03
    assert figures["read_sizes"]["deviation"] < 0.01
    iotrail("generate", model, "-o", tmp_path / "y.trail", "--seed", "2")
    counted = iotrail(
        "sql",
        tmp_path / "y.trail",
        "SELECT COUNT(*) AS n, COUNT(dur) AS known FROM device_request",
        "--format",
        "json",
    )
    assert json.loads(counted) in ({"n": 6000, "known": 0}, [{"n": 6000, "known": 0}])


def test_levels_are_chosen_by_throughput(trail: Path, tmp_path: Path) -> None:
    said = json.loads(iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--json"))
    before, last = said["series"][-2:]
    if last["bytes"] > 65_536:
        assert said["levels"] == before["levels"]
    else:
        assert said["levels"] == last["levels"]
        assert abs(last["iops"] / before["iops"] - 1) < 0.02 or last["levels"] == 6
    assert said["bytes"] == len((tmp_path / "m.json").read_bytes()) <= 65_536


def test_a_model_is_shown(model: Path) -> None:
    text = iotrail("model", "show", model)
    assert "6,000 requests" in text
    assert "device 0" in text
    assert json.loads(iotrail("model", "show", model, "--json")) == json.loads(model.read_text())


def test_what_is_no_model_is_refused(trail: Path, model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "b.json"
    broken.write_text(model.read_text().replace('"format":2', '"format":9'))
    assert "format: expected 2, found 9" in iotrail("model", "show", broken, fails=True)
    broken.write_text("{}")
    assert "not a model" in iotrail("generate", broken, "-o", tmp_path / "y.trail", fails=True)
    assert not (tmp_path / "y.trail").exists()
    assert "exists already" in iotrail("model", "fit", trail, "-o", model, fails=True)
    nowhere = tmp_path / "none" / "m.json"
    assert "there is no folder" in iotrail("model", "fit", trail, "-o", nowhere, fails=True)
    assert "--levels: expected" in iotrail(
        "model", "fit", trail, "-o", broken, "--levels", "x", "--force", fails=True
    )
    assert "--intensity" in iotrail(
        "generate", model, "-o", tmp_path / "y.trail", "--intensity", "0", fails=True
    )


@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_what_ends_before_the_last_request_is_no_answer(
    trail: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    """Killed while it draws, after the last whole batch, which is the end of a stream as well."""
    binary = tmp_path / "iotrail-native"
    binary.write_text(
        "#!/bin/sh\n"
        f'[ "$1 $2" = "model draw" ] || exec {native.binary()} "$@"\n'
        f'{native.binary()} "$@"\nkill -{signal} $$\nsleep 60\n'
    )
    binary.chmod(0o755)
    monkeypatch.setattr(native, "binary", lambda: binary)
    for words in (
        ("generate", model, "-o", tmp_path / "y.trail"),
        ("model", "check", model, "--against", trail),
        ("model", "merge", model, model, "-o", tmp_path / "m.json"),
        ("model", "export", "fio", model, "-o", tmp_path / "m.fio"),
        ("model", "show", model, "--windows", "1s"),
        ("whatif", "device", model, "--on", "hdd-7200"),
    ):
        said = iotrail(*words, fails=True)
        assert ("not all requests could be drawn" in said) == (signal == "KILL")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["iotrail-native"]


def imported(folder: Path, lines: list[str]) -> Path:
    (folder / "t.csv").write_text("\n".join(["ts_us,op,offset,size", *lines, ""]))
    iotrail("import", "csv", folder / "t.csv", "-o", folder / "t.trail")
    return folder / "t.trail"


def test_discards_of_a_trace_are_fitted(tmp_path: Path) -> None:
    random = Random(1)
    ops = [random.choice("RRRWWD") for _ in range(3000)]
    lines = [f"{100 * number},{op},{random.randrange(1000) * 4096},4096" for number, op in enumerate(ops)]
    trail = imported(tmp_path, lines)
    iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--levels", "1")
    said = json.loads(iotrail("model", "check", tmp_path / "m.json", "--against", trail, "--json"))
    figures = {each["key"]: each for each in said["figures"]}
    assert figures["requests"]["original"] == figures["requests"]["synthetic"] == 3000
    assert figures["discard_share"]["original"] == pytest.approx(ops.count("D") / 3000)
    assert figures["discard_share"]["deviation"] == pytest.approx(0)


def test_requests_that_no_disk_gets_are_left_out_and_counted(tmp_path: Path) -> None:
    """Of no length, and of 4 GiB."""
    lines = [f"{100 * number},R,{number * 4096},4096" for number in range(100)]
    odd = [f"{20_000 + number},W,0,{length}" for number, length in enumerate((0, 0, 1 << 32, 5 << 30))]
    trail = imported(tmp_path, [*lines, *odd])
    said = json.loads(iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--levels", "1", "--json"))
    assert said["left_out"] == 4
    assert "100 requests" in iotrail("model", "show", tmp_path / "m.json")
