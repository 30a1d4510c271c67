"""examples/models/caching.py: speed-ups by caches on workloads whose answers are known, and what it says of them.

Devices are of fixed times, a disk of 10 ms and a drive of 0.1 ms, so that the miss ratio of a naive LRU cache gives the speed-up.
"""

import sys
from collections import OrderedDict
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))

import caching
import caching_page
import workloads
from caching import Answers, Devices, Study

PAGE = 4096
PAGES = 400
DISK_NS, SSD_NS = 10_000_000, 100_000
FIXED = """
format = 1
kind = "fixed"
name = "fixed times"

[fixed]
capacity = {{ value = 1, unit = "GB", source = "chosen" }}
servers = {{ value = {servers}, unit = "count", source = "chosen" }}
read = {{ value = {ns}, unit = "ns", source = "chosen" }}
write = {{ value = {ns}, unit = "ns", source = "chosen" }}
flush = {{ value = 0, unit = "ns", source = "chosen" }}
trim = {{ value = 0, unit = "ns", source = "chosen" }}
rate = {{ value = 1000, unit = "GB/s", source = "chosen" }}
"""


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(fixed(tmp_path / "disk.toml", DISK_NS), fixed(tmp_path / "ssd.toml", SSD_NS))


def fixed(path: Path, ns: int, servers: int = 1) -> Path:
    """A device each request of which takes so long."""
    path.write_text(FIXED.format(ns=ns, servers=servers))
    return path


def reads(pages: np.ndarray, gap_ns: int = 20_000_000) -> workloads.Requests:
    """A read of each page, far enough apart that none waits."""
    count = len(pages)
    return workloads.Requests(
        np.arange(count) * gap_ns, np.zeros(count, bool), pages.astype(np.int64) * PAGE, np.full(count, PAGE)
    )


def read_zipf(count: int = 6000) -> workloads.Requests:
    random = np.random.default_rng(1)
    return reads(workloads.choose_zipf(random, PAGES, count, 1.0))


def read_uniform(count: int = 6000) -> workloads.Requests:
    return reads(np.random.default_rng(2).integers(0, PAGES, count))


def imported(requests: workloads.Requests, folder: Path) -> Path:
    workloads.write(requests, folder / "x.csv")
    return caching.import_trace(("csv", folder / "x.csv", "--map", workloads.MAP), folder / "x.trail")


def table(requests: workloads.Requests) -> pa.Table:
    count = len(requests.ts)
    nothing = np.zeros(count, np.int64)
    return pa.table(
        {
            "ts": requests.ts,
            "dur": pa.nulls(count, pa.int64()),
            "device": nothing,
            "op": requests.is_write.astype(np.int64),
            "pos": requests.pos,
            "length": requests.length,
            "flags": nothing,
        }
    )


def lru_misses(requests: workloads.Requests, pages: int) -> float:
    """Miss ratio of a cache that is empty at first, one page at a time."""
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for page in (requests.pos // PAGE).tolist():
        if page in held:
            held.move_to_end(page)
            continue
        misses += 1
        held[page] = None
        if len(held) > pages:
            held.popitem(last=False)
    return misses / len(requests.pos)


@pytest.mark.parametrize("workload", [read_zipf, read_uniform])
def test_the_miss_ratio_of_lru_gives_the_speed_up(workload, devices: Devices) -> None:
    requests = workload()
    sizes = [0, 40, 80, 200, 400]
    found = caching.run(table(requests), [size * PAGE for size in sizes], PAGE, devices)
    for size, ratio in zip(sizes, found.speed_ups("open"), strict=True):
        misses = lru_misses(requests, size) if size else 1
        assert ratio == pytest.approx(DISK_NS / (misses * DISK_NS + (1 - misses) * SSD_NS), rel=0.01), size
    for size, elapsed in zip(sizes, found.saturated, strict=True):
        misses = lru_misses(requests, size) if size else 1
        # the disk always works, but where nothing misses; then it is the drive
        busy = misses * DISK_NS
        assert busy * 0.97 <= elapsed / len(requests.ts) <= busy * 1.03 + SSD_NS, size


def test_a_model_of_zipf_says_what_its_original_says(tmp_path: Path, devices: Devices) -> None:
    study = caching.measure("zipf", imported(read_zipf(), tmp_path), PAGE, 3, devices)
    assert study.requests == 6000
    assert study.footprint_bytes == len(set(read_zipf().pos.tolist())) * PAGE
    assert study.cache_bytes == study.footprint_bytes // PAGE // 5 * PAGE
    for row in study.compare("open")[:3]:
        # a fifth of the pages has over half of the reads
        assert row["original"] > 2
        # near saturation an error of 2 % in the hit ratio becomes one of a fifth in the response
        assert abs(row["model_error_points"]) < 0.25 * 100 * row["original"]
        assert row["baseline_error_points"] < -2 * abs(row["model_error_points"])


def test_of_uniform_reads_a_cache_serves_its_share(tmp_path: Path, devices: Devices) -> None:
    study = caching.measure("uniform", imported(read_uniform(), tmp_path), PAGE, 3, devices)
    for row in study.compare("saturated")[:3]:
        bound = 1 / (1 - row["caches"] * caching.SHARE)
        assert 1 < row["original"] <= bound * 1.03
        # this is what the baseline is right about; the model expects some more hits
        assert row["baseline"] == pytest.approx(row["original"], rel=0.03), row
        assert row["model"] == pytest.approx(row["original"], rel=0.15), row
    for row in study.compare("open")[:3]:
        assert row["model"] == pytest.approx(row["original"], rel=0.15), row


def test_reads_that_are_not_repeated_gain_nothing(tmp_path: Path, devices: Devices) -> None:
    requests = reads(np.random.default_rng(3).permutation(10 * 3000)[:3000])
    study = caching.measure("once", imported(requests, tmp_path), PAGE, 1, devices)
    for row in study.compare("open"):
        assert row["original"] == pytest.approx(1, abs=0.001)
        assert row["model"] == pytest.approx(1, abs=0.02)


def test_footprint_counts_each_byte_once() -> None:
    random = np.random.default_rng(4)
    count = 300
    device, pos = random.integers(0, 2, count), random.integers(0, 5000, count)
    length = random.integers(1, 60, count)
    expected = {
        (int(of), byte)
        for of, at, size in zip(device, pos, length, strict=True)
        for byte in range(at, at + size)
    }
    assert caching.measure_footprint(pa.table({"device": device, "pos": pos, "length": length})) == len(
        expected
    )


@pytest.mark.parametrize("name", workloads.MAKERS)
def test_makers_are_seeded_and_ordered(name: str) -> None:
    made, again, other = (workloads.MAKERS[name](np.random.default_rng(seed), 5000) for seed in (1, 1, 2))
    assert (np.diff(made.ts) >= 0).all()
    assert 4500 <= len(made.ts) <= 5500
    assert (made.length > 0).all()
    assert (made.pos >= 0).all()
    assert (made.pos + made.length).max() < 10**12
    for field in ("ts", "is_write", "pos", "length"):
        assert (getattr(made, field) == getattr(again, field)).all()
    assert made.ts.tolist() != other.ts.tolist()


def study_of(original: list[float], model: list[list[float]], baseline: list[float]) -> Study:
    answers = [Answers(times, times) for times in (original, *model, baseline)]
    return Study("planted <app>", 100, 10**9, 10**8, 1, answers[0], answers[1:-1], answers[-1])


def test_errors_are_told_in_points() -> None:
    study = study_of([8, 4, 2], [[8, 5, 2], [9, 4.5, 3], [6, 4, 2]], [8, 8, 4])
    first, second = study.compare("open")
    assert (first["original"], first["model"], first["model_range"], first["baseline"]) == (
        2,
        1.6,
        (1.5, 2),
        1,
    )
    assert first["model_error_points"] == pytest.approx(-40)
    assert first["baseline_error_points"] == pytest.approx(-100)
    assert (second["original"], second["model"], second["model_range"], second["baseline"]) == (
        4,
        3,
        (3, 4),
        2,
    )
    said = caching_page.judge([study], "open")
    assert "model 70 points, baseline 150" in said[0]
    assert "nearer in 2, the baseline's in 0" in said[0]
    assert said[2:] == ["  planted <app>: 1: −40 of 200; 2: −100 of 400"]


def test_a_model_that_is_no_better_is_said_to_be() -> None:
    said = caching_page.judge([study_of([8, 4], [[8, 8]], [8, 8])], "open")
    assert "nearer in 0, the baseline's in 0" in said[0]
    assert said[2] == "  planted <app>: 1: −100 of 200, no better than the baseline"
    assert len(caching_page.judge([study_of([8, 4], [[8, 4]], [8, 8])], "open")) == 1


def test_figures_are_drawn_of_all_applications() -> None:
    studies = [study_of([8, 4, 2, 1, 9], [[8, 5, 2, 1, 9], [8, 4, 2, 1, 10]], [8, 8, 4, 4, 4])] * 4
    for drawn in caching_page.draw(studies).values():
        text = "".join(ElementTree.fromstring(drawn).itertext())
        # once in each loop
        assert text.count("planted <app>") == 8
