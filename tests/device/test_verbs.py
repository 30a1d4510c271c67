"""`iotrail device` as people run it: from a trace with response times to a device file that is read again."""

import json
from pathlib import Path
from random import Random

import pytest

from tests.command import iotrail

from .written import is_judged

SHARED = Path(__file__).resolve().parents[3] / "shared/traces/block/disksim-atlas10k.trace"


def trail_of(folder: Path, lines: list[str]) -> Path:
    """A trail of requests with response times."""
    trace = folder / "t.csv"
    trace.write_text("ts_us,op,offset,size,latency_us\n" + "".join(f"{line}\n" for line in lines))
    iotrail("import", "csv", trace, "-o", folder / "t.trail")
    return folder / "t.trail"


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs ../shared ({SHARED.name})")
def test_a_fitted_disk_answers_like_the_measured_one(tmp_path: Path) -> None:
    trace, trail, device = tmp_path / "t.trace", tmp_path / "t.trail", tmp_path / "d.toml"
    trace.write_text("".join(SHARED.read_text().splitlines(keepends=True)[:3000]))
    iotrail("import", "disksim-validate", trace, "-o", trail)
    found = json.loads(iotrail("device", "fit", trail, "-o", device, "--json"))
    assert found["count"] == 3000
    assert found["demerit"] < 0.05 * found["measured_mean"]
    shown = json.loads(iotrail("device", "show", device, "--json"))
    sources = {each["key"]: each["source"] for each in shown["values"]}
    assert sources["disk.revolution"].startswith("fitted") and sources["disk.queue_depth"].startswith(
        "default"
    )
    [simulated] = json.loads(iotrail("whatif", "device", trail, "--on", device, "--json"))["simulated"]
    times = {each["op"]: each["mean_ns"] for each in simulated["arrivals_after_completions"]["times"]}
    for name, op in (("other reads", "read"), ("writes", "write")):
        assert name in found["classes"] and op in times
    assert times["write"] == pytest.approx(found["classes"]["writes"]["measured_mean"], rel=0.1)
    assert "exists" in iotrail("device", "fit", trail, "-o", device, fails=True)


def test_a_fitted_file_is_as_the_one_held_to_the_schema(tmp_path: Path) -> None:
    random = Random(3)
    lines = [
        f"{at * 40_000 + random.randrange(9000)},{random.choice('RRW')},{random.randrange(4_000_000) * 4096},"
        f"{random.choice((4096, 65536))},{random.randrange(2000, 16_000)}"
        for at in range(400)
    ]
    device = tmp_path / "d.toml"
    iotrail("device", "fit", trail_of(tmp_path, lines), "-o", device)
    assert is_judged(device, "fitted.toml")


def test_the_schema_is_printed() -> None:
    schema = json.loads(iotrail("device", "schema"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    revolution = schema["definitions"]["disk"]["properties"]["revolution"]
    assert revolution["properties"]["unit"]["enum"] == ["ns", "us", "ms", "s", "rpm"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0,R,0,4096,100"], "expected at least 50"),
        ([f"{at * 1000},R,0,4096,100" for at in range(60)], "all requests are at byte 0"),
        ([f"5,R,{at * 4096},4096,100" for at in range(60)], "all requests arrive at one instant"),
    ],
)
def test_traces_that_say_nothing(tmp_path: Path, lines: list[str], message: str) -> None:
    device = tmp_path / "d.toml"
    assert message in iotrail("device", "fit", trail_of(tmp_path, lines), "-o", device, fails=True)
    assert not device.exists()


def test_traces_without_response_times(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(
        "ts_us,op,offset,size\n" + "".join(f"{at * 1000},R,{at * 4096},4096\n" for at in range(60))
    )
    iotrail("import", "csv", trace, "-o", tmp_path / "t.trail")
    said = iotrail("device", "fit", tmp_path / "t.trail", "-o", tmp_path / "d.toml", fails=True)
    assert "no reads or writes of a disk with a known place and response time" in said


def test_devices_are_listed_and_shown(tmp_path: Path) -> None:
    names = [each["name"] for each in json.loads(iotrail("device", "list", "--json"))]
    assert names == sorted(names) and "hdd-7200" in names
    for name in names:
        assert name in iotrail("device", "list")
        assert json.loads(iotrail("device", "show", name, "--json"))["values"]
    assert "cannot read nowhere" in iotrail("device", "show", "nowhere", fails=True)
