"""The block view: its numbers against plain Python on the requests of a trace."""

import itertools
import json
import math
import random
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect

from iotrail import block, report, reuse
from iotrail.trail import Trail
from tests.command import iotrail

from .conftest import Ingest, run_report
from .test_page import opened, span_of, table_rows

PAGE = 4096
# FILETIME of an msr trace: 100 ns since 1601
FIRST = 128_166_372_000_000_000
TO_UNIX = 116_444_736_000_000_000


@dataclass(frozen=True)
class Request:
    ts: int
    dev: int
    kind: str
    pos: int
    length: int

    @property
    def blocks(self) -> range:
        return range(self.pos // PAGE, (self.pos + self.length - 1) // PAGE + 1)


def draw(n: int = 6_000) -> list[Request]:
    """Two devices: a scan of each kind mixed with requests at places some of which come often, in bursts."""
    drawn = random.Random(11)
    scans = dict.fromkeys([(d, k) for d in (0, 1) for k in ("Read", "Write")], 0)
    ticks, made = FIRST, []
    for _ in range(n):
        ticks += drawn.choice([0, 3, 40, 900, 52_000, 400_000])
        dev, kind = drawn.choice([0, 0, 0, 1]), drawn.choice(["Read", "Read", "Write"])
        if drawn.random() < 0.35:
            length = drawn.choice([4096, 65536])
            pos = scans[dev, kind]
            scans[dev, kind] = pos + length if drawn.random() < 0.9 else 512 * drawn.randint(0, 1 << 16)
        else:
            length = 512 * drawn.randint(1, 40)
            pos = 512 * int((1 << 17) * drawn.random() ** 4)
        made.append(Request((ticks - TO_UNIX) * 100, dev, kind.lower(), pos, length))
    return made


REQUESTS = draw()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trail of these requests, as an msr trace."""
    folder = tmp_path_factory.mktemp("block")
    lines = [
        f"{r.ts // 100 + TO_UNIX},vol,{r.dev},{r.kind.title()},{r.pos},{r.length},{1000 + i % 7}"
        for i, r in enumerate(REQUESTS)
    ]
    (folder / "vol.csv").write_text("\n".join(lines) + "\n")
    iotrail("import", "msr", folder / "vol.csv", "-o", folder / "vol.trail")
    return folder / "vol.trail"


@pytest.fixture(scope="module")
def view(traced: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(iotrail("report", "--json", traced))
    return found


@pytest.fixture(scope="module")
def page_of_trace(traced: Path) -> Path:
    output = traced.with_name("vol.html")
    done = run_report(traced, "-o", output)
    assert done.returncode == 0, done.stderr
    return output


def chains(requests: Iterable[Request]) -> list[list[Request]]:
    """Streams and single requests, by looking back over 16 requests of the device and kind."""
    lines: dict[tuple[int, str], list[Request]] = defaultdict(list)
    for request in requests:
        lines[request.dev, request.kind].append(request)
    found = []
    for line in lines.values():
        chain_of: dict[int, list[Request]] = {}
        followed: set[int] = set()
        for i, request in enumerate(line):
            near = [j for j in range(max(0, i - 16), i) if line[j].pos + line[j].length == request.pos]
            if near and near[-1] not in followed:
                followed.add(near[-1])
                chain_of[i] = chain_of[near[-1]]
            else:
                chain_of[i] = []
                found.append(chain_of[i])
            chain_of[i].append(request)
    return found


def percentile_bound(values: list[int], p: float) -> int:
    """The lower bound of the histogram's bucket that holds it."""
    value = sorted(values)[math.ceil(len(values) * round(p * 1000) / 1000) - 1]
    if value < 64:
        return value
    shift = value.bit_length() - 6
    return value >> shift << shift


def expected(first: int, last: int, device: int | None = None) -> dict[str, float]:
    """What the page shows of the requests issued in [first, last): by the cell's id."""
    chosen = [r for r in REQUESTS if device in (None, r.dev)]
    inside = [r for r in chosen if first <= r.ts < last]
    found: dict[str, float] = {}
    blocks: dict[str, set[tuple[int, int]]] = {}
    streams = [chain for chain in chains(REQUESTS) if len(chain) > 1]
    for kind in ("all", "read", "write"):
        of_kind = [r for r in inside if kind in ("all", r.kind)]
        if kind != "all":
            found[f"requests-{kind}"] = len(of_kind)
            found[f"bytes-{kind}"] = sum(r.length for r in of_kind)
            for request in of_kind:
                octave = f"size-{1 << request.length.bit_length() - 1}-{kind}"
                found[octave] = found.get(octave, 0) + 1
        blocks[kind] = {(r.dev, b) for r in of_kind for b in r.blocks}
        here = [c for c in streams if kind in ("all", c[0].kind) and device in (None, c[0].dev)]
        members = [r for chain in here for r in chain if first <= r.ts < last]
        begun = [chain for chain in here if first <= chain[0].ts < last]
        found[f"in-streams-{kind}"] = len(members)
        found[f"bytes-in-streams-{kind}"] = sum(r.length for r in members)
        found[f"sequential-{kind}"] = sum(first <= r.ts < last for chain in here for r in chain[1:])
        found[f"streams-{kind}"] = len(begun)
        found[f"stream-requests-{kind}"] = sum(map(len, begun))
        found[f"longest-{kind}"] = max(map(len, begun), default=0)
        gaps = []
        for dev in {r.dev for r in chosen}:
            times = [r.ts for r in chosen if r.dev == dev and kind in ("all", r.kind)]
            gaps += [b - a for a, b in itertools.pairwise(times) if first <= b < last]
        found[f"gaps-{kind}"] = len(gaps)
        for p, label in ((0.5, "p50"), (0.99, "p99")):
            found[f"gap-{label}-{kind}"] = percentile_bound(gaps, p)
    for chain in streams:
        if first <= chain[0].ts < last and device in (None, chain[0].dev):
            octave = f"stream-octave-{len(chain).bit_length() - 1}"
            found[octave] = found.get(octave, 0) + 1
    for name, used in (
        ("all", blocks["all"]),
        ("read-only", blocks["read"] - blocks["write"]),
        ("write-only", blocks["write"] - blocks["read"]),
        ("both", blocks["read"] & blocks["write"]),
    ):
        found[f"working-{name}"] = len(used) * PAGE
    return found


def shown(page: Page) -> dict[str, float]:
    """Numbers of the block view, by the cell's id."""
    numbers: dict[str, float] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#block [data-block]")].map((cell) =>
            [cell.dataset.block, Number(cell.dataset.value)]))"""
    )
    return numbers


def agrees(page: Page, wanted: dict[str, float]) -> None:
    numbers = shown(page)
    assert {name: numbers.get(name, 0) for name in wanted} == wanted


def test_numbers_are_those_of_the_trace_and_follow_the_brush(
    browser: Browser, page_of_trace: Path, traced: Path, view: dict[str, Any]
) -> None:
    trail = Trail(traced)
    trail.set_params({"every_ns": view["run"]["bucket"]})
    with opened(browser, page_of_trace) as page:
        whole = expected(0, 1 << 62)
        agrees(page, whole)
        page.evaluate("location.hash = 'span=100-180'")
        expect(page.locator("[data-span]")).to_have_attribute("data-span", "100-180")
        bounds = span_of(page, trail).replace("ts >= ", "").replace("ts < ", "").split(" AND ")
        first, last = map(int, bounds)
        brushed = expected(first, last)
        assert 0 < brushed["requests-read"] < whole["requests-read"]
        agrees(page, brushed)
        # a device, by the section's own choice
        page.locator("#block select").select_option(label="/dev/vol_1")
        one = expected(first, last, device=1)
        assert 0 < one["requests-read"] < brushed["requests-read"]
        agrees(page, one)


def test_requests_of_one_thread_that_overlap_are_all_under_way(
    view: dict[str, Any], browser: Browser, page_of_trace: Path, monkeypatch: pytest.MonkeyPatch, traced: Path
) -> None:
    """The mean queue depth is not how long somebody waited: that is one at most for the one thread of such a trace."""
    times = [(r.ts, (1000 + i % 7) * 100) for i, r in enumerate(REQUESTS)]
    edges = sorted([(ts, 1) for ts, _ in times] + [(ts + dur, -1) for ts, dur in times])
    most = max(itertools.accumulate(step for _, step in edges))
    depth = view["depth"]
    assert sum(depth["mean"]) * view["run"]["bucket"] == pytest.approx(sum(dur for _, dur in times))
    assert max(depth["most"]) == most > 2 and depth["overlaps"]
    monkeypatch.setattr(report, "MOST_SORTED", 0)
    unsorted = report.collect(Trail(traced))["depth"]
    assert unsorted == depth | {"most": None}
    with opened(browser, page_of_trace) as page:
        expect(page.locator("#throughput figure")).to_have_count(3)
        page.locator(".lane-choose").first.click()
        expect(page.locator("#throughput")).to_contain_text("is not shown: its requests overlap")


def test_a_filter_on_a_file_chooses_its_device(browser: Browser, page_of_trace: Path) -> None:
    with opened(browser, page_of_trace) as page:
        row = page.locator("#tables .table-row", has_text="/dev/vol_1")
        row.click()
        agrees(page, expected(0, 1 << 62, device=1))
        page.locator("#block select").select_option(label="All devices")
        expect(page.locator(".chip")).to_have_count(0)
        agrees(page, expected(0, 1 << 62))


def test_devices_have_their_map_in_the_block_view_only(
    browser: Browser, page_of_trace: Path, view: dict[str, Any]
) -> None:
    assert view["heat"]["files"] == []
    for heat in view["block"]["heat"]:
        of_device = [r for r in REQUESTS if r.dev == heat["device"]]
        assert sum(heat["reads"]) == sum(r.kind == "read" for r in of_device)
        assert sum(heat["writeBytes"]) == sum(r.length for r in of_device if r.kind == "write")
        rows: dict[int, int] = defaultdict(int)
        for request in of_device:
            rows[(request.pos - heat["base"]) // heat["width"]] += 1
        found: dict[int, int] = defaultdict(int)
        for pos, reads, writes in zip(heat["pos"], heat["reads"], heat["writes"], strict=True):
            found[pos] += reads + writes
        assert found == rows
    assert len(view["block"]["heat"]) == 2
    with opened(browser, page_of_trace) as page:
        assert page.locator("#heat").count() == 0
        expect(page.locator("#block .heat canvas")).to_be_visible()


def lru_misses(uses: list[tuple[Any, bool]], size: int) -> tuple[float, float]:
    """The share of all uses, and of reads, that an LRU cache of so many blocks misses."""
    held: OrderedDict[Any, None] = OrderedDict()
    misses = read_misses = 0
    for name, is_write in uses:
        if name in held:
            held.move_to_end(name)
        else:
            misses += 1
            read_misses += not is_write
            held[name] = None
            if len(held) > size:
                held.popitem(last=False)
    return misses / len(uses), read_misses / sum(not is_write for _, is_write in uses)


def test_the_curve_is_that_of_an_lru_cache(view: dict[str, Any]) -> None:
    curves = {curve["device"]: curve for curve in view["block"]["curves"]}
    assert set(curves) == {None, 0, 1}
    for device, curve in curves.items():
        uses = [
            ((r.dev, b), r.kind == "write") for r in REQUESTS if device in (None, r.dev) for b in r.blocks
        ]
        assert (curve["rate"], curve["error"], curve["uses"]) == (1, 0, len(uses))
        sizes = [size // PAGE for size in curve["size"]]
        for i in (0, 5, len(sizes) // 2, len(sizes) - 9, len(sizes) - 1):
            both, reads = lru_misses(uses, sizes[i])
            assert (curve["all"][i], curve["read"][i]) == pytest.approx((both, reads), abs=1e-5)
        # the last size misses first uses only
        assert curve["all"][-1] == pytest.approx(len({name for name, _ in uses}) / len(uses), abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_reuse_distances_are_exact(seed: int) -> None:
    """At cliffs too: every second trace goes round through more blocks than a cache holds."""
    drawn = np.random.default_rng(seed)
    n = int(drawn.integers(1, 400))
    blocks = drawn.integers(0, drawn.integers(1, 90), n) if seed % 2 else np.arange(n) % 37
    distance = reuse.reuse_distances(blocks.astype(np.int64))
    for size in (1, 2, 3, 36, 37, 38, 90):
        misses, _ = lru_misses([(b, False) for b in blocks.tolist()], size)
        assert 1 - np.count_nonzero((distance > 0) & (distance <= size)) / n == pytest.approx(misses)


def test_a_sampled_curve_says_how_far_off_it_is() -> None:
    drawn = np.random.default_rng(4)
    n = 300_000
    blocks = (drawn.random(n) ** 3 * 60_000).astype(np.int64)
    ones, writes = np.ones(n, np.int64), drawn.random(n) < 0.3
    exact = reuse.miss_ratios(reuse.use_blocks(ones, blocks, ones, writes))
    sampled = reuse.miss_ratios(reuse.use_blocks(ones, blocks, ones, writes, 0.2))
    assert (exact.rate, exact.error, sampled.rate) == (1, 0, 0.2)
    assert 0 < sampled.error < 0.1
    same = np.isin(exact.size, sampled.size) & (exact.size >= reuse.GROUPS / sampled.rate)
    there = np.isin(sampled.size, exact.size[same])
    assert np.count_nonzero(same) > 50
    assert np.abs(exact.all[same] - sampled.all[there]).max() <= sampled.error


def test_chain_heads_follow_chains_of_any_length() -> None:
    # 0 <- 2 <- 3 <- … <- 99, 1 alone
    last = np.array([-1, -1, 0, *range(2, 99)])
    assert block.chain_heads(last).tolist() == [0, 1, *[0] * 98]


def test_summary_says_the_same(traced: Path) -> None:
    kinds = {row["kind"]: row for row in json.loads(iotrail("summary", "--json", traced))["block"]["kinds"]}
    wanted = expected(0, 1 << 62)
    for kind, row in kinds.items():
        assert row["sequential"] == wanted[f"sequential-{kind}"]
        assert row["gaps"] == wanted[f"gaps-{kind}"]
        assert (row["gap_p50_ns"], row["gap_p99_ns"]) == (
            wanted[f"gap-p50-{kind}"],
            wanted[f"gap-p99-{kind}"],
        )
    assert kinds["read"]["n"] == wanted["requests-read"]
    assert kinds["all"]["working_set_bytes"] == wanted["working-all"]
    assert kinds["write"]["working_set_bytes"] == wanted["working-write-only"] + wanted["working-both"]
    text = iotrail("summary", traced)
    section = text[text.index("Requests to devices") : text.index("Calls")]
    assert "2 devices" in section
    assert f"{kinds['all']['sequential_share'] * 100:.1f}%" in section
    assert f"{wanted['requests-write']:,}" in section


def test_many_devices_share_a_row(monkeypatch: pytest.MonkeyPatch, traced: Path) -> None:
    monkeypatch.setattr(block, "MOST_DEVICES", 1)
    trail = Trail(traced)
    trail.prepare("file")
    trail.connection.execute("CREATE TEMP TABLE _report_file AS SELECT node, file, 0 AS i FROM file")
    width = 1_000_000_000
    trail.set_params({"every_ns": width})
    found = block.BlockView(trail, 0, width).collect()
    assert found is not None
    # one other device keeps its name
    assert (found["folded"], found["devices"]["name"]) == (1, ["/dev/vol_0", "/dev/vol_1"])
    assert [curve["device"] for curve in found["curves"]] == [None, 0]
    assert [heat["device"] for heat in found["heat"]] == [0]
    for device in (0, 1):
        sizes = found["sizes"]
        n = sum(n for n, at in zip(sizes["n"], sizes["device"], strict=True) if at == device)
        assert n == sum(r.dev == device for r in REQUESTS)


def test_disks_of_the_kernel_have_it_too(ingest: Ingest, browser: Browser) -> None:
    rows = [
        {
            "ts": 1_760_000_000_000_000_000 + i * 1_000_000, "dur": 500, "node": "n", "thread": 1, "crumb": 0,
            "kind": "kernel", "dev": "nvme0n1", "op": "write" if i % 3 == 0 else "read", "pos": 4096 * i, "length": 4096,
            "merged": 0,
        }
        for i in range(90)
    ]  # fmt: skip
    trail = ingest("disk", {"disk_op": pa.Table.from_pylist(rows), "file_op": file_rows(0)})
    output = trail.with_name("disk.html")
    done = run_report(trail, "-o", output)
    assert done.returncode == 0, done.stderr
    with opened(browser, output) as page:
        numbers = shown(page)
        assert (numbers["requests-read"], numbers["requests-write"]) == (60, 30)
        # of three requests in a row two are reads: the second goes on where the first ended
        assert (numbers["sequential-read"], numbers["streams-read"]) == (30, 30)
        assert numbers["working-all"] == 90 * 4096


def file_rows(n: int) -> pa.Table:
    columns = {
        "ts": pa.int64(), "dur": pa.int64(), "node": pa.string(), "thread": pa.int64(), "crumb": pa.int64(),
        "call": pa.string(), "errno": pa.int64(), "calls": pa.int64(),
    }  # fmt: skip
    return pa.table({name: pa.array([], kind) for name, kind in columns.items()}).slice(0, n)


def test_a_trace_without_times_has_no_gaps(tmp_path: Path, browser: Browser) -> None:
    lines = ["fio version 2 iolog", "/dev/sdx add", "/dev/sdx open"]
    lines += [f"/dev/sdx read {4096 * (i % 5)} 4096" for i in range(20)] + ["/dev/sdx close"]
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    trail = tmp_path / "job.trail"
    iotrail("import", "fio", tmp_path / "job.log", "-o", trail)
    [row] = [
        k for k in json.loads(iotrail("summary", "--json", trail))["block"]["kinds"] if k["kind"] == "read"
    ]
    assert (row["n"], row["gaps"], row["gap_p50_ns"], row["working_set_bytes"]) == (20, None, None, 5 * PAGE)
    output = tmp_path / "job.html"
    assert run_report(trail, "-o", output).returncode == 0
    with opened(browser, output) as page:
        expect(page.locator("#block")).to_contain_text("Not known: the trace has no times.")
        assert not any(name.startswith("gap") for name in shown(page))
        # times in I/O aren't known either, and aren't 0
        [cells] = table_rows(page).values()
        cell = page.locator("#tables .table-row [data-column=dur]")
        assert (cell.inner_text(), cell.get_attribute("data-value")) == ("–", "")
        assert "not known" in (cell.get_attribute("title") or "")
        assert cells["ops"] == 22


def test_what_a_trace_does_not_say_is_not_0(tmp_path: Path, browser: Browser) -> None:
    """No wait was traced, nor how long writes took."""
    lines = ["t,pos,len,op,dur"]
    lines += [f"{n},{n * 8},8,{'rw'[n % 2]},{'' if n % 2 else 5}" for n in range(200)]
    (tmp_path / "disk.csv").write_text("\n".join(lines) + "\n")
    columns = "ts=t,unit=ms,pos=pos,pos_unit=sectors,length=len,length_unit=sectors,op=op,dur=dur,dur_unit=us"
    trail, output = tmp_path / "disk.trail", tmp_path / "disk.html"
    iotrail("import", "csv", tmp_path / "disk.csv", "--map", columns, "-o", trail)
    [line] = [line for line in iotrail("summary", trail).splitlines() if line.strip().startswith("all ")]
    assert line.count("not known") == 2 and "0 ns" not in line
    assert run_report(trail, "-o", output).returncode == 0
    with opened(browser, output) as page:
        for part, known in (("io", True), ("sync", False), ("compute", False)):
            cell = page.locator(f"#split [role=cell][data-part={part}]").first
            assert (cell.inner_text() != "not known", cell.get_attribute("data-value") != "") == (
                known,
                known,
            )
        assert "Waiting" not in page.locator("#split .legend").first.inner_text()
        longest = {
            call: page.locator(f"tr[data-call={call}] [data-percentile=max]").inner_text()
            for call in ("pread", "pwrite")
        }
        assert longest == {"pread": "5.00 µs", "pwrite": "–"}


def test_a_program_has_no_block_view(browser: Browser, page_file: Path, database: Path) -> None:
    with opened(browser, page_file) as page:
        assert page.locator("#block").count() == 0
        assert page.locator("#heat").count() == 1
    assert json.loads(iotrail("summary", "--json", database))["block"] is None


@pytest.mark.parametrize("file", ["page_file", "page_of_trace"])
def test_the_page_fits_a_narrow_window(browser: Browser, file: str, request: pytest.FixtureRequest) -> None:
    with opened(browser, request.getfixturevalue(file)) as page:
        page.set_viewport_size({"width": 700, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == 700
        # what is wider scrolls by itself
        grid = page.locator("#tables .table-grid")
        assert grid.evaluate(
            "(grid) => [grid.scrollWidth > grid.clientWidth, getComputedStyle(grid).overflowX]"
        ) == [
            True,
            "auto",
        ]
