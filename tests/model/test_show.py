"""`iotrail model show`: the diagram of states, what a file reveals, and models written as TOML."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from iotrail.model.diagram import LEAST, diagram, text
from iotrail.model.fit import load

from ..command import iotrail

GIB = 1 << 30
# ts (us), operation, offset, size, disk
Row = tuple[int, str, int, int, str]
needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")


def fitted(folder: Path, rows: Sequence[Row], *words: object) -> Path:
    """A model of requests."""
    trace = folder / "t.csv"
    trace.write_text(
        "\n".join(["ts_us,op,offset,size,device", *(",".join(map(str, row)) for row in rows), ""])
    )
    iotrail("import", "csv", trace, "-o", folder / "t.trail", "--force")
    iotrail("model", "fit", folder / "t.trail", "-o", folder / "m.json", "--force", *words)
    return folder / "m.json"


def alternating() -> list[Row]:
    """Of 16 ranges of 1 GiB, the first has half of 4,000 requests and the last the other, in turn; one request is in the sixth."""
    rows: list[Row] = []
    for number in range(4000):
        pos = (number * 7919 % 1000) * 8192 + (15 * GIB if number % 2 else 0)
        rows.append((number * 1000, "R", pos if number != 2000 else 5 * GIB, 4096, "sda"))
    rows.append((4_000_000, "R", 16 * GIB - 4096, 4096, "sda"))
    return rows


def test_states_and_transitions_have_their_shares(tmp_path: Path) -> None:
    found = diagram(load(fitted(tmp_path, alternating(), "--levels", 2)))
    (device,) = found.devices
    assert device.share == 1
    frames = {each.number: each for each in device.parts}
    assert frames.keys() == {0, 3}
    assert [(part.number, round(part.share, 2)) for part in frames[0].parts] == [(0, 0.5)]
    assert [(part.number, round(part.share, 2)) for part in frames[3].parts] == [(15, 0.5)]
    assert (found.states, found.states_drawn) == (3, 2)
    assert found.states_left_out == pytest.approx(1 / 4001)
    shares = {(each.source.id, each.target.id): round(each.share, 2) for each in found.arrows}
    assert shares == {
        # from one end to the other and back, and from each to itself when next there
        ("d0_1_0", "d0_1_3"): 0.5,
        ("d0_1_3", "d0_1_0"): 0.5,
        ("d0_2_0", "d0_2_0"): 0.5,
        ("d0_2_15", "d0_2_15"): 0.5,
    }
    source = text(found)
    assert (
        "Left out, below 1% of the requests each: 1 state of 3 (0.0% of the requests), 2 transitions of 6"
        in source
    )
    assert "0 B to 1.00 GiB\\n50.0%" in source and "15.0 GiB to 16.0 GiB\\n50.0%" in source
    assert "5.00 GiB" not in source
    # both ways are one arrow, cut at the frames
    (arrow,) = re.findall(r"d0_2_0 -> d0_2_15 \[(.*)\]", source)
    assert "back" in arrow and "ltail=cluster_d0_1_0" in arrow and "lhead=cluster_d0_1_3" in arrow


@needs_graphviz
@pytest.mark.parametrize(("devices", "levels"), [(1, 0), (1, 4), (2, 1), (6, 2), (6, 3)])
def test_each_model_is_drawn(tmp_path: Path, devices: int, levels: int) -> None:
    random = Random(devices)
    rows: list[Row] = []
    for number in range(6000):
        device = random.randrange(devices)
        zone = random.choice([0, 0, 0, 1, 2, 5, 9, 9 - device])
        pos = zone * GIB + random.randrange(1 << 17) * 4096
        rows.append((number * 1000, random.choice("RRW"), pos, 4096, f"sd{device}"))
    model = fitted(tmp_path, rows, "--levels", levels)
    svg, dot = tmp_path / "m.svg", tmp_path / "m.dot"
    iotrail("model", "show", model, "--svg", svg, "--dot", dot)
    texts = {
        each.text or "" for each in ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")
    }
    found = diagram(load(model))
    assert len(found.devices) == devices
    assert {each.split(",")[0] for each in texts if each.startswith("device ")} == {
        f"device {number}" for number in range(devices)
    }
    assert all(each.share >= LEAST for each in found.arrows)
    assert dot.read_text().startswith("digraph states {")
    before = svg.read_bytes()
    assert "--force replaces it" in iotrail("model", "show", model, "--svg", svg, fails=True)
    iotrail("model", "show", model, "--svg", svg, "--force")
    assert svg.read_bytes() == before


def test_a_diagram_says_what_it_needs(tmp_path: Path) -> None:
    model = fitted(tmp_path, alternating(), "--levels", 1)
    said = iotrail(
        "model", "show", model, "--svg", tmp_path / "m.svg", fails=True, env={"PATH": str(tmp_path)}
    )
    assert "install the package graphviz" in said
    assert not (tmp_path / "m.svg").exists()
    iotrail("model", "show", model, "--dot", tmp_path / "m.dot", env={"PATH": str(tmp_path)})
    said = iotrail("model", "show", model, "--svg", tmp_path / "m.svg", "--reveals", fails=True)
    assert "--svg can't be combined with --reveals" in said


SECRET = "payroll-vault-7f"
# an address in the middle, and a date in 2031
ODD, DATE_US = 5_123_456_786_432, 1_940_123_456_789_012


def secrets() -> list[Row]:
    random = Random(5)
    rows: list[Row] = [(DATE_US, "R", ODD, 12288, SECRET)]
    for number in range(1, 3000):
        size = random.choice([4096, 4096, 8192])
        rows.append((DATE_US + 1000 * number, "R", random.randrange(1 << 31) * 4096, size, SECRET))
    rows += [(DATE_US + 3_000_000 + at, "W", (1 << 42) + 65536 * at, 65536, "other") for at in range(64)]
    rows.append((DATE_US + 5_000_000, "R", (1 << 43) + 511 * 4096, 4096, SECRET))
    return rows


def test_a_model_does_not_hold_names_dates_and_addresses(tmp_path: Path) -> None:
    model = fitted(tmp_path, secrets(), "--levels", 2)
    trail = b"".join(each.read_bytes() for each in (tmp_path / "t.trail").rglob("*") if each.is_file())
    held = trail + (tmp_path / "t.trail").read_bytes() if (tmp_path / "t.trail").is_file() else trail
    assert SECRET.encode() in held, "the trail has the name"
    content = model.read_text()
    planted = [
        SECRET,
        "payroll",
        "sda",
        "t.csv",
        "t.trail",
        str(ODD),
        str(ODD // 512),
        str(ODD // 4096),
        f"{ODD:x}",
    ]
    planted += [str(DATE_US)[:digits] for digits in (9, 10, 13, 16)] + ["2031"]
    numbers = set(re.findall(r"\d+", content))
    for each in planted:
        assert each not in numbers if each.isdecimal() else each not in content, each
    assert str(DATE_US)[:10] not in content and str(ODD)[:9] not in content


def test_what_a_model_reveals(tmp_path: Path) -> None:
    model = fitted(tmp_path, secrets(), "--levels", 2)
    found: dict[str, Any] = json.loads(iotrail("model", "show", model, "--reveals", "--json"))
    assert (found["requests"], found["length_ns"], found["tick_ns"]) == (3065, 5_000_000_000, 1000)
    reaches = [(1 << 43) + 512 * 4096, (1 << 42) + 64 * 65536]
    assert [each["reach_bytes"] for each in found["devices"]] == reaches
    assert [each["finest_bytes"] for each in found["devices"]] == [reach // 16 for reach in reaches]
    assert found["finest_bytes"] == reaches[1] // 16
    assert found["run_time_step_ns"] == 5_000_000_000 / 65536
    # rarer than --min-count: 12 KiB counts as 8 KiB
    assert [each["bytes"] for each in found["sizes"]] == [4096, 8192, 65536]
    assert sum(each["requests"] for each in found["sizes"]) == 3065
    assert found["least_size_requests"] == 64
    run = max(found["largest"], key=lambda each: each["bytes"])
    assert (run["requests"], run["bytes"], run["direction"], run["device"]) == (64, 64 * 65536, "write", 1)
    assert run["from_ns"] <= 3_000_000_000 <= run["until_ns"]
    assert run["first_bytes"] <= 1 << 42 < run["end_bytes"]
    assert found["kept_splits"] > 0 and found["finest_split_ns"] > 0
    assert found["texts"] == []
    said = iotrail("model", "show", model, "--reveals")
    for part in (
        f"{reaches[0]:,} B",
        "4,096 B, 8,192 B, 65,536 B",
        "64 requests, 4,194,304 B",
        "no path",
        "no date",
        "no content",
        "no address finer than a range: 256 GiB",
    ):
        assert part in said, said


def toml(value: Any) -> str:
    """A value of a model in TOML: nothing is an empty list."""
    if value is None:
        return "[]"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {toml(each)}' for name, each in value.items())}}}"
    return json.dumps(value)


def test_a_model_may_be_toml(tmp_path: Path) -> None:
    model = fitted(tmp_path, secrets(), "--levels", 2)
    values = json.loads(model.read_text())
    assert any(run[6] is None for run in values["largest"])
    written = tmp_path / "m.toml"
    written.write_text("# by hand\n" + "".join(f"{name} = {toml(each)}\n" for name, each in values.items()))
    assert json.loads(iotrail("model", "show", written, "--json")) == values
    for name in (model, written):
        iotrail("generate", name, "-o", tmp_path / f"{name.suffix[1:]}.trail")
    drawn = [
        iotrail(
            "sql",
            tmp_path / f"{suffix}.trail",
            "SELECT ts, pos, length FROM device_request ORDER BY ALL",
            "--format",
            "csv",
        )
        for suffix in ("json", "toml")
    ]
    assert drawn[0] == drawn[1]
    target = tmp_path / "target"
    target.touch()
    # refused, but it was read
    said = iotrail("generate", written, "--target", target, "--overwrite", fails=True)
    assert "not a model" not in said
    good = written.read_text()
    for wrong, expected in (
        ("levels = ", "line 4"),
        ("levels = 1979-05-27", "expected u32"),
        ("levels = 99", "levels: expected at most 8, found 99"),
        ("levels = 2\nname = 'x'", "unknown field `name`"),
    ):
        written.write_text(good.replace("levels = 2", wrong))
        said = iotrail("model", "show", written, fails=True)
        assert "m.toml: " in said and expected in said and "hint:" in said, said
    said = iotrail("model", "fit", tmp_path / "t.trail", "-o", tmp_path / "n.toml", fails=True)
    assert "a model is written as JSON" in said
    assert not (tmp_path / "n.toml").exists()


def test_an_error_in_json_says_where(tmp_path: Path) -> None:
    model = fitted(tmp_path, alternating(), "--levels", 1)
    broken = model.read_text().replace('"levels":1', '"levels":"one"')
    model.write_text(broken)
    assert "expected u32 at line 4" in iotrail("model", "show", model, fails=True)
