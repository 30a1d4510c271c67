"""`iotrail model check`: each figure on workloads whose answer is known, and what it refuses.

A planted change is written as a trail, and a model that isn't drawn from stands between: `compared` takes the requests of a
second trail for those that a model draws.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from iotrail.errors import IotrailError, ModelError, TrailError, UsageError
from iotrail.model import check as checked
from iotrail.model.aggregates import draw_aggregates
from iotrail.model.check import Check, Figure
from iotrail.model.figures import measures
from iotrail.model.fit import load
from iotrail.trail import Trail

from ..command import iotrail

# ts (us), operation, offset, size, and the disk
Row = tuple[int, str, int, int]
KIB, SECOND = 1024, 1_000_000


def write(folder: Path, name: str, rows: Sequence[Row]) -> Path:
    """A trail of requests to a disk."""
    trace = folder / f"{name}.csv"
    trace.write_text("\n".join(["ts_us,op,offset,size", *(",".join(map(str, row)) for row in rows), ""]))
    iotrail("import", "csv", trace, "-o", folder / f"{name}.trail", "--force")
    return folder / f"{name}.trail"


def steady(count: int = 2000, gap_us: int = 10_000, read_every: int = 2, size: int = 4 * KIB) -> list[Row]:
    """A request each 10 ms, 100 a second; every second one a read; each of the 64 places that are a MiB apart in turn."""
    return [
        (number * gap_us, "R" if number % read_every == 0 else "W", number % 64 * KIB * KIB, size)
        for number in range(count)
    ]


Compared = Callable[..., dict[str, Figure]]


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Figures of requests as the original, and of others as the synthetic ones."""

    def compare(
        original: Sequence[Row], synthetic: Sequence[Row], on: str | None = None
    ) -> dict[str, Figure]:
        trail, other = (write(tmp_path, name, rows) for name, rows in (("a", original), ("b", synthetic)))
        iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--levels", "1", "--force")
        drawn = checked.read_requests(Trail(other))
        monkeypatch.setattr(checked, "draw_requests", lambda *_: drawn)
        found: Check = checked.check(load(tmp_path / "m.json"), Trail(trail), seed=1, on=on)
        return {each.key: each for each in found.figures}

    return compare


def test_equal_requests_do_not_deviate(compared: Compared) -> None:
    figures = compared(steady(), steady(), "hdd-7200")
    assert all(each.deviation in (0, None) for each in figures.values()), figures
    unknown = {key for key, each in figures.items() if each.deviation is None}
    # 20 s: no window of 60 s, and only two of 10 s
    assert unknown == {"working_set_60s_bytes", "dispersion_10s"}
    assert not any(each.beyond for each in figures.values())
    values = {key: each.original for key, each in figures.items()}
    assert values["requests"] == 2000
    assert values["iops"] == pytest.approx(100)
    assert (values["read_share"], values["flush_share"], values["random_share"]) == (0.5, 0, 1)
    assert (values["mean_read_bytes"], values["share_of_4096_bytes"]) == (4 * KIB, 1)
    assert values["mean_gap_ns"] == values["gap_p50_ns"] == 10_000_000
    assert values["footprint_bytes"] == values["working_set_1s_bytes"] == 64 * 4 * KIB
    assert values["working_set_60s_bytes"] is None
    # counts are all alike
    assert values["dispersion_1s"] == pytest.approx(0, abs=0.01)
    assert values["read_response_mean_ns"] is not None and 0 < values["read_response_mean_ns"] < 50e6
    assert 0 < (values["utilisation"] or 0) < 1
    # the halves are alike, the baseline isn't
    assert figures["gap_ks"].noise == 0
    assert 0.6 < (figures["gap_ks"].baseline_deviation or 0) < 0.65
    assert figures["dispersion_1s"].baseline == pytest.approx(1, abs=0.8)
    assert figures["lru"].baseline_deviation is not None
    assert figures["lru"].baseline_deviation > 0.02


def test_tables_are_compared_beside_another_one(tmp_path: Path) -> None:
    rows = {"a": steady(), "b": steady(read_every=4), "c": steady(read_every=5)}
    trails = {name: write(tmp_path, name, each) for name, each in rows.items()}
    iotrail("model", "fit", trails["a"], "-o", tmp_path / "m.json", "--levels", "1")
    original, other, noise = (checked.read_requests(Trail(trail)) for trail in trails.values())
    model = load(tmp_path / "m.json")
    found = checked.compare_requests(model, original, [other, original], noise=noise)
    reads = next(each for each in found.figures if each.key == "read_share")
    assert (reads.original, reads.deviation_range, reads.noise) == (0.5, (-0.25, 0), pytest.approx(0.3))
    assert [each["requests"] for each in found.draws] == [2000, 2000]
    assert found.synthetic is found.draws[0]
    without = checked.compare_requests(model, original, [other])
    assert {each.noise for each in without.figures} == {None}


def test_planted_shares_and_sizes_are_found(compared: Compared) -> None:
    other = [(ts, op, pos, 8 * KIB if op == "R" else size) for ts, op, pos, size in steady(read_every=4)]
    figures = compared(steady(), other)
    assert figures["read_share"].deviation == -0.25
    assert figures["read_share"].beyond
    assert figures["mean_read_bytes"].deviation == 1
    assert figures["mean_write_bytes"].deviation == 0
    assert figures["share_of_4096_bytes"].deviation == -0.25
    assert (figures["read_sizes"].deviation, figures["write_sizes"].deviation) == (1, 0)
    assert figures["requests"].deviation == figures["gap_ks"].deviation == 0


def test_without_writes_their_figures_are_unknown(compared: Compared) -> None:
    figures = compared(steady(read_every=1), steady(read_every=1))
    of_writes = [figures[key] for key in ("mean_write_bytes", "write_sizes")]
    assert [
        (each.original, each.synthetic, each.deviation, each.noise, each.beyond) for each in of_writes
    ] == [(None, None, None, None, None)] * 2
    assert figures["read_share"].original == 1


def test_planted_gaps_are_found(compared: Compared) -> None:
    """Half of the gaps a tenth, the others as much longer: the mean stays, the distribution doesn't."""
    other = [(ts - (9_000 if number % 2 else 0), *rest) for number, (ts, *rest) in enumerate(steady())]
    figures = compared(steady(), other)  # type: ignore[arg-type]
    assert abs(figures["mean_gap_ns"].deviation or 0) < 0.001
    assert abs(figures["iops"].deviation or 0) < 0.001
    assert figures["gap_ks"].deviation == pytest.approx(0.5, abs=0.001)
    assert figures["gap_p10_ns"].deviation == pytest.approx(-0.9)
    assert figures["gap_p90_ns"].deviation == pytest.approx(0.9)
    assert figures["dispersion_1s"].original == pytest.approx(0, abs=0.01)


def test_planted_bursts_are_found(compared: Compared) -> None:
    """The same count in each 10 s, but all in the first half second of each second."""
    other = [(ts // SECOND * SECOND + ts % SECOND // 2, *rest) for ts, *rest in steady(20_000)]
    figures = compared(steady(20_000), other)  # type: ignore[arg-type]
    # of 0.1 s: 20 requests in half of them
    burst = figures["dispersion_0.1s"]
    assert burst.original == pytest.approx(0, abs=0.01)
    assert burst.synthetic == pytest.approx(10, rel=0.02)
    assert figures["dispersion_1s"].synthetic == pytest.approx(0, abs=0.01)
    assert figures["iops"].deviation == pytest.approx(0, abs=0.005)


def test_planted_runs_are_found(compared: Compared) -> None:
    """Four sequential streams in turn: the fourth last run is continued, one of the last two isn't."""
    streams = [
        (number * 1000, "R", number % 4 * 256 * KIB * KIB + number // 4 * 4 * KIB, 4 * KIB)
        for number in range(2000)
    ]
    figures = compared(
        streams, [(ts, op, number % 64 * KIB * KIB, size) for number, (ts, op, _, size) in enumerate(streams)]
    )
    assert (figures["continue_2"].original, figures["continue_2"].synthetic) == (0, 0)
    assert figures["continue_8"].original == figures["continue_32"].original == 1996 / 2000
    assert figures["continue_8"].deviation == pytest.approx(-0.998)
    assert figures["random_share"].deviation == pytest.approx(0.998)
    # 1 level: four states, each of one stream; now all lie in the first
    assert figures["largest_transition"].deviation == pytest.approx(1, abs=0.001)
    assert figures["footprint_bytes"].deviation == pytest.approx(64 / 2000 - 1)


def test_planted_reuse_is_found(compared: Compared) -> None:
    """A loop over 64 pages, and the same page again and again: caches of fewer pages miss all, or nothing but the first use."""
    figures = compared(
        steady(), [(ts, op, ts // 10_000 // 32 % 64 * KIB * KIB, size) for ts, op, _, size in steady()]
    )
    assert figures["footprint_bytes"].deviation == pytest.approx(63 / 64 - 1)
    # of 64 even sizes 63 miss all 2000 instead of 63
    assert figures["lru_even"].deviation == pytest.approx((1 - 63 / 2000) * 63 / 64, abs=0.001)
    for policy in ("lru", "fifo", "arc", "s3-fifo"):
        assert (figures[policy].deviation or 0) > 0.5, policy
    assert figures["working_set_1s_bytes"].synthetic == pytest.approx(4.1 * 4 * KIB, rel=0.05)
    # states are too coarse to tell
    assert (figures["transitions"].deviation or 0) < 0.1


def test_slower_requests_are_found_on_a_device(compared: Compared) -> None:
    figures = compared(steady(), steady(gap_us=20_000), "hdd-7200")
    assert figures["utilisation"].deviation == pytest.approx(-0.5, abs=0.05)
    assert "flush_response_mean_ns" not in figures


def table(rows: Sequence[tuple[int, int, int, int, int]]) -> pa.Table:
    """ts, device, op, pos, length."""
    columns = dict(zip(("ts", "device", "op", "pos", "length"), zip(*rows, strict=True), strict=True))
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_aggregates_are_those_of_the_original() -> None:
    random = Random(1)
    original = table(
        [
            (n * 1000, n % 3 // 2, n % 4 // 3, random.randrange(100) * 4096, 8192 if n % 2 else 4096)
            for n in range(20_000)
        ]
    )
    drawn = draw_aggregates(original, [1 << 30, 1 << 20], seed=1)
    assert drawn.equals(draw_aggregates(original, [1 << 30, 1 << 20], seed=1))
    assert not drawn.equals(draw_aggregates(original, [1 << 30, 1 << 20], seed=2))
    rows = drawn.to_pydict()
    count = len(drawn)
    assert count == 20_000
    assert sum(rows["device"]) / count == pytest.approx(1 / 3, abs=0.02)
    assert sum(rows["op"]) / count == pytest.approx(1 / 4, abs=0.02)
    assert sum(rows["length"]) / count == pytest.approx(6144, rel=0.02)
    assert rows["ts"][-1] / (count - 1) == pytest.approx(1000, rel=0.03)
    assert rows["ts"] == sorted(rows["ts"])
    assert all(pos % length == 0 for pos, length in zip(rows["pos"], rows["length"], strict=True))
    ends = [(1 << 30, 1 << 20)[device] for device in rows["device"]]
    assert all(
        pos + length <= end for pos, length, end in zip(rows["pos"], rows["length"], ends, strict=True)
    )
    assert max(pos for pos, device in zip(rows["pos"], rows["device"], strict=True) if device == 0) > 0.99 * (
        1 << 30
    )


KEYS = {
    "section", "key", "name", "unit", "kind", "original", "synthetic", "synthetic_range", "deviation", "deviation_range",
    "noise", "baseline", "baseline_deviation", "beyond",
}  # fmt: skip
FIGURES = [
    "requests", "iops", "read_share", "flush_share", "discard_share", "device_share",
    "mean_read_bytes", "mean_write_bytes", "share_of_4096_bytes", "read_sizes", "write_sizes",
    "random_share", "continue_2", "continue_8", "continue_32", "largest_transition", "transitions",
    "footprint_bytes", "working_set_1s_bytes", "working_set_10s_bytes", "working_set_60s_bytes",
    "mean_gap_ns", "gap_p10_ns", "gap_p50_ns", "gap_p90_ns", "gap_p99_ns", "gap_ks",
    "dispersion_0.01s", "dispersion_0.1s", "dispersion_1s", "dispersion_10s",
    "lru", "lru_even", "fifo", "arc", "s3-fifo",
    "read_response_mean_ns", "read_response_p99_ns", "write_response_mean_ns", "write_response_p99_ns", "utilisation",
]  # fmt: skip


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A trail and its model."""
    folder = tmp_path_factory.mktemp("fitted")
    trail = write(folder, "t", steady())
    iotrail("model", "fit", trail, "-o", folder / "m.json", "--levels", "1")
    return trail, folder / "m.json"


def test_json_holds_all_figures(fitted: tuple[Path, Path]) -> None:
    trail, model = fitted
    said = json.loads(
        iotrail("model", "check", model, "--against", trail, "--on", "hdd-7200", "--seeds", "3", "--json")
    )
    assert set(said) == {"model", "against", "node", "seed", "seeds", "on", "figures", "series"}
    assert (said["seed"], said["seeds"], said["on"]) == (1, 3, "hdd-7200")
    assert [each["key"] for each in said["figures"]] == FIGURES
    assert all(set(each) == KEYS for each in said["figures"])
    by_key = {each["key"]: each for each in said["figures"]}
    assert {each["unit"] for each in said["figures"]} == {"", "1/s", "share", "bytes", "ns"}
    assert by_key["working_set_60s_bytes"]["original"] is None
    low, high = by_key["read_share"]["deviation_range"]
    assert low <= by_key["read_share"]["deviation"] <= high
    assert set(said["series"]) == {"original", "synthetic", "baseline"}
    for side in said["series"].values():
        assert set(side) == {
            "gap_buckets_ns", "dispersion", "lru_miss_ratios", "slice_ns", "requests_in_slices",
        }  # fmt: skip
        assert sum(side["requests_in_slices"]) == 2000
    alone = json.loads(iotrail("model", "check", model, "--against", trail, "--json"))
    assert {each["key"] for each in alone["figures"]} == set(FIGURES[:-5])
    assert all(each["deviation_range"] is None for each in alone["figures"])


def test_text_says_what_is_unknown(fitted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    trail, model = fitted
    monkeypatch.setenv("COLUMNS", "140")
    lines = iotrail("model", "check", model, "--against", trail).splitlines()
    assert " ".join(lines[0].split()) == "original synthetic deviation noise floor baseline deviation"
    [working] = [line for line in lines if "working set of 60 s" in line]
    assert working.split()[5:] == ["unknown"] * 6
    [mean] = [line for line in lines if "inter-arrival time, mean" in line]
    assert "10.0 ms" in mean
    assert any(line.startswith("* beyond the noise floor and 5%") for line in lines)
    several = iotrail("model", "check", model, "--against", trail, "--seeds", "2")
    assert "over seeds" in several.splitlines()[0]
    monkeypatch.setenv("COLUMNS", "80")
    narrow = iotrail("model", "check", model, "--against", trail).splitlines()
    assert " ".join(narrow[0].split()) == "original synthetic deviation noise floor baseline"


def test_few_requests_have_no_noise_floor(tmp_path: Path) -> None:
    trail = write(tmp_path, "t", steady(40))
    iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--levels", "1")
    found = checked.check(load(tmp_path / "m.json"), Trail(trail), seed=1)
    assert all(each.noise is None and each.beyond is None for each in found.figures)
    assert "Fewer than 100 requests" in iotrail("model", "check", tmp_path / "m.json", "--against", trail)


def test_bad_input_is_refused(fitted: tuple[Path, Path], tmp_path: Path) -> None:
    trail, model = fitted
    loaded = load(model)

    def refused(of: Path, kind: type[IotrailError], *, node: str | None = None, on: str | None = None) -> str:
        with pytest.raises(kind) as error:
            checked.check(loaded, Trail(of), seed=1, node=node, on=on)
        assert error.value.hint
        return f"{error.value} {error.value.hint}"

    one = write(tmp_path, "one", steady(1))
    assert f"{one}: expected 2 requests or more with a known place, found 1" in refused(one, ModelError)
    (tmp_path / "timeless.log").write_text(
        "fio version 2 iolog\n/dev/sdx add\n/dev/sdx open\n/dev/sdx read 0 4096\n/dev/sdx read 4096 4096\n/dev/sdx close\n"
    )
    timeless = tmp_path / "timeless.trail"
    iotrail("import", "fio", tmp_path / "timeless.log", "-o", timeless)
    assert f"{timeless}: the trace has no times" in refused(timeless, TrailError)
    with_calls = tmp_path / "calls.trail"
    iotrail("record", "-o", with_calls, "--", sys.executable, "-c", "open('/dev/null').read()")
    assert f"{with_calls}: no requests of disks" in refused(with_calls, TrailError)
    assert "there is no machine moon" in refused(trail, UsageError, node="moon")
    lines = [f"{number * 1000},sd{'ab'[number % 2]},R,{number * 4096},4096" for number in range(200)]
    (tmp_path / "two.csv").write_text("\n".join([*lines, ""]))
    two = tmp_path / "two.trail"
    columns = "ts=1,unit=us,dev=2,op=3,read=R,write=W,pos=4,length=5"
    iotrail("import", "csv", tmp_path / "two.csv", "--map", columns, "-o", two)
    assert f"{two}: expected requests of 1 device, as the model has, found 2" in refused(two, ModelError)
    nowhere = iotrail("model", "check", model, "--against", trail, "--on", "nowhere.toml", fails=True)
    assert "nowhere.toml" in nowhere
    page = tmp_path / "p.html"
    page.write_text("mine")
    kept = iotrail("model", "check", model, "--against", trail, "--html", page, fails=True)
    assert "--force" in kept
    assert page.read_text() == "mine"


def test_devices_are_told_by_number(fitted: tuple[Path, Path]) -> None:
    """Synthetic requests that begin with another device than the original ones still compare disk with disk."""
    rows = [(0, 1, 0, 0, 4096), (1000, 0, 0, 0, 4096), (2000, 1, 0, 4096, 4096)]
    drawn = (
        table(rows).append_column("dur", pa.nulls(3, pa.int64())).append_column("flags", pa.array([0] * 3))
    )
    drawn = drawn.select(["ts", "dur", "device", "op", "pos", "length", "flags"])
    asked = checked._Asked(fitted[1], None, lambda *_: None, 1)
    assert asked.describe("drawn", drawn, None)["devices"] == [[0, 1], [1, 2]]


def in_bursts(device: Callable[[int, int], int]) -> pa.Table:
    """Of each of 40 s 20 requests, a ms apart, each on the device of its second and its number, -1 none."""
    rows = [(10**9 * s + 10**6 * n, device(s, n), 0, n * 4096, 4096) for s in range(41) for n in range(20)]
    kept = table([row for row in rows if row[1] >= 0])
    empty = pa.nulls(len(kept), pa.int64())
    flags = pa.array([0] * len(kept))
    both = kept.append_column("dur", empty).append_column("flags", flags)
    return both.select(["ts", "dur", "device", "op", "pos", "length", "flags"])


def test_how_devices_go_together(tmp_path: Path) -> None:
    trail = write(tmp_path, "t", steady())
    iotrail("model", "fit", trail, "-o", tmp_path / "m.json", "--levels", "1")
    asked = checked._Asked(tmp_path / "m.json", None, lambda *_: None, 1)

    def off(one: pa.Table, other: pa.Table) -> dict[str, tuple[float | None, float | None]]:
        """Each figure's value of the first, and its distance."""
        first, second = (asked.describe("drawn", each, None) for each in (one, other))
        found = [each for each in measures(first, None) if each.section == "Devices"]
        return {
            each.key: (each.value(first) if each.value else None, each.distance(first, second))
            for each in found
        }

    # both disks in even seconds, in turn; the same number of each, but one of them in odd seconds
    together = in_bursts(lambda s, n: n % 2 if s % 2 == 0 else -1)
    opposed = in_bursts(lambda s, n: s % 2 if n % 2 else -1)
    figures = off(together, opposed)
    changes, distance = figures["device_changes"]
    # 19 of 20 pairs inside a burst, one between two bursts
    assert changes == pytest.approx(1, abs=0.01)
    assert distance == pytest.approx(-0.9, abs=0.01)
    assert figures["device_pairs"][1] == pytest.approx(0.9, abs=0.01)
    assert (figures["device_gaps"][1] or 0) > 0.9
    correlation, distance = figures["device_correlation_1s"]
    assert correlation == pytest.approx(1)
    assert distance == pytest.approx(-2)
    assert figures["device_dispersion_1s"][1] == pytest.approx(0)
    # 40 s are too short for intervals of 10 s
    assert figures["device_correlation_10s"] == (None, None)
    assert figures["device_dispersion_10s"][1] is None
    # 8 and 2 requests of one disk in turn instead of 10 and 0: their variance is 9 instead of 25
    spread = in_bursts(
        lambda s, n: n % 2 if s % 2 == 0 and n % 2 else 0 if n % 2 == 0 and n < (4 if s % 2 else 16) else -1
    )
    assert off(together, spread)["device_dispersion_1s"][1] == pytest.approx(25 / 9 - 1)
    assert off(together, together).keys() == off(opposed, together).keys()
    assert all(distance in (0, None) for _, distance in off(together, together).values())
    # one disk goes with none
    assert off(in_bursts(lambda *_: 0), opposed) == {}
