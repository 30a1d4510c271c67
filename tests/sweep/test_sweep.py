"""Whole sweeps by the command line: what they measure, how they end, and what `iotrail anomalies` says of them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from iotrail.anomaly.answer import find, read
from iotrail.errors import IotrailError, UsageError
from iotrail.sweep.plan import plan
from iotrail.sweep.targets import Measured
from iotrail.trail import Trail

STACK = Path(__file__).parents[2] / "examples" / "anomaly" / "stack.toml"
# A command whose answer is 1,000, half of that from depth 8 on under bfq.
SPEC = """
samples = 60
expect = "expect.py:rate"
constraints = ["run <= stream"]

[target]
command = "{command}"
unit = "bytes/s"

[workload.depth]
values = [1, 2, 4, 8, 16, 32]

[workload.stream]
values = ["64KiB", "256KiB", "1MiB"]

[workload.run]
values = ["64KiB", "256KiB", "1MiB"]

[system.scheduler]
values = ["none", "bfq", "kyber"]
set = "echo {{value}} > {file}"
get = "cat {file}"
"""
COMMAND = "test {depth} -ge 8 -a $(cat FILE) = bfq && echo 500 || echo 1000 # {stream} {run}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a specification, an expectation, and a file that holds the setting."""
    (tmp_path / "scheduler").write_text("mq-deadline\n")
    (tmp_path / "expect.py").write_text("def rate(setting):\n    return 1000\n")
    specify(tmp_path)
    return tmp_path


def specify(folder: Path, command: str = COMMAND, **changed: str) -> None:
    """Writes x.toml; `changed` replaces texts of it."""
    file = str(folder / "scheduler")
    text = SPEC.format(command=command.replace("FILE", file), file=file)
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "x.toml").write_text(text)


def iotrail(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command line, in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "iotrail", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def answer(folder: Path, *words: str) -> Any:
    """The JSON that a verb prints."""
    done = iotrail(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def samples(path: Path) -> Mapping[int, float]:
    """Settings and what was measured there."""
    rows = Trail(path).rows_of("SELECT setting, value FROM sweep_sample")
    return {row["setting"]: row["value"] for row in rows}


def test_a_sweep_finds_where_it_is_slow(folder: Path) -> None:
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert (done["settings"], done["samples"], done["states"]) == (108, 60, {"ok": 60})
    assert (folder / "scheduler").read_text() == "mq-deadline\n"
    assert not (folder / "x.trail.sweep").exists()
    found = answer(folder, "anomalies", "x.trail")
    assert found["samples"] == 60
    (cluster,) = found["clusters"]
    assert [(bound["dimension"], bound["text"]) for bound in cluster["bounds"]] == [
        ("depth", "8 and above"),
        ("scheduler", "bfq"),
    ]
    assert cluster["loss"] == pytest.approx(0.5)
    assert cluster["share"] == pytest.approx(1 / 6)
    assert cluster["chance"] <= 0.01
    paper = answer(folder, "anomalies", "x.trail", "--method", "paper", "--epsilon", "1")
    assert paper["clusters"][0]["loss"] == pytest.approx(0.5)
    said = iotrail(folder, "anomalies", "x.trail", "--html", "x.html").stdout
    assert "1. 50.0 % short" in said
    assert "depth      8 and above" in said
    assert '<td class="left wrap">depth</td>' in (folder / "x.html").read_text()
    is_a_trail(folder)


def is_a_trail(folder: Path) -> None:
    """The measurements of a sweep are rows, and the trail is sound."""
    trail = Trail(folder / "x.trail")
    (row,) = trail.rows_of(
        "SELECT count(*) AS n, min(dur) AS least, max(ts + dur) - min(ts) AS whole, sum(dur) AS busy FROM measurement"
    )
    assert row["n"] == 60
    assert row["least"] > 0
    assert row["busy"] <= row["whole"]
    # Within the last minutes.
    (now,) = trail.rows_of("SELECT max(ts) AS ts FROM measurement")
    assert abs(now["ts"] - time.time_ns()) < 600e9
    values = trail.rows_of("SELECT DISTINCT word FROM setting WHERE dimension = 'scheduler' ORDER BY word")
    assert [row["word"] for row in values] == ["bfq", "kyber", "none"]
    checked = iotrail(folder, "trail", "check", "x.trail")
    assert checked.returncode == 0, checked.stderr


def test_a_quiet_sweep_has_no_cluster(folder: Path) -> None:
    specify(folder, "echo $((1000 + {depth} % 3)) # {stream} {run}")
    answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert answer(folder, "anomalies", "x.trail")["clusters"] == []
    said = iotrail(folder, "anomalies", "x.trail").stdout
    assert "No cluster" in said


@pytest.mark.parametrize("seed", [2, 12])
def test_a_sound_stack_has_no_cluster(tmp_path: Path, seed: int) -> None:
    """Streams lie elsewhere in each measurement. With one seed for all settings, or measured once, some were slow together here."""
    text = STACK.read_text()
    faulty = next(line for line in text.splitlines() if line.startswith("faults"))
    (tmp_path / "stack.toml").write_text(text.replace(faulty, "faults = []"))
    plan(tmp_path / "stack.toml", seed=seed).run(tmp_path / "x.trail", command=["test"])
    found = find(read(Trail(tmp_path / "x.trail")), "x.trail")
    assert found.samples == 400
    assert found.clusters == []


def test_each_measurement_has_a_seed_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [], []
    for seeds in given:

        def measure(setting: Mapping[str, Any], seed: int, seeds: list[int] = seeds) -> Measured:
            seeds.append(seed)
            return Measured(1000.0)

        monkeypatch.setattr("iotrail.sweep.plan.target_of", lambda *_, measure=measure: measure)
        plan(folder / "x.toml").run(folder / "x.trail", command=["test"], force=True)
    assert given[0] == given[1], "the same sweep again"
    assert len(set(given[0])) == len(given[0]) >= 60


def test_times_are_better_if_lower(folder: Path) -> None:
    command = "test {depth} -ge 8 && echo 2000 || echo 1000 # {stream} {run}"
    specify(folder, command, **{'unit = "bytes/s"': 'unit = "ns"\nbetter = "lower"'})
    answer(folder, "sweep", "x.toml", "-o", "x.trail")
    (cluster,) = answer(folder, "anomalies", "x.trail")["clusters"]
    assert [bound["text"] for bound in cluster["bounds"]] == ["8 and above"]
    assert cluster["loss"] == pytest.approx(0.5)


def test_what_is_measured_wrong_is_measured_again(folder: Path) -> None:
    # Every tenth call answers a fifth.
    count = folder / "count"
    count.write_text("0")
    counted = f"n=$(($(cat {count}) + 1)); echo $n > {count}; "
    specify(folder, counted + "test $((n % 10)) = 3 && echo 200 || { " + COMMAND.replace(" #", "; } #"))
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert done["samples"] == 60
    assert done["measurements"] > 60
    again = Trail(folder / "x.trail").rows_of(
        "SELECT DISTINCT setting FROM measurement WHERE purpose = 'again'"
    )
    assert 6 <= len(again) <= 12
    (cluster,) = answer(folder, "anomalies", "x.trail")["clusters"]
    assert [bound["text"] for bound in cluster["bounds"]] == ["8 and above", "bfq"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_sweep_that_is_ended_leaves_nothing_and_goes_on(folder: Path, number: signal.Signals) -> None:
    whole = folder / "whole.trail"
    answer(folder, "sweep", "x.toml", "-o", str(whole), "--samples", "12")
    # From the fifth on it hangs.
    count, pid = folder / "count", folder / "pid"
    count.write_text("0")
    hang = (
        f"n=$(($(cat {count}) + 1)); echo $n > {count}; "
        f"test $n -le 4 || test -e {folder}/go || {{ echo $$ > {pid}; sleep 600; }}; "
    )
    specify(folder, hang + COMMAND)
    sweep = subprocess.Popen(
        [sys.executable, "-m", "iotrail", "sweep", "x.toml", "-o", "x.trail", "--samples", "12"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(pid.exists)
    assert (folder / "scheduler").read_text() != "mq-deadline\n"
    os.kill(sweep.pid, number)
    assert sweep.wait() != 0
    assert sweep.stderr is not None
    assert number == signal.SIGKILL or "--resume goes on" in sweep.stderr.read()
    wait_for(lambda: (folder / "scheduler").read_text() == "mq-deadline\n")
    wait_for(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
    assert not (folder / "x.trail").exists()
    assert "a sweep ended early" in iotrail(folder, "sweep", "x.toml", "-o", "x.trail").stderr
    (folder / "go").touch()
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "12", "--resume")
    assert done["samples"] == 12
    assert samples(folder / "x.trail") == samples(whole)
    # Four had been measured, and the fifth hung.
    assert int(count.read_text()) == done["measurements"] + 1


def test_a_setting_that_is_being_made_is_put_back(folder: Path) -> None:
    """By what was begun last: what a killed sweep had begun ends before."""
    log, begun, journal = folder / "log", folder / "begun", folder / "x.trail.sweep"
    slowly = f"echo {{value}} >> {begun}; test {{value}} = mq-deadline || sleep 2; echo {{value}} | tee -a {log} > {{file}}"
    specify(folder, **{"echo {value} > ": slowly.replace("{file}", "")})
    words = ["sweep", "x.toml", "-o", "x.trail", "--samples", "12"]
    sweep = subprocess.Popen([sys.executable, "-m", "iotrail", *words], cwd=folder)
    # by the second one the process that cleans up has started
    wait_for(lambda: begun.exists() and len(begun.read_text().split()) == 2)
    sweep.kill()
    sweep.wait()
    wait_for(lambda: journal.read_text().endswith('{"restored": true}\n'))
    assert log.read_text().split() == begun.read_text().split()
    assert (folder / "scheduler").read_text() == "mq-deadline\n"


def wait_for(happens: Any) -> None:
    """Waits until something is so."""
    for _ in range(200):
        if happens():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def test_settings_are_put_back_after_a_power_cut(folder: Path) -> None:
    file = folder / "scheduler"
    lines = [
        {"sweep": 1, "spec": (folder / "x.toml").read_text(), "path": "x.toml", "seed": 1},
        {"restore": f"echo mq-deadline > {file}"},
    ]
    # The last line was cut off.
    journal = "".join(json.dumps(line) + "\n" for line in lines) + '{"setting": [1, 0'
    (folder / "x.trail.sweep").write_text(journal)
    file.write_text("bfq\n")
    assert iotrail(folder, "sweep", "--restore", "x.trail").stdout == "iotrail: 1 settings put back\n"
    assert file.read_text() == "mq-deadline\n"
    assert iotrail(folder, "sweep", "--restore", "x.trail").stdout == "iotrail: nothing to put back\n"
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail", "--resume", "--samples", "3")
    assert done["samples"] == 3


def test_what_would_be_measured(folder: Path) -> None:
    said = iotrail(folder, "sweep", "x.toml", "--dry").stdout
    assert "108 settings (depth 6, stream 3, run 3, scheduler 3), of which 60 are measured." in said
    assert re.search(r"^  depth \d+, stream [\d.]+ [KM]iB, run [\d.]+ [KM]iB, scheduler \w+$", said, re.M)
    assert (folder / "scheduler").read_text() == "mq-deadline\n"
    assert answer(folder, "sweep", "x.toml", "--dry", "--samples", "500")["samples"] == 108


def test_an_older_sweep_is_what_is_expected(folder: Path) -> None:
    specify(folder, "echo 1000 # {depth} {stream} {run}")
    answer(folder, "sweep", "x.toml", "-o", "old.trail")
    specify(folder, **{'expect = "expect.py:rate"': 'expect = "old.trail"'})
    answer(folder, "sweep", "x.toml", "-o", "x.trail")
    (cluster,) = answer(folder, "anomalies", "x.trail")["clusters"]
    assert [bound["text"] for bound in cluster["bounds"]] == ["8 and above", "bfq"]
    compared = answer(folder, "anomalies", "x.trail", "--compare", "old.trail")
    assert compared["clusters"] == [cluster]
    # What got faster is no regression.
    assert answer(folder, "anomalies", "old.trail", "--compare", "x.trail")["clusters"] == []


def test_a_mended_expectation_needs_no_new_sweep(folder: Path) -> None:
    answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert len(answer(folder, "anomalies", "x.trail")["clusters"]) == 1
    (folder / "mended.py").write_text(
        "def rate(setting):\n    return 500 if setting['depth'] >= 8 and setting['scheduler'] == 'bfq' else 1000\n"
    )
    mended = answer(folder, "anomalies", "x.trail", "--expect", "mended.py:rate")
    assert (mended["clusters"], mended["anomalous"]) == ([], 0)
    assert mended["reference"] == "mended.py:rate expects"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expect", "none.py:rate"], "there is no file none.py"),
        (["--expect", "expect.py"], "expect: expected FILE.py:FUNCTION, OLD.trail, found 'expect.py'"),
        (["--expect", "expect.py:rate", "--compare", "x.trail"], "--expect can't be combined with --compare"),
    ],
)
def test_mended_expectations_that_are_not_there(folder: Path, options: list[str], said: str) -> None:
    answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "3")
    done = iotrail(folder, "anomalies", "x.trail", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_expectation_of_the_application_alone_says_nothing_of_layers(folder: Path) -> None:
    (folder / "stack.toml").write_text(
        'samples = 30\nexpect = "stack"\n[target]\nsimulator = "stack"\n'
        '[workload.concurrency]\nvalues = [1, 4, 16]\n[workload.run]\nvalues = ["16KiB", "64KiB"]\n'
        '[system.prefetch]\nvalues = ["off", "on"]\n[system.scheduler]\nvalues = ["elevator", "anticipatory"]\n'
    )
    answer(folder, "sweep", "stack.toml", "-o", "x.trail")
    (folder / "far.py").write_text("def rate(setting):\n    return 1e12\n")
    (cluster,) = answer(folder, "anomalies", "x.trail", "--expect", "far.py:rate")["clusters"][:1]
    assert cluster["layers"] == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rate": "speed"}, r"expect.py has no function speed"),
        ({"expect.py:rate": "else.py:rate"}, r"there is no file .*else.py"),
        ({"expect.py:rate": "paper"}, r"expected FILE.py:FUNCTION, OLD.trail, found 'paper'"),
        ({"expect.py:rate": "old.trail"}, r"old.trail"),
    ],
)
def test_expectations_that_are_not_there(folder: Path, changed: Mapping[str, str], said: str) -> None:
    specify(folder, **changed)
    with pytest.raises(IotrailError, match=said):
        plan(folder / "x.toml")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 0", "expected a number above 0 for depth="),
        ("return float('nan')", "found nan"),
        ("return 'fast'", "found 'fast'"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        (
            "return {'application': {'value': 1}, 'device': {'seek_ns': None}}",
            "device seek_ns: expected a number",
        ),
        ("return {'device': {'seek_ns': 1}}", "expected a number above 0"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_expectations_that_are_none(folder: Path, body: str, said: str) -> None:
    (folder / "expect.py").write_text(f"def rate(setting):\n    {body}\n")
    with pytest.raises(UsageError, match=said):
        plan(folder / "x.toml")


def test_a_target_that_never_answers(folder: Path) -> None:
    specify(folder, "echo broken >&2; exit 3 # {depth} {stream} {run}")
    done = iotrail(folder, "sweep", "x.toml", "-o", "x.trail")
    assert done.returncode == 1
    assert "the first 3 settings could not be measured: ended with status 3: broken" in done.stderr
    assert (folder / "scheduler").read_text() == "mq-deadline\n"


def test_settings_that_fail_are_left_out(folder: Path) -> None:
    specify(folder, "test {depth} = 32 && exit 1; " + COMMAND)
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert done["states"]["failed"] == 60 - done["states"]["ok"] > 0
    found = answer(folder, "anomalies", "x.trail")
    assert found["samples"] == done["states"]["ok"]
    assert found["states"]["failed"] == done["states"]["failed"]
    (failing,) = found["failing"]
    assert failing["failed"] == failing["samples"] == done["states"]["failed"]
    assert [(bound["dimension"], bound["text"]) for bound in failing["bounds"]] == [("depth", "32")]
    (row,) = Trail(folder / "x.trail").rows_of("SELECT DISTINCT detail FROM measurement WHERE value IS NULL")
    assert row["detail"] == "ended with status 1"
    # Each of those is tried twice.
    assert done["failures"] == {"ended with status 1": 2 * done["states"]["failed"]}


def test_why_settings_failed_is_said(folder: Path) -> None:
    specify(folder, "test {depth} = 1 && echo 1000 || echo {depth} {stream} {run}")
    said = iotrail(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "20", "--seed", "3").stdout
    shown = re.findall(r"^  (\d+) failed: expected one number on stdout, found '\d+ \d+ \d+'$", said, re.M)
    assert len(shown) == 3
    (rest,) = re.findall(r"^  … (\d+) failed for other reasons \(table measurement\)$", said, re.M)
    (row,) = Trail(folder / "x.trail").rows_of("SELECT count(*) AS n FROM measurement WHERE value IS NULL")
    assert sum(map(int, shown)) + int(rest) == row["n"]


@pytest.mark.parametrize(("loss", "count"), [("500", 1), ("1000", 0)])
def test_all_samples_alike(folder: Path, loss: str, count: int) -> None:
    specify(folder, f"echo {loss} # {{depth}} {{stream}} {{run}}")
    answer(folder, "sweep", "x.toml", "-o", "x.trail")
    clusters = answer(folder, "anomalies", "x.trail")["clusters"]
    assert [cluster["bounds"] for cluster in clusters] == [[]] * count


def test_one_sample(folder: Path) -> None:
    answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "1")
    assert answer(folder, "anomalies", "x.trail")["clusters"] == []


def test_another_specification_at_resume(folder: Path) -> None:
    journal = {"sweep": 1, "spec": (folder / "x.toml").read_text(), "path": "x.toml", "seed": 1}
    (folder / "x.trail.sweep").write_text(json.dumps(journal) + "\n")
    specify(folder, **{"[1, 2, 4, 8, 16, 32]": "[1, 2, 4, 8, 16]"})
    done = iotrail(folder, "sweep", "x.toml", "-o", "x.trail", "--resume")
    assert done.returncode == 1
    values = "-values = [1, 2, 4, 8, 16, 32]; +values = [1, 2, 4, 8, 16]"
    assert f"x.trail.sweep is of another sweep: {values}\n" in done.stderr
    assert "begin anew with --force" in done.stderr
    done = iotrail(folder, "sweep", "x.toml", "-o", "x.trail", "--resume", "--seed", "2")
    assert done.returncode == 1
    specify(folder)
    done = iotrail(folder, "sweep", "x.toml", "-o", "x.trail", "--resume", "--seed", "2")
    assert "x.trail.sweep is of another sweep: seed was 1, is 2\n" in done.stderr


def test_a_file_that_is_no_journal_is_left_alone(folder: Path) -> None:
    other = folder / "x.trail.sweep"
    other.write_text("notes\n")
    for option in ("--resume", "--force"):
        said = iotrail(folder, "sweep", "x.toml", "-o", "x.trail", option).stderr
        assert "x.trail.sweep:1: expected a line of a sweep's journal, found 'notes'" in said
        assert "move it away" in said
    assert other.read_text() == "notes\n"
    assert (folder / "scheduler").read_text() == "mq-deadline\n"


def test_a_trail_is_not_replaced(folder: Path) -> None:
    answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "1")
    assert "x.trail: exists" in iotrail(folder, "sweep", "x.toml", "-o", "x.trail").stderr
    assert answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "2", "--force")["samples"] == 2


def test_a_trail_without_a_sweep(folder: Path) -> None:
    trace = folder / "x.csv"
    trace.write_text("ts,pos,length,op\n1,0,4096,R\n")
    mapping = "ts=ts,unit=ms,pos=pos,length=length,op=op,read=R,write=W"
    assert iotrail(folder, "import", "csv", "x.csv", "--map", mapping).returncode == 0
    assert "expected the trail of one sweep, found 0" in iotrail(folder, "anomalies", "x.trail").stderr


def test_without_an_expectation(folder: Path) -> None:
    specify(folder, **{'expect = "expect.py:rate"': ""})
    answer(folder, "sweep", "x.toml", "-o", "x.trail", "--samples", "3")
    done = iotrail(folder, "anomalies", "x.trail")
    assert "no setting has both a measured and an expected value" in done.stderr
    assert "name an expectation in the specification" in done.stderr
