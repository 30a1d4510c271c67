"""`iotrail whatif cache`: answers worked out by hand, estimates beside exact counts, and bad input."""

import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrail import native
from iotrail.errors import IotrailError, TrailError, UsageError
from iotrail.whatif import verbs
from iotrail.whatif.cache import POLICIES
from tests.emudisk.conftest import device_file
from tests.whatif.conftest import MakeRequests

KIB = 1024


def ask(capsys: pytest.CaptureFixture[str], trail: Path, **options: Any) -> dict[str, Any]:
    verbs.cache(trail, json=True, **options)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def blocks(*numbers: int, op: str = "r") -> list[tuple[int, int, int, str, int]]:
    """A request of each block of 4 KiB, 1 ms apart, of 100 µs."""
    return [(1000 * at, 4 * KIB * number, 4 * KIB, op, 100) for at, number in enumerate(numbers)]


def test_misses_counted_by_hand(requests: MakeRequests, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, requests(blocks(0, 1, 0, 2, 0, 1)), policy="lru,fifo", size="8k")
    assert (found["of"], found["reads"], found["writes"], found["blocks"]) == ("requests of disks", 6, 0, 3)
    # LRU: 0 and 1 miss, 0 hits, 2 takes the place of 1, 0 hits, 1 misses. FIFO: 2 takes the place of 0.
    assert {each["policy"]: each["read"] for each in found["policies"]} == {"lru": [4], "fifo": [5]}
    curve = found["curve"]
    assert dict(zip(curve["size"], curve["read"], strict=True)) == {1: 6, 2: 4, 3: 3}
    assert found["sample"] is None


def test_a_request_uses_each_block_it_touches(
    requests: MakeRequests, capsys: pytest.CaptureFixture[str]
) -> None:
    # 6 KiB from 3 KiB on: blocks 0, 1 and 2; then a write of block 1
    found = ask(capsys, requests([(0, 3 * KIB, 6 * KIB, "r", 5), (10, 4 * KIB, 1, "w", 5)]), size="16k")
    assert (found["reads"], found["writes"], found["blocks"]) == (3, 1, 3)
    assert all((each["read"], each["write"]) == ([3], [0]) for each in found["policies"])
    assert [each["policy"] for each in found["policies"]] == list(POLICIES)


def test_one_request(requests: MakeRequests, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, requests(blocks(7)))
    assert (found["reads"], found["blocks"], found["curve"]["read"]) == (1, 1, [1])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "mru"}, "--policy: expected some of lru, .* found mru"),
        ({"size": "1k"}, r"--size: expected 4.00 KiB \(a block\) or more, found 1.00 KiB"),
        ({"size": "many"}, "--size: expected a size like 64M"),
        ({"block": "0"}, "--block: expected a size like 64M"),
        ({"node": "nowhere"}, "--node: there is no machine nowhere"),
        ({"of": "tapes"}, "--of: expected files or disks"),
        ({"shards": 0.0}, "--shards: expected a share above 0 and below 1, found 0"),
        ({"shards": 1.5}, "--shards: expected a share above 0 and below 1, found 1.5"),
        ({"shards": float("nan")}, "--shards: expected a share"),
        ({"cache_device": "sata-ssd"}, "need --on"),
        ({"on": "hdd-7200"}, "--on takes one of --cache-device and --cache-latency"),
        (
            {"on": "hdd-7200", "cache_latency": "1us", "cache_device": "sata-ssd"},
            "--on takes one of --cache-device and --cache-latency",
        ),
        ({"on": "hdd-7200", "cache_latency": "soon"}, "--cache-latency: expected a time like 20us"),
        (
            {"on": "hdd-7200", "cache_latency": "1us", "write": "never"},
            "--write: expected back, through or around",
        ),
        ({"on": "hdd-7200", "cache_latency": "1us", "shards": 0.1}, "--shards can't be combined with --on"),
        ({"on": "hdd-7200", "cache_latency": "1us", "policy": "lru,arc"}, "--policy: expected one with --on"),
    ],
)
def test_options_that_make_no_sense(requests: MakeRequests, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        verbs.cache(requests(blocks(0, 1)), **options)


def test_devices_that_do_not_fit(requests: MakeRequests, tmp_path: Path) -> None:
    trail = requests(blocks(0, 1))
    with pytest.raises(IotrailError, match=r"no-such-device.*(No such file|cannot read)"):
        verbs.cache(trail, on="no-such-device", cache_latency="1us")
    with pytest.raises(IotrailError, match=r"size_bytes: expected 4096 to .* found 10995116277760"):
        verbs.cache(trail, on="hdd-7200", cache_device="sata-ssd", size="10T")


def test_a_trail_without_reads_or_writes(requests: MakeRequests) -> None:
    # of no known place
    trail = requests([(0, 0, 0, "r", 5)])
    with pytest.raises(
        TrailError, match="no reads and writes of files or requests of disks with a known place"
    ):
        verbs.cache(trail)
    with pytest.raises(TrailError, match="no reads and writes of files with a known place"):
        verbs.cache(trail, of="files")


def one_at_a_time(folder: Path) -> Path:
    """A device that reads in 1 ms and writes in 2."""
    times = {"read": "1 ms", "write": "2 ms", "flush": "0 ns", "trim": "0 ns"}
    return device_file(folder, "one at a time", capacity="1 GB", rate="1000000 GB/s", **times)


@pytest.mark.parametrize(("write", "mean_us"), [("back", 10), ("through", 2000), ("around", 2000)])
def test_response_times_by_hand(
    requests: MakeRequests, tmp_path: Path, capsys: pytest.CaptureFixture[str], write: str, mean_us: int
) -> None:
    device = one_at_a_time(tmp_path)
    # 10 ms apart: read twice, then written
    trail = requests([(10_000 * at, 0, 4 * KIB, op, 100) for at, op in enumerate("rrw")])
    found = ask(capsys, trail, on=str(device), cache_latency="10us", size="1M", write=write, policy="arc")
    bare, cached = found["sizes"]
    assert (bare["size_bytes"], cached["size_bytes"]) == (0, 1 << 20)
    means = [
        {each["op"]: each["mean_ns"] for each in row["arrivals_recorded"]["times"]} for row in (bare, cached)
    ]
    assert means[0] == pytest.approx({"read": 1e6, "write": 2e6}, rel=0.01)
    # 4 KiB at 10 GB/s are 0.4 µs
    assert means[1] == pytest.approx({"read": (1e6 + 10_410) / 2, "write": mean_us * 1000}, rel=0.05)


def test_bad_trails_before_a_device(
    requests: MakeRequests,
    without_dur: Path,
    without_times: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    device = one_at_a_time(tmp_path)
    options: dict[str, Any] = {"on": str(device), "cache_latency": "10us", "size": "1M"}
    # one request, and one address
    for numbers in ((7,), (7, 7, 7)):
        found = ask(capsys, requests(blocks(*numbers)), **options)
        assert found["requests"] == len(numbers)
        assert found["sizes"][1]["arrivals_recorded"]["times"][0]["max_ns"] == pytest.approx(
            1e6 + 400, rel=0.01
        )
    with pytest.raises(TrailError, match="all 2 requests have the same time"):
        verbs.cache(requests([(5, 0, 4096, "r", 1), (5, 8192, 4096, "r", 1)]), **options)
    with pytest.raises(TrailError, match="the trace has no times"):
        verbs.cache(without_times, **options)
    with pytest.raises(
        IotrailError, match="expected requests below 1000000000 bytes, its capacity, found one at 2000"
    ):
        verbs.cache(requests([(0, 2_000_000_000, 4096, "r", 1)]), **options)
    assert ask(capsys, requests([(0, 2_000_000_000, 4096, "r", 1)]), fold=True, **options)["requests"] == 1
    found = ask(capsys, without_dur, **options)
    assert [row["arrivals_after_completions"] for row in found["sizes"]] == [None, None]
    verbs.cache(without_dur, **options)
    printed = capsys.readouterr().out
    assert "The record has no response times" in printed
    assert re.search(r"none .* 1.00 ms +1.00 +– +–", printed), printed


def test_trails_of_which_the_order_is_enough(
    requests: MakeRequests, without_dur: Path, without_times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Misses need neither times nor response times."""
    for trail in (without_dur, without_times, requests([(5, pos, 4096, "r", 0) for pos in (0, 40960, 0)])):
        found = ask(capsys, trail, policy="lru", size="4k,8k")
        assert (found["blocks"], found["policies"][0]["read"]) == (2, [3, 2])
    assert ask(capsys, requests(blocks(7, 7, 7)))["curve"]["read"] == [1]


def test_speed_up_is_printed(requests: MakeRequests, capsys: pytest.CaptureFixture[str]) -> None:
    verbs.cache(requests(blocks(*[0, 1000, 2000] * 10)), on="hdd-7200", cache_latency="10us", size="0,1M")
    printed = capsys.readouterr().out
    assert re.search(r"30 requests on .*\n *cache: lru, write-back, in memory \(10.0 µs\)", printed)
    [bare, cached] = [line.split() for line in printed.splitlines() if re.match(r" +(none|1.00 MiB)", line)]
    assert bare[-1] == "1.00" and float(cached[-1]) > 1, printed


def test_a_page(requests: MakeRequests, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "cache.html"
    rows = [*blocks(*[at % 37 for at in range(300)]), *blocks(1, 2, 3, op="w")]
    trail = requests(rows)
    verbs.cache(trail, html=page)
    text = page.read_text()
    assert text.count("<polyline") == 2 * len(POLICIES)
    assert "reads missed, by the size of the cache" in text and "writes missed" in text
    assert str(page) in capsys.readouterr().err
    other = tmp_path / "other.html"
    other.write_text("mine")
    with pytest.raises(IotrailError, match=r"other\.html"):
        verbs.cache(trail, html=other)


def simulate(uses: "np.ndarray[Any, Any]", *options: str) -> dict[str, Any]:
    """Uses of blocks of 4 KiB, without a trail."""
    import subprocess

    sink = pa.BufferOutputStream()
    count = len(uses)
    zeros = np.zeros(count, np.int64)
    batch = pa.record_batch(
        {
            "device": zeros,
            "pos": uses.astype(np.int64) * 4 * KIB,
            "length": zeros + 4 * KIB,
            "write": pa.array(np.zeros(count, bool)),
        }
    )
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    done = subprocess.run(
        [str(native.binary()), "simulate", "cache", *options],
        input=sink.getvalue().to_pybytes(),
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_estimates_hold_their_bounds() -> None:
    dice = np.random.default_rng(5)
    # skewed, over 200,000 blocks, with a loop over 20,000 others: a cliff
    uses = np.concatenate(
        [
            np.stack(
                [(dice.random(50_000) ** 4 * 200_000).astype(np.int64), 200_000 + np.arange(50_000) % 20_000],
                1,
            ).ravel()
            for _ in range(6)
        ]
    )
    sizes = ",".join(str(4 * KIB * size) for size in (2_000, 10_000, 40_000, 100_000))
    options = ("--policy", "lru,s3-fifo", "--size", sizes)
    exact, sampled = simulate(uses, *options), simulate(uses, *options, "--shards", "0.1")
    assert sampled["sample"]["rate"] == 0.1 and 0.05 < sampled["sample"]["uses"] / len(uses) < 0.2
    assert abs(sampled["blocks"] / exact["blocks"] - 1) < 0.05
    for of_all, of_sample in zip(exact["policies"], sampled["policies"], strict=True):
        for right, estimate, bound in zip(
            of_all["read"], of_sample["read"], of_sample["bounds"]["read"], strict=True
        ):
            # the seed is fixed: nothing here is left to chance
            assert abs(right - estimate) <= 1.5 * bound + 0.002 * len(uses)
        # large at a cliff only
        assert min(of_sample["bounds"]["read"]) < 0.05 * len(uses)


def test_a_sample_without_blocks_is_refused(requests: MakeRequests) -> None:
    with pytest.raises(IotrailError, match="the sample has no blocks"):
        verbs.cache(requests(blocks(0)), shards=0.000001)


def test_cloudphysics(shared: Callable[[str], Path]) -> None:
    with lzma.open(shared("other/cloudphysics-w106-lbn.trace.xz")) as trace:
        uses = np.frombuffer(trace.read(), "<i4")
    found = simulate(uses, "--policy", "lru", "--size", str(4 * KIB * 10_000))
    assert (found["reads"], found["blocks"], found["first_reads"]) == (5_292_456, 275_171, 275_171)
    sampled = simulate(uses, "--shards", "0.05")
    assert abs(sampled["blocks"] / found["blocks"] - 1) < 0.03
    exact = dict(zip(found["curve"]["size"], found["curve"]["read"], strict=True))
    curve = sampled["curve"]
    for size, estimate, bound in zip(curve["size"], curve["read"], curve["bounds"]["read"], strict=True):
        if size in exact and size >= 1000:
            assert abs(exact[size] - estimate) <= 2 * bound + 0.002 * len(uses), size


@pytest.mark.parametrize("name", ["block/disksim-atlas10k.trace", "block/hplajw-1week.srt"])
def test_caches_before_a_disk_help(
    shared: Callable[[str], Path], bring: Callable[..., Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    found = ask(capsys, bring(shared(name)), on="hdd-10k", cache_latency="20us", size="1M,64M,1G", fold=True)
    served = [row["arrivals_recorded"]["cached"] for row in found["sizes"]]
    assert served == sorted(served) and found["sizes"][0]["size_bytes"] == 0
    reads = [
        next(each["mean_ns"] for each in row["arrivals_recorded"]["times"] if each["op"] == "read")
        for row in found["sizes"]
    ]
    assert reads[-1] < reads[0]
