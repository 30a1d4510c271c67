"""Whether a part of a model stands for the whole: windows of requests whose answer is known, and what `generate --for` says."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from iotrail.model.similarity import LEAST_WINDOWS, Requests, hurst, judge
from iotrail.model.similarity_text import sentences, show, time_ns

from ..command import iotrail

SECOND, MIB = 10**9, 1 << 20
SEEDS = range(5)


def requests(
    seconds: np.ndarray, span_seconds: float, places: np.ndarray, *, op: object = 0, length: object = 4096
) -> Requests:
    """Requests at these times, in these ranges."""
    count = len(seconds)
    return Requests(
        (seconds * SECOND).astype(np.int64),
        np.broadcast_to(np.asarray(op, np.int64), count),
        np.broadcast_to(np.asarray(length, np.int64), count),
        places.astype(np.int64),
        int(span_seconds * SECOND),
    )


def phases(seed: int, rates: Sequence[int], phase: float) -> Requests:
    """Phases of a Poisson process each, one after the other; every other one is in other ranges than the one before."""
    random = np.random.default_rng(seed)
    times, places = [], []
    for number, rate in enumerate(rates):
        count = random.poisson(rate * phase)
        times.append(np.sort(random.random(count)) * phase + number * phase)
        places.append(random.integers(8, size=count) + number % 2 * 8)
    return requests(np.concatenate(times), phase * len(rates), np.concatenate(places))


def independent(seed: int, count: int = 50_000, rate: float = 100) -> Requests:
    """A Poisson process in 16 ranges, three of ten requests are writes, of two sizes."""
    random = np.random.default_rng(seed)
    times = np.sort(random.random(count)) * count / rate
    op, length = (random.random(count) < 0.3).astype(int), random.choice([4096, 8192], count)
    return requests(times, count / rate, random.integers(16, size=count), op=op, length=length)


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_independent_requests_are_alike(seed: int) -> None:
    found = judge(independent(seed), 20 * SECOND)
    assert found.verdict == "alike" and found.windows and found.windows.count == 25
    assert not found.longer and found.shortest_ns == 20 * SECOND
    figures = {each.key: each for each in found.windows.figures}
    assert figures["rate"].whole == 100
    # of 2,000 requests nine in ten windows are within 1.64 standard deviations
    assert figures["rate"].chance == pytest.approx(1.645 / 2000**0.5, rel=0.15)
    assert figures["read_share"].whole == pytest.approx(0.7, abs=0.01)
    assert figures["mean_bytes"].whole == pytest.approx(6144, rel=0.01)
    for each in figures.values():
        assert each.deviation is not None and each.chance is not None and each.excess is not None
        assert each.deviation == pytest.approx(each.chance, rel=0.6) and each.excess < 0.03, each
    assert found.hurst and found.hurst.scales == 8
    assert found.hurst.exponent == pytest.approx(0.5, abs=0.12)
    assert found.part and found.part.differs == []
    (said,) = sentences(found)
    assert "warning" not in said and "20.0 s stand for all 500 s of the model" in said


@pytest.mark.parametrize("seed", SEEDS)
def test_phases_differ_until_windows_hold_both(seed: int) -> None:
    # 100 and 300 requests a second, 3.2 s each
    found = judge(phases(seed, (100, 300) * 40, 3.2), SECOND * 8 // 10)
    assert found.verdict == "differ" and found.windows
    differs = {each.key for each in found.windows.figures if each.differs}
    assert differs == {"rate", "places"}
    rate, places = found.windows.figure("rate"), found.windows.figure("places")
    assert rate.p10 == pytest.approx(100, rel=0.2) and rate.p90 == pytest.approx(300, rel=0.2)
    # a window of the slow phase has all requests where a quarter of them is
    assert places.excess == pytest.approx(0.75, abs=0.05)
    assert [each.width_ns / SECOND for each in found.longer] == [1.6, 3.2, 6.4, 12.8, 25.6]
    assert [each.is_alike for each in found.longer] == [False, False, True, True, True]
    assert found.shortest_ns == 64 * SECOND // 10
    warning, hint = sentences(found, warm_up_ns=SECOND, intensity=2)
    assert "requests a second (p10 to p90), places that differ by" in warning
    # half the time at twice the intensity, and the warm-up
    assert hint == "  hint: windows of 6.40 s or more are alike to 10%: --for 4200ms; " + hint.split("; ")[1]
    lines = list(show(judge(phases(seed, (100, 300) * 40, 3.2), SECOND * 8 // 10, full=True)))
    assert lines[0].startswith("320 windows of 800 ms") and any("12.8 s" in each for each in lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_in_the_middle_is_in_no_shorter_window(seed: int) -> None:
    found = judge(phases(seed, (100, 300), 100), 2 * SECOND)
    assert found.verdict == "differ" and found.shortest_ns is None
    assert found.longer[-1].width_ns == 16 * SECOND
    assert "no windows of up to 16.0 s are alike" in list(sentences(found))[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_untypical_beginning_is_said(seed: int) -> None:
    """The first tenth of 100 s is in other ranges, with ten times as many requests a second; the rest is alike."""
    random = np.random.default_rng(seed)
    first, rest = np.sort(random.random(4000)) * 4, 4 + np.sort(random.random(96_000)) * 96
    busy = requests(
        np.concatenate([first, rest]),
        100,
        np.concatenate([np.full(4000, 9), random.integers(8, size=96_000)]),
    )
    found = judge(busy, 2 * SECOND)
    assert found.verdict == "alike" and found.part and found.part.differs == ["places"]
    assert found.windows and found.windows.nearest_ns >= 4 * SECOND
    warning, hint = sentences(found)
    assert "not the one that the model begins with: places 9" in warning and "--from " in hint
    later = judge(busy, 2 * SECOND, from_ns=50 * SECOND)
    assert later.part and later.part.differs == [] and len(list(sentences(later))) == 1
    beyond = judge(busy, 2 * SECOND, from_ns=99 * SECOND)
    assert beyond.part is None and beyond.verdict == "alike"


@pytest.mark.parametrize("seed", SEEDS)
def test_few_requests_are_too_few(seed: int) -> None:
    found = judge(independent(seed, 5000, 10), SECOND)
    assert found.verdict == "few" and found.windows and found.windows.requests == pytest.approx(10, abs=1)
    assert not any(each.differs for each in found.windows.figures)
    # 1.645 standard deviations of 10 % are 271 requests: of 16 s 160, of 32 s 320
    assert found.shortest_ns in (16 * SECOND, 32 * SECOND)
    warning, hint = sentences(found)
    assert "by chance alone" in warning and "hint: windows of " in hint


@pytest.mark.parametrize("seed", SEEDS)
def test_long_range_dependence_is_measured(seed: int) -> None:
    """Sources with on and off times of a Pareto distribution: H = (3 - 1.4) / 2 (Willinger et al., SIGCOMM 1995)."""
    random = np.random.default_rng(seed)
    times, span = [], 16_000
    for _ in range(50):
        ends = np.cumsum(random.pareto(1.4, 12_000) + 1) - 1000
        on = random.integers(2)
        for begin, end in zip(ends[on:-1:2], ends[on + 1 :: 2], strict=True):
            if begin > span:
                break
            times.append(np.arange(begin, end))
    all_times = np.sort(np.concatenate(times))
    all_times = all_times[(all_times >= 0) & (all_times < span)]
    found = hurst(requests(all_times, span, np.zeros(len(all_times))))
    assert found and found.exponent == pytest.approx(0.8, abs=0.1)
    assert found.low < found.exponent < found.high
    # nothing but the order of the counts matters
    width = span / 2048
    counts = random.permutation(np.bincount((all_times / width).astype(int), minlength=2048))
    centers = np.repeat(np.arange(2048) + 0.5, counts) * width
    shuffled = hurst(requests(centers, span, np.zeros(len(centers))))
    assert shuffled and shuffled.exponent == pytest.approx(0.5, abs=0.12)


def test_what_is_not_known_is_null() -> None:
    short = judge(independent(1), 60 * SECOND)
    assert short.model_ns / SECOND < 60 * LEAST_WINDOWS
    assert (
        short.verdict == "unknown"
        and short.windows is None
        and short.part is None
        and short.shortest_ns is None
    )
    (said,) = sentences(short)
    assert "unknown" in said and "fewer than 10 such windows" in said
    whole = judge(independent(1), 500 * SECOND)
    assert whole.verdict == "whole" and list(sentences(whole)) == []
    assert json.loads(json.dumps(short.as_dict()))["windows"] is None
    assert judge(independent(1, 1000), SECOND // 10).hurst is None
    # only flushes: no places, sizes, reads
    flushes = requests(np.arange(50_000) / 100, 500, np.zeros(50_000), op=2, length=0)
    found = judge(flushes, 20 * SECOND)
    assert found.windows and [each.deviation for each in found.windows.figures[1:]] == [None] * 3
    assert found.verdict == "alike" and found.windows.figure("rate").deviation == pytest.approx(0, abs=1e-9)
    # equal counts have no exponent, and none is made up
    assert found.hurst is None or found.hurst.exponent < 0.1


def test_windows_without_requests_are_not_cut() -> None:
    """1,000 requests over 100 years: 60 s are one of 50 million windows."""
    century_ns = 100 * 365 * 86_400 * 10**9
    ts = np.sort(np.random.default_rng(1).integers(0, century_ns, 1000))
    ones = np.ones(1000, np.int64)
    found = judge(Requests(ts, ones, 4096 * ones, 0 * ones, century_ns), 60 * 10**9)
    assert (found.verdict, found.windows, found.longer) == ("empty", None, [])
    [warning, hint] = sentences(found)
    assert "60.0 s don't stand for all" in warning
    assert "876 h apart in the mean" in warning
    assert "--for" in hint


def test_many_ranges_give_what_few_give() -> None:
    """The shares of ranges that are only counted where there are requests."""
    from iotrail.model import similarity

    alike = phases(1, (100, 300) * 40, 3.2)
    one = judge(alike, SECOND).windows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_MOST_CELLS", 0)
        other = judge(alike, SECOND).windows
    assert one and other
    for key in ("rate", "places"):
        assert one.figure(key).deviation == pytest.approx(other.figure(key).deviation)
        assert one.figure(key).chance == pytest.approx(other.figure(key).chance)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("60s", 60 * SECOND), ("5min", 300 * SECOND), ("1h 30m", 5400 * SECOND), ("2days", 172_800 * SECOND),
        ("10ms", 10**7), ("soon", None), ("0s", None), ("5", None), ("-5s", None), ("3 fortnights", None),
    ],
)  # fmt: skip
def test_times_are_those_of_options(text: str, ns: int | None) -> None:
    assert time_ns(text) == ns


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 40 s: half a second of 100 reads at the beginning of a disk, half a second of 20 writes at its end, in turn."""
    folder, random = tmp_path_factory.mktemp("model"), np.random.default_rng(1)
    lines = ["ts_us,op,offset,size"]
    for second in range(40):
        for at in np.sort(random.integers(500_000, size=100)):
            lines.append(f"{second * 1_000_000 + at},R,{random.integers(2048) * 4096},4096")
        for at in np.sort(random.integers(500_000, size=20)):
            lines.append(
                f"{second * 1_000_000 + 500_000 + at},W,{24 * MIB + random.integers(2048) * 4096},4096"
            )
    (folder / "t.csv").write_text("\n".join([*lines, ""]))
    iotrail("import", "csv", folder / "t.csv", "-o", folder / "t.trail")
    iotrail("model", "fit", folder / "t.trail", "-o", folder / "m.json", "--levels", "1")
    return folder / "m.json"


def test_a_run_says_how_it_stands_for_the_model(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "disk"
    with target.open("wb") as file:
        file.truncate(64 * MIB)
    run = ["generate", model, "--target", target, "--overwrite", "--json"]
    timed = json.loads(iotrail(*run, "--for", "250ms", "--seed", 3))
    assert (timed["for_ns"], timed["from_ns"]) == (250_000_000, 0)
    found = timed["similarity"]
    assert found["verdict"] == "differ" and found["width_ns"] == 250_000_000
    assert found["drawn_requests"] == 4800 and found["windows"]["is_alike"] is False
    figures = {each["key"]: each for each in found["windows"]["figures"]}
    assert figures["places"]["differs"] and figures["read_share"]["differs"]
    assert figures["rate"]["p10"] < 60 < 150 < figures["rate"]["p90"]
    assert found["shortest_alike_ns"] == 1_000_000_000
    assert found["part"]["from_ns"] == 0 and "rate" in found["part"]["differs"]
    # the second half of each second is writes; four times the intensity is a second
    later = json.loads(iotrail(*run, "--for", "250ms", "--from", "510ms", "--intensity", 1.9))
    assert later["from_ns"] == 510_000_000 and later["similarity"]["part"]["from_ns"] == 510_000_000
    assert (
        later["by_op"].keys() == {"write"}
        or later["by_op"]["write"]["requests"] > later["by_op"]["read"]["requests"]
    )
    faster = json.loads(iotrail(*run, "--for", "250ms", "--intensity", 4))["similarity"]
    assert (faster["verdict"], faster["width_ns"]) == ("alike", 1_000_000_000)
    warmed = json.loads(iotrail(*run, "--for", "500ms", "--warm-up", "250ms"))["similarity"]
    assert (warmed["width_ns"], warmed["part"]["from_ns"]) == (250_000_000, 250_000_000)
    closed = json.loads(iotrail(*run, "--for", "50ms", "--loop", "closed"))
    assert closed["similarity"] is None
    assert "beyond" not in capfd.readouterr().err


def test_a_start_beyond_the_end_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").touch()
    said = iotrail("generate", model, "--target", tmp_path / "disk", "--from", "10min", fails=True)
    assert "--from 10m leaves nothing of the model" in said and "hint:" in said
    said = iotrail("generate", model, "-o", tmp_path / "y.trail", "--from", "1s", fails=True)
    assert "--from" in said and "expected --target PATH" in said


def test_windows_of_a_model_are_shown(model: Path, tmp_path: Path) -> None:
    text = iotrail("model", "show", model, "--windows", "250ms")
    assert (
        "windows of 250 ms" in text and "Hurst exponent of counts:" in text and "don't stand for all" in text
    )
    found = json.loads(iotrail("model", "show", model, "--windows", "1s", "--json"))
    assert found["verdict"] == "alike" and [each["width_ns"] for each in found["longer"]] == [2 * SECOND]
    assert found["hurst"]["scales"] >= 5
    assert "expected a time above 0, found 'x'" in iotrail(
        "model", "show", model, "--windows", "x", fails=True
    )
    for words, named in ((("--dot", tmp_path / "x"), "--dot"), (("--reveals",), "--windows")):
        said = iotrail("model", "show", model, "--windows", "1s", *words, fails=True)
        assert f"{named} can't be combined with" in said
