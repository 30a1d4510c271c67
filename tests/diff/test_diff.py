"""`iotrail diff`: what it finds, what it doesn't, what it says about bad input."""

import functools
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import sync_playwright

from iotrail.__main__ import main
from iotrail.diff.compare import Comparison, compare_runs
from iotrail.diff.difference import Difference
from iotrail.diff.files import match_files
from iotrail.diff.run import Run, Sides
from iotrail.diff.show import interval
from iotrail.trail import Trail

from . import drifting_runs

Make = Callable[..., Path]
PAIRS = 3


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make(seed, …)`: the trail of a run, made once."""
    folder = tmp_path_factory.mktemp("diff")
    made: dict[str, Path] = {}

    def once(seed: int, **options: object) -> Path:
        key = repr((seed, sorted(options.items(), key=lambda item: item[0])))
        if key not in made:
            made[key] = drifting_runs.write(
                drifting_runs.program(seed, **options), folder / f"run{len(made)}.trail"
            )  # type: ignore[arg-type]
        return made[key]

    return once


@functools.cache
def run_of(path: Path) -> Run:
    """A trail's figures, read once for all tests."""
    return Run(Trail(path))


def compared(a: Path | Sequence[Path], b: Path | Sequence[Path], **options: object) -> Comparison:
    sides = (tuple(map(run_of, [side] if isinstance(side, Path) else side)) for side in (a, b))
    return compare_runs(Sides(*sides), **options)  # type: ignore[arg-type]


def found(result: Comparison, metric: str) -> dict[tuple[str, str], Difference]:
    return {(d.subject, d.part): d for d in result.found if d.metric == metric}


def iotrail(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command, in this process: a new one would spend most of its time on imports."""
    words = ["iotrail", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "160"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    assert isinstance(status, int)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("pair", range(PAIRS))
def test_the_same_twice_differs_in_nothing(make: Make, pair: int) -> None:
    result = compared(make(2 * pair), make(2 * pair + 1))
    assert result.found == [] and result.run_time is not None and not result.run_time.significant
    assert result.verdict.startswith("no count differs; times can't be told from one run each")


def interleaved(make: Make, first: int, **slower: float) -> tuple[list[Path], list[Path]]:
    """Three runs of A and three of B, alternating."""
    return (
        [make(first + 2 * i, after=2 * i) for i in range(3)],
        [make(first + 2 * i + 1, after=2 * i + 1, slower=slower) for i in range(3)],
    )


@pytest.mark.parametrize("first", [0, 10])
def test_three_runs_a_side_of_the_same_differ_in_nothing(make: Make, first: int) -> None:
    result = compared(*interleaved(make, first))
    assert result.found == [] and result.run_time is not None and not result.run_time.significant
    assert result.verdict.startswith("no difference beyond that between runs") and result.notes == []


@pytest.mark.parametrize("first", [0, 10])
def test_a_tenth_on_one_call_is_ranked_first(make: Make, first: int) -> None:
    result = compared(*interleaved(make, first, pread=1.1))
    difference = result.found[0]
    assert (difference.metric, difference.subject) == ("latency", "pread")
    assert 0.07 < difference.effect < 0.13 and difference.low > 0
    assert difference.added_ns is not None and 0.5 < difference.added_ns / (4000 * 150) < 1.6
    assert len(difference.runs_a) == len(difference.runs_b) == 3
    assert {d.subject for d in result.found if d.metric == "latency"} == {"pread"}
    assert compared(*interleaved(make, first, pread=1.1), min_effect=0.2).found == []


def test_one_run_each_can_not_tell_a_tenth(make: Make) -> None:
    """The pair of runs that three a side tell apart: each is steady inside, but runs may differ by that."""
    a, b = make(0), make(1, slower={"pread": 1.1})
    result = compared(a, b)
    assert result.found == []
    body = next(d for d in result.differences if (d.subject, d.part) == ("pread", "all but the slowest 5 %"))
    assert body.answer == "can't tell" and body.effect == pytest.approx(0.1, abs=0.05)


def test_one_run_each_tells_what_is_far_beyond_what_runs_differ_by(make: Make) -> None:
    result = compared(make(0), make(1, slower={"pread": 30.0}))
    assert result.found[0].subject == "pread" and result.found[0].effect == pytest.approx(29, rel=0.2)
    assert {d.subject for d in result.found} == {"pread"}
    assert result.found[0].note.startswith("most in /srv/run/data.db; the fastest tenth +")
    fast = [d for d in result.differences if d.part == "the fastest tenth"]
    assert fast and all(d.high == math.inf and interval(d) == "" for d in fast)


def test_a_call_that_varies_from_run_to_run_is_no_difference(make: Make) -> None:
    """As open on a journal that neighbours use: steady inside of each run, and of another speed in each."""
    speeds = ((1.0, 1.7, 0.8), (1.4, 0.9, 1.9))
    sides = [
        [make(2 * n + side, slower={"fstat": each}) for n, each in enumerate(speeds[side])] for side in (0, 1)
    ]
    result = compared(*sides)
    assert result.found == []


def test_a_slower_machine_is_one_difference(make: Make) -> None:
    a, _ = interleaved(make, 0)
    slow = [make(20 + i, machine=2.0) for i in range(3)]
    result = compared(a, slow)
    first = result.found[0]
    assert first.subject == "every call" and 0.8 < first.effect < 1.2
    # calls that were preempted are late by the same time on any machine: the tail of computing alone is twice as long
    typical = [d for d in result.found if d.metric == "latency" and d.part != "the slowest 5 %"]
    assert {d.subject for d in typical} == {"every call"}
    assert result.run_time is not None and result.run_time.significant and "slower" in result.verdict


def test_rare_calls_are_judged_too(make: Make) -> None:
    result = compared(*interleaved(make, 0, fsync=3.0))
    assert result.found[0].subject == "fsync" and result.found[0].effect == pytest.approx(2.0, rel=0.2)


def test_what_was_added_is_what_the_calls_took(make: Make) -> None:
    result = compared(make(0), make(1, fsync_every=50))
    more = found(result, "count")["fsync", "calls"]
    assert (more.a, more.b, more.exact, more.p) == (40, 80, True, None)
    assert result.found[0] is more
    assert more.added_ns == pytest.approx(40 * drifting_runs.FSYNC, rel=0.3)


def test_sizes_and_sequentiality(make: Make) -> None:
    result = compared(make(0), make(1, large=131072, ordered=True))
    sizes = {part: d.effect for (_, part), d in found(result, "size").items()}
    assert sizes == {"of 64.0 KiB and more": pytest.approx(-0.5), "of 128 KiB and more": pytest.approx(0.5)}
    pattern = {part: d.effect for (_, part), d in found(result, "pattern").items()}
    assert pattern["consecutive"] > 0.3 and pattern["jump"] < -0.3
    assert found(result, "bytes")["read", "bytes moved"].effect == 1.0


def test_a_call_that_is_gone(make: Make) -> None:
    result = compared(make(0), make(1, skip=frozenset({"fstat"})))
    gone = found(result, "count")["fstat", "calls"]
    assert gone.effect == -1.0 and gone.added_ns is not None and gone.added_ns < 0


def counting(
    folder: Path, calls: Mapping[str, int], waits: Mapping[str, int] | None = None, *, start: int = 0, retries: int = 0,
    paths: Mapping[int, str] | None = None, lost: int = 0, timed: bool = True,
) -> Path:  # fmt: skip
    """A trail of so many calls of each name, on the files of `paths` in turn; `retries` more end with EAGAIN."""
    paths = paths or {1: "/srv/run/data"}
    names = [name for name, n in calls.items() for _ in range(n)] + [next(iter(calls))] * retries
    count = len(names)
    begin = np.arange(count) * 2000 + start * 10**10 if timed else np.zeros(count)
    files = [list(paths)[n % len(paths)] for n in range(count)]
    errno = [0] * (count - retries) + [11] * retries
    tables = {
        "file_op": pa.table(
            {"ts": begin.astype(np.int64), "dur": [700 if timed else None] * count, "node": ["n"] * count,
             "thread": [1] * count, "crumb": [0] * count, "call": names, "file": files, "result": [0] * count,
             "errno": errno, "calls": [1] * count}
        ),
        "file": pa.table({"node": ["n"] * len(paths), "file": list(paths), "path": list(paths.values())}),
    }  # fmt: skip
    slept = [name for name, n in (waits or {}).items() for _ in range(n)]
    if slept:
        tables["sync_op"] = pa.table(
            {"ts": np.arange(len(slept)) * 2000 + 1000 + start * 10**10, "dur": [500] * len(slept), "node": ["n"] * len(slept),
             "thread": [1] * len(slept), "crumb": [0] * len(slept), "call": slept, "kind": ["poll"] * len(slept),
             "errno": [0] * len(slept)}
        )  # fmt: skip
    if lost:
        tables["unseen"] = pa.table({"node": ["n"], "kind": ["dropped"], "amount": [lost]})
    return drifting_runs.write(tables, folder / f"{len(list(folder.glob('*.trail')))}.trail")


def test_counts_are_compared_exactly(tmp_path: Path) -> None:
    a = counting(tmp_path, {"stat": 9157})
    for more, effect in ((13657, 4500 / 9157), (9158, 1 / 9157)):
        b = counting(tmp_path, {"stat": more}, start=1)
        result = compared(a, b)
        difference = found(result, "count")["stat", "calls"]
        assert (difference.a, difference.b, difference.p, difference.exact) == (9157, more, None, True)
        assert difference.effect == pytest.approx(effect)
        assert found(result, "files")["/srv/run/data", "operations"].effect == pytest.approx(effect)
        assert iotrail("diff", a, b, "--fail-on", "calls.stat").returncode == 1
        assert iotrail("diff", a, b, "--fail-on", "calls.stat:50%").returncode == 0
    assert "first stat, calls: +1 (" in iotrail("diff", a, b).stdout
    # the same in every run of a side
    sides = [
        [counting(tmp_path, {"stat": n}, start=2 * i + k) for i in range(3)]
        for k, n in enumerate((9157, 9158))
    ]
    assert found(compared(*sides), "count")["stat", "calls"].exact


def test_counts_that_vary_from_run_to_run(tmp_path: Path) -> None:
    def side(*stats: int) -> list[Path]:
        return [counting(tmp_path, {"stat": n}, start=n) for n in stats]

    result = compared(side(900, 1000, 950), side(910, 1010, 990))
    assert result.found == [] and not [
        d for d in result.differences if d.metric == "count" and d.answer != "no difference"
    ]
    # outside of the others' range, but no further than runs of a side are from each other
    result = compared(side(901, 1001, 951), side(1020, 1120, 1070))
    assert found(result, "count") == {}
    result = compared(side(902, 912, 907), side(2000, 2010, 2005))
    clear = found(result, "count")["stat", "calls"]
    assert not clear.exact and clear.p is not None and clear.q is not None and clear.low > 1


def test_numbers_that_timing_decides_are_told_apart(tmp_path: Path) -> None:
    a = counting(tmp_path, {"read": 500}, {"poll": 100})
    b = counting(tmp_path, {"read": 500}, {"poll": 160}, start=1, retries=40)
    result = compared(a, b)
    assert result.found == []
    open_ones = {(d.subject, d.part): d for d in result.differences if d.metric == "count"}
    assert open_ones.keys() == {("poll", "calls"), ("read", "calls, retried")}
    assert {d.answer for d in open_ones.values()} == {"can't tell"}
    done = iotrail("diff", a, b, "--fail-on", "calls.poll")
    assert (
        done.returncode == 3
        and "can't tell: count: poll, calls: +60.0%" in done.stderr
        and "hint: record" in done.stderr
    )
    assert iotrail("diff", a, b, "--fail-on", "calls.open").returncode == 0
    # three that agree by chance are no certainty: 100 events vary by 10
    sides = [
        [counting(tmp_path, {"read": 500}, {"poll": n}, start=2 * i + k) for i in range(3)]
        for k, n in enumerate((100, 110))
    ]
    assert found(compared(*sides), "count") == {}
    sides = [
        [counting(tmp_path, {"read": 500}, {"poll": n + i}, start=2 * i + k) for i in range(3)]
        for k, n in enumerate((100, 300))
    ]
    assert found(compared(*sides), "count")["poll", "calls"].effect == pytest.approx(2.0, abs=0.05)


def test_files_of_temporary_names_are_counted_together(tmp_path: Path) -> None:
    a = counting(
        tmp_path, {"write": 60}, paths={1: "/srv/run/data", 2: "/srv/run/sort.4711", 3: "/srv/run/sort.4712"}
    )
    b = counting(
        tmp_path,
        {"write": 60},
        paths={1: "/srv/run/data", 5: "/srv/run/sort.99", 6: "/srv/run/sort.98"},
        start=1,
    )
    result = compared(a, b)
    assert result.found == []
    c = counting(
        tmp_path, {"write": 60}, paths={1: "/srv/run/data", 5: "/srv/run/sort.99", 6: "/srv/run/new"}, start=1
    )
    result = compared(a, c)
    assert {(d.subject, d.part) for d in result.found} == {
        ("sort.#", "operations"),
        ("1 file", "only in B"),
    } or {(d.subject, d.part) for d in result.found} == {
        ("/srv/run/sort.#", "operations"),
        ("1 file", "only in B"),
    }


def test_counts_of_a_trail_that_lost_records_are_not_exact(tmp_path: Path) -> None:
    a, b = counting(tmp_path, {"stat": 900}), counting(tmp_path, {"stat": 800}, start=1, lost=100)
    result = compared(a, b)
    assert result.found == [] and "lost 100 records" in result.notes[0]
    assert iotrail("diff", a, b, "--fail-on", "calls").returncode == 3


def test_a_trail_without_times_has_counts_only(tmp_path: Path) -> None:
    a, b = (counting(tmp_path, {"stat": n}, timed=False) for n in (90, 91))
    result = compared(a, b)
    assert result.run_time is None and [d.metric for d in result.found] == ["count", "files"]
    assert (
        result.verdict.startswith("no times to compare; 2 counts differ")
        and "no times of calls" in result.notes[0]
    )
    done = iotrail("diff", a, b)
    assert done.returncode == 0 and "stat, calls" in done.stdout and "Traceback" not in done.stderr


def test_runs_that_were_not_alternated_are_named(tmp_path: Path) -> None:
    a = [counting(tmp_path, {"stat": 90}, start=i) for i in range(3)]
    b = [counting(tmp_path, {"stat": 90}, start=i + 3) for i in range(3)]
    assert "all runs of A were recorded before the others" in " ".join(compared(a, b).notes)
    assert "alternately" not in " ".join(compared([a[0], a[2], b[1]], [a[1], b[0], b[2]]).notes)


def row(n: int) -> tuple[int, int]:
    return n, n * 4096


def test_files_are_matched_below_the_common_directory() -> None:
    a = {"/srv/app/x/1": row(1), "/srv/app/y": row(2), "/proc/self/maps": row(3), "/srv/app/old": row(9)}
    b = {"/mnt/t/x/1": row(1), "/mnt/t/y": row(5), "/proc/self/maps": row(3), "/mnt/t/new": row(8)}
    files = match_files([a], [b])
    assert (files.root_a, files.root_b) == ("/srv/app/", "/mnt/t/")
    assert {r.name for r in files.both} == {"x/1", "y", "/proc/self/maps"}
    assert [r.name for r in files.changed] == ["y"]
    assert [r.name for r in files.only_a] == ["old"] and [r.name for r in files.only_b] == ["new"]


def test_files_are_matched_as_told_and_by_the_form_of_temporary_names() -> None:
    files = match_files(
        [{"/a/b/data": row(1)}], [{"/c/data": row(1), "/c/other/z": row(1)}], [("/a/b", "/c")]
    )
    assert [r.name for r in files.both] == ["/c/data"]
    files = match_files([{"/tmp/sort.4711": row(1), "/tmp/sort.4712": row(2)}], [{"/tmp/sort.99": row(3)}])
    assert [(r.name, r.ops) for r in files.rows] == [("/tmp/sort.#", [3, 3])]
    git = [
        {f"/r/.git/objects/{h[:2]}/{h[2:]}": row(1) for h in (first + "0f" * 19, second + "c3" * 19)}
        for first, second in (("ab", "01"), ("7e", "f2"))
    ]
    files = match_files(git[:1], git[1:])
    assert [(r.name, r.ops) for r in files.rows] == [("/r/.git/objects/#", [2, 2])]


def test_files_of_several_runs_are_those_of_all() -> None:
    runs = [{"/d/x": row(1), f"/d/tmp{n}": row(n)} for n in (11, 12, 13)]
    files = match_files(runs[:2], [*runs[2:], {"/d/x": row(1)}])
    assert {r.name: r.ops for r in files.rows} == {"/d/x": [1, 1, 1, 1], "/d/tmp#": [11, 12, 13, 0]}
    assert files.only_a == [] and files.only_b == []


def test_a_run_in_another_directory_has_the_same_files(make: Make) -> None:
    moved = {file: path.replace("/srv/run", "/mnt/elsewhere") for file, path in drifting_runs.PATHS.items()}
    result = compared(make(0), make(1, paths=moved))
    assert result.files is not None and len(result.files.both) == 2 and not result.files.only_b
    assert result.found == []


def test_command(make: Make, tmp_path: Path) -> None:
    a, b = interleaved(make, 0, pread=1.1)
    done = iotrail("diff", *a, "--", *b)
    assert done.returncode == 0 and "Beyond what runs of one side differ by" in done.stdout, done.stderr
    assert done.stdout.count("pread") >= 2
    # options may stand on both sides
    data = json.loads(iotrail("diff", "--min-effect", "4%", *a, "--", *b, "--json").stdout)
    assert data["found"][0]["subject"] == "pread" and data["run_time"]["a"] > 0 and data["min_effect"] == 0.04
    assert data["found"][0]["answer"] == "differs" and len(data["found"][0]["runs_b"]) == 3
    assert data["times_judged_by"] == "the differences between runs of a side" and len(data["a"]) == 3
    assert all(d["q"] is None or d["q"] >= d["p"] for d in data["not_shown_to_be_more_than_noise"])
    one = json.loads(iotrail("diff", a[0], b[0], "--json").stdout)
    assert one["times_judged_by"] == "one run each" and one["found"] == []
    said = iotrail("diff", a[0], "--", b[0])
    assert (
        said.returncode == 0
        and "can't be told from one run each" in said.stdout
        and "A1 A2 A3 -- B1 B2 B3" in said.stdout
    )


def test_two_parts_of_a_run(make: Make) -> None:
    trail = make(0)
    (span,) = Trail(trail).rows_of("SELECT MIN(ts) AS start, MAX(ts + dur) AS stop FROM file_op")
    half = (span["stop"] - span["start"]) // 2
    (counted,) = Trail(trail).rows_of(
        "SELECT COUNT(*) FILTER (WHERE ts < $mid) AS first, COUNT(*) FILTER (WHERE ts + dur >= $mid) AS second FROM file_op",
        {"mid": span["start"] + half},
    )
    parts = ("--to", f"+{half}ns", "--against-from", f"+{half}ns")
    data = json.loads(iotrail("diff", trail, trail, *parts, "--json").stdout)
    assert not data["identical"]
    ops = [data["overview"][side]["ops"] for side in ("a", "b")]
    # a call under way in the middle is of both
    assert ops == [counted["first"], counted["second"]] and min(ops) > 1000
    # the same part twice
    parts = ("--to", f"+{half}ns")
    assert json.loads(iotrail("diff", trail, trail, *parts, "--json").stdout)["identical"]
    refused = iotrail("diff", trail, trail, "--fidelity", "--to", "+1s")
    assert refused.returncode == 2 and "--fidelity compares whole runs" in refused.stderr
    refused = iotrail("diff", trail, trail, "--from", "+1h")
    assert refused.returncode == 2 and "nothing between --from and --to" in refused.stderr


def test_fail_on(make: Make) -> None:
    a, b = interleaved(make, 0, pread=1.1)
    same = interleaved(make, 0)[1]

    def gated(one: Sequence[Path], other: Sequence[Path], *gates: str) -> subprocess.CompletedProcess[str]:
        return iotrail("diff", *one, "--", *other, *(word for gate in gates for word in ("--fail-on", gate)))

    refusing = ("any", "latency", "latency.pread:5%", "latency.pread:0.05")
    done = gated(a, b, *refusing)
    assert done.returncode == 1
    for gate, said in zip(refusing, done.stderr.splitlines(), strict=True):
        assert said.startswith(f"--fail-on {gate}: latency: pread"), done.stderr
    assert gated(a, same, *refusing).returncode == 0
    passing = ("latency.pread:50%", "latency.read", "calls", "bytes", "errors", "size", "pattern", "files")
    assert gated(a, b, *passing).returncode == 0
    # one run each: 3 where they can't tell, 1 where counts do
    done = gated(a[:1], b[:1], "latency.pread:5%")
    assert done.returncode == 3 and "--fail-on latency.pread:5%: can't tell: latency: pread" in done.stderr
    assert gated(a[:1], b[:1], "latency.pread:500%").returncode == 0
    done = gated(a[:1], [make(1, fsync_every=50)], "calls.fsync", "latency.pread:5%")
    assert done.returncode == 1 and "fsync, calls: +100.0%" in done.stderr


def test_usage(make: Make, tmp_path: Path) -> None:
    a, b, c = make(0), make(1), make(2)
    copy = drifting_runs.write(drifting_runs.program(0), tmp_path / "copy.trail")
    for words, says in (
        ([a, a, "--fail-on", "speed"], "no metric 'speed'"),
        ([a, a, "--fail-on", "slower:x"], "expected a share, found 'x'"),
        ([a, a, "--min-effect", "5"], "expected a share, found '5'"),
        ([a, a, "--map", "/a"], "expected FROM=TO"),
        ([a, a, "--html", tmp_path], "is a directory"),
        ([a, b, c], "found 3 without --"),
        ([a], "found 1 without --"),
        ([a, b, "--"], "no trail after --: side B is empty"),
        (["--", a, b], "no trail before --: side A is empty"),
        ([a, "--", b, "--", c], "expected one --, found 2"),
        ([a, b, "--", c, a], "is named twice"),
        ([a, b, "--", c, copy], "are the same run"),
        ([a, b, "--", c, "--fidelity"], "--fidelity compares two trails, found 3"),
        ([a, b, "--", c, "--requests"], "--requests compares two trails, found 3"),
    ):
        done = iotrail("diff", *words)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert iotrail("diff", a, tmp_path / "no.trail").stderr.startswith("iotrail: error: ")


def test_trails_with_nothing_to_compare(make: Make, tmp_path: Path) -> None:
    a = make(0)
    assert compared(a, a).identical
    copy = drifting_runs.write(drifting_runs.program(0), tmp_path / "copy.trail")
    assert compared(a, copy).identical and "identical" in iotrail("diff", a, copy).stdout
    empty = drifting_runs.program(0)["file_op"].slice(0, 0)
    nothing = drifting_runs.write({"file_op": empty}, tmp_path / "empty.trail")
    assert (
        "is empty" in compared(a, nothing).verdict
        and "both trails are empty"
        in compared(nothing, drifting_runs.write({"file_op": empty}, tmp_path / "empty2.trail")).verdict
    )
    other = {
        "file_op": pa.table(
            {"ts": [5], "dur": [3], "node": ["n"], "thread": [1], "crumb": [0], "call": ["unlink"], "file": [7],
             "result": [0], "errno": [0], "calls": [1]}
        )
    }  # fmt: skip
    apart = compared(a, drifting_runs.write(other, tmp_path / "other.trail"))
    assert "nothing in common" in apart.verdict
    done = iotrail("diff", a, nothing, "--fail-on", "any")
    assert done.returncode == 3 and "can't tell" in done.stderr, "nothing compared is nothing passed"


def test_one_call_each_can_not_be_judged(make: Make, tmp_path: Path) -> None:
    def once(dur: int, name: str) -> Path:
        row = {"ts": [5], "dur": [dur], "node": ["n"], "thread": [1], "crumb": [0], "call": ["fsync"],
               "file": [7], "result": [0], "errno": [0], "calls": [1]}  # fmt: skip
        return drifting_runs.write({"file_op": pa.table(row)}, tmp_path / name)

    result = compared(once(10**6, "a.trail"), once(10**9, "b.trail"))
    assert result.found == [] and result.unproven[0].p is None
    assert "one run each can't tell" in iotrail("diff", *result.a, *result.b).stdout


def test_page(make: Make, tmp_path: Path) -> None:
    page_file = tmp_path / "d.html"
    before, after = interleaved(make, 0, pread=1.1)
    a, b = before[0], after[0]
    assert iotrail("diff", a, b, "--html", page_file).returncode == 0
    assert iotrail("diff", *before, "--", *after, "--html", page_file).returncode == 0, (
        "its own page may be replaced"
    )
    other = tmp_path / "notes.html"
    other.write_text("mine")
    refused = iotrail("diff", a, b, "--html", other)
    assert refused.returncode == 2 and "--force" in refused.stderr and other.read_text() == "mine"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        asked: list[str] = []
        backgrounds = set()
        for scheme in ("light", "dark"):
            page = browser.new_context(
                color_scheme=scheme, viewport={"width": 1280, "height": 800}
            ).new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.goto(page_file.as_uri())
            assert "pread" in page.locator("table").first.inner_text()
            figures = page.locator("figure")
            assert figures.filter(has_text="pread · changed").locator("polyline").count() == 6, "a line a run"
            dots = figures.filter(has_text="pread, all but the slowest").locator("path[stroke-linecap=round]")
            assert [dots.nth(n).get_attribute("d").count("M") for n in range(2)] == [3, 3], "a dot a run"  # type: ignore[union-attr]
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        browser.close()
    assert asked == [page_file.as_uri()] * 2 and len(backgrounds) == 2
