"""`iotrail diff`: what it finds, what it doesn't, what it says about bad input."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import sync_playwright

from iotrail.diff import Comparison, compare
from iotrail.diff.files import match_files
from iotrail.trail import Trail

from . import drifting_runs

Make = Callable[..., Path]
PAIRS = 5


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


def compared(a: Path, b: Path, **options: object) -> Comparison:
    return compare(Trail(a), Trail(b), **options)  # type: ignore[arg-type]


def iotrail(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iotrail", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "160"},
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("pair", range(PAIRS))
def test_the_same_twice_differs_in_nothing(make: Make, pair: int) -> None:
    result = compared(make(2 * pair), make(2 * pair + 1))
    assert result.found == [] and result.run_time is not None and not result.run_time.significant
    assert "no difference beyond noise" in result.verdict


@pytest.mark.parametrize("pair", range(PAIRS))
def test_a_tenth_on_one_call_is_ranked_first(make: Make, pair: int) -> None:
    result = compared(make(2 * pair), make(2 * pair + 1, slower={"pread": 1.1}))
    first = result.found[0]
    assert (first.metric, first.subject) == ("latency", "pread")
    assert 0.05 < first.effect < 0.15
    assert first.added_ns is not None and 0.5 < first.added_ns / (4000 * 150) < 1.6
    assert [d.subject for d in result.found if d.metric == "latency"] == ["pread"]


def test_a_slower_machine_is_one_difference(make: Make) -> None:
    result = compared(make(0), make(1, machine=1.5))
    first = result.found[0]
    assert first.subject == "every call" and 0.35 < first.effect < 0.65
    assert {d.subject for d in result.found if d.metric == "latency" and d.part != "the slowest 5 %"} == {
        "every call"
    }
    assert result.run_time is not None and result.run_time.significant and "slower" in result.verdict


def test_rare_calls_are_judged_too(make: Make) -> None:
    result = compared(make(0), make(1, slower={"fsync": 3.0}))
    assert result.found[0].subject == "fsync" and result.found[0].effect == pytest.approx(2.0, rel=0.2)


def test_what_was_added_is_what_the_calls_took(make: Make) -> None:
    a, b = make(0), make(1, fsync_every=50)
    result = compared(a, b)
    more = next(d for d in result.found if d.metric == "count")
    assert (more.subject, more.a, more.b) == ("fsync", 40, 80)
    assert result.found[0] is more
    assert more.added_ns == pytest.approx(40 * drifting_runs.FSYNC, rel=0.3)


def test_sizes_and_sequentiality(make: Make) -> None:
    result = compared(make(0), make(1, large=131072, ordered=True))
    sizes = {d.part: d.effect for d in result.found if d.metric == "size"}
    assert sizes == {"of 64.0 KiB and more": pytest.approx(-0.5), "of 128 KiB and more": pytest.approx(0.5)}
    pattern = {d.part: d.effect for d in result.found if d.metric == "pattern" and d.subject == "reads"}
    assert pattern["consecutive"] > 0.3 and pattern["jump"] < -0.3
    assert any(d.metric == "bytes" and d.subject == "read" for d in result.found)


def test_a_call_that_is_gone(make: Make) -> None:
    result = compared(make(0), make(1, skip=frozenset({"fstat"})))
    gone = next(d for d in result.found if d.subject == "fstat")
    assert gone.metric == "count" and gone.effect == -1.0 and gone.added_ns is not None and gone.added_ns < 0


def test_a_smaller_effect_than_asked_for_is_not_reported(make: Make) -> None:
    a, b = make(0), make(1, slower={"pread": 1.1})
    assert compared(a, b, min_effect=0.2).found == []


def row(n: int) -> dict[str, int]:
    return {"n": n, "bytes": n * 4096, "file": n}


def test_what_runs_of_a_differ_by_is_noise(make: Make) -> None:
    """B's pread takes 10 % longer: a difference beside runs that don't, none beside one that differs by 15 %."""
    a, b = make(0), make(1, slower={"pread": 1.1})
    calm, wild = make(2), make(3, slower={"pread": 1.15})
    first = compared(a, b, again=[Trail(calm)]).found[0]
    assert (first.metric, first.subject) == ("latency", "pread")
    result = compared(a, b, again=[Trail(calm), Trail(wild)])
    assert not [d for d in result.found if d.subject == "pread"]
    note = next(
        d.note for d in result.differences if (d.metric, d.subject) == ("latency", "pread") and d.note
    )
    assert note.startswith("runs of A differ by up to 1")
    assert iotrail("diff", a, b, "--again", calm, "--fail-on", "latency.pread").returncode == 1
    assert iotrail("diff", a, b, "--again", wild, "--fail-on", "latency.pread").returncode == 0


def test_files_are_matched_below_the_common_directory() -> None:
    a = {"/srv/app/x/1": row(1), "/srv/app/y": row(2), "/proc/self/maps": row(3), "/srv/app/old": row(9)}
    b = {"/mnt/t/x/1": row(1), "/mnt/t/y": row(5), "/proc/self/maps": row(3), "/mnt/t/new": row(8)}
    files = match_files(a, b)
    assert (files.root_a, files.root_b) == ("/srv/app/", "/mnt/t/")
    assert {(p.a, p.b) for p in files.both} == {
        ("/srv/app/x/1", "/mnt/t/x/1"),
        ("/srv/app/y", "/mnt/t/y"),
        ("/proc/self/maps", "/proc/self/maps"),
    }
    assert [p.name for p in files.changed] == ["y"]
    assert [f.name for f in files.only_a] == ["/srv/app/old"] and [f.name for f in files.only_b] == [
        "/mnt/t/new"
    ]


def test_files_are_matched_as_told_and_by_the_form_of_temporary_names() -> None:
    files = match_files({"/a/b/data": row(1)}, {"/c/data": row(1), "/c/other/z": row(1)}, [("/a/b", "/c")])
    assert [(p.a, p.b) for p in files.both] == [("/a/b/data", "/c/data")]
    files = match_files({"/tmp/sort.4711": row(1)}, {"/tmp/sort.99": row(1)})
    assert [(p.a, p.b) for p in files.both] == [("/tmp/sort.4711", "/tmp/sort.99")]


def test_a_run_in_another_directory_has_the_same_files(make: Make) -> None:
    moved = {file: path.replace("/srv/run", "/mnt/elsewhere") for file, path in drifting_runs.PATHS.items()}
    result = compared(make(0), make(1, paths=moved))
    assert result.files is not None and len(result.files.both) == 2 and not result.files.only_b
    assert result.found == []


def test_command(make: Make, tmp_path: Path) -> None:
    a, b = make(0), make(1, slower={"pread": 1.1})
    done = iotrail("diff", a, b)
    assert done.returncode == 0 and "Beyond noise" in done.stdout and done.stdout.count("pread") >= 2
    data = json.loads(iotrail("diff", a, b, "--json").stdout)
    assert data["found"][0]["subject"] == "pread" and data["run_time"]["a"] > 0
    assert all(d["q"] is None or d["q"] >= d["p"] for d in data["not_shown_to_be_more_than_noise"])


def test_fail_on(make: Make) -> None:
    a, b, same = make(0), make(1, slower={"pread": 1.1}), make(1)

    def gated(one: Path, other: Path, *gates: str) -> subprocess.CompletedProcess[str]:
        return iotrail("diff", one, other, *(word for gate in gates for word in ("--fail-on", gate)))

    refusing = ("any", "latency", "latency.pread:5%", "latency.pread:0.05")
    done = gated(a, b, *refusing)
    assert done.returncode == 1
    for gate, said in zip(refusing, done.stderr.splitlines(), strict=True):
        assert said.startswith(f"--fail-on {gate}: latency: pread"), done.stderr
    assert gated(a, same, *refusing).returncode == 0
    passing = ("latency.pread:50%", "latency.read", "calls", "bytes", "errors", "size", "pattern", "files")
    assert gated(a, b, *passing).returncode == 0
    slow = make(1, machine=1.5)
    assert gated(a, slow, "slower:30%").returncode == 1
    assert gated(slow, a, "slower:5%").returncode == 0, "faster is not slower"
    done = gated(a, make(1, fsync_every=50), "calls.fsync")
    assert done.returncode == 1 and "fsync, calls: +100.0%" in done.stderr


def test_usage(make: Make, tmp_path: Path) -> None:
    a = make(0)
    for options, says in (
        (["--fail-on", "speed"], "no metric 'speed'"),
        (["--fail-on", "slower:x"], "expected a share, found 'x'"),
        (["--min-effect", "5"], "expected a share, found '5'"),
        (["--map", "/a"], "expected FROM=TO"),
        (["--html", tmp_path], "is a directory"),
    ):
        done = iotrail("diff", a, a, *options)
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


def test_one_call_each_can_not_be_judged(make: Make, tmp_path: Path) -> None:
    def once(dur: int, name: str) -> Path:
        row = {"ts": [5], "dur": [dur], "node": ["n"], "thread": [1], "crumb": [0], "call": ["fsync"],
               "file": [7], "result": [0], "errno": [0], "calls": [1]}  # fmt: skip
        return drifting_runs.write({"file_op": pa.table(row)}, tmp_path / name)

    result = compared(once(10**6, "a.trail"), once(10**9, "b.trail"))
    assert result.found == [] and result.unproven[0].p is None
    assert "too few to judge" in iotrail("diff", result.a, result.b).stdout


def test_page(make: Make, tmp_path: Path) -> None:
    page_file = tmp_path / "d.html"
    a, b = make(0), make(1, slower={"pread": 1.1})
    assert iotrail("diff", a, b, "--html", page_file).returncode == 0
    assert iotrail("diff", a, b, "--html", page_file).returncode == 0, "its own page may be replaced"
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
            assert figures.filter(has_text="pread · changed").locator("polyline").count() == 2
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        browser.close()
    assert asked == [page_file.as_uri()] * 2 and len(backgrounds) == 2
