"""Sweeps that choose what they measure: the choice follows from what was measured, and what is found is what is there."""

import contextlib
import io
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotrail import native
from iotrail.anomaly.pursuit import Pursuit
from iotrail.cli import app
from iotrail.errors import SweepError, UsageError
from iotrail.sweep.adaptive import choose, stands_out
from iotrail.sweep.plan import plan
from iotrail.trail import Trail

from ..anomaly import planted

# 1,260 settings; a half is lost from depth 8 on under bfq. Each setting is up to a hundredth off, by a hash of it.
SPEC = """
expect = "expect.py:rate"

[target]
command = "{command}"

[workload.depth]
values = [1, 2, 4, 8, 16, 32]

[workload.stream]
values = [1, 2, 3, 4, 5, 6, 7]

[workload.run]
values = [1, 2, 3, 4, 5]

[workload.think]
values = [1, 2]

[system.scheduler]
values = ["none", "bfq", "kyber"]
set = "echo {{value}} > {file}"
get = "cat {file}"
"""
OFF = "n=$(({depth} * 7 + {stream} * 5 + {run} * 3 + {think} * 11)); n=$((n * n % 10)); "
COMMAND = OFF + "test {depth} -ge 8 -a $(cat FILE) = bfq && echo $((500 + n)) || echo $((1000 + n))"
QUIET = OFF + "echo $((1000 + n))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a specification, an expectation, and a file that holds the setting."""
    (tmp_path / "scheduler").write_text("mq-deadline\n")
    (tmp_path / "expect.py").write_text("def rate(setting):\n    return 1005\n")
    specify(tmp_path, COMMAND)
    return tmp_path


def specify(folder: Path, command: str, before: str = "") -> None:
    file = str(folder / "scheduler")
    (folder / "x.toml").write_text(before + SPEC.format(command=command.replace("FILE", file), file=file))


def iotrail(folder: Path, *words: str) -> str:
    """What the command line prints, in this process: starting one each time takes longer than most of what it does."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        app(list(words), standalone_mode=False)
    return printed.getvalue()


def answer(folder: Path, *words: str) -> Any:
    """The JSON that a verb prints."""
    return json.loads(iotrail(folder, *words, "--json"))


def purposes(path: Path) -> Counter[str]:
    return Counter(row["purpose"] for row in Trail(path).rows_of("SELECT purpose FROM sweep_sample"))


def chosen(path: Path) -> list[tuple[int, str]]:
    """Settings in the order in which they were measured, and why."""
    rows = Trail(path).rows_of("SELECT setting, purpose FROM measurement ORDER BY ts")
    return [(row["setting"], row["purpose"]) for row in rows]


def bounds(cluster: Any) -> list[tuple[str, str]]:
    return [(bound["dimension"], bound["text"]) for bound in cluster["bounds"]]


def test_an_adaptive_sweep_finds_and_confirms_and_goes_on(folder: Path) -> None:
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail", "--adaptive", "48")
    assert (done["settings"], done["samples"]) == (1260, 48)
    assert done["purposes"]["confirm"] == 6
    assert done["purposes"]["uniform"] >= 16
    assert done["purposes"]["adaptive"] > 16
    assert purposes(folder / "x.trail") == done["purposes"]
    assert done["hidden"] == pytest.approx(1 - 0.05 ** (1 / done["purposes"]["uniform"]))
    assert (folder / "scheduler").read_text() == "mq-deadline\n"
    found = answer(folder, "anomalies", "x.trail")
    (cluster,) = found["clusters"]
    assert bounds(cluster) == [("depth", "8 and above"), ("scheduler", "bfq")]
    assert (found["samples"], found["confirming"], cluster["pairs"]) == (42, 6, 3)
    assert cluster["uniform"] < cluster["samples"]
    assert found["hidden"] == done["hidden"]
    said = iotrail(folder, "anomalies", "x.trail")
    assert f"42 ({found['uniform']} uniform, {42 - found['uniform']} chosen, beside 6 in pairs) of" in said
    assert "may have no uniform sample (95 %)" in said
    it_goes_on(folder)
    clusters_are_confirmed(folder)


def end_early(folder: Path, trail: str, number: int, purpose: str = "") -> list[dict[str, Any]]:
    """The first measurements of a trail as the lines of a journal."""
    rows = Trail(folder / trail).rows_of(
        "SELECT ts, dur, purpose, value, setting FROM measurement ORDER BY ts"
    )
    values: dict[int, dict[str, Any]] = {}
    for row in Trail(folder / trail).rows_of("SELECT setting, dimension, word, number FROM setting"):
        value = row["number"] if row["word"] is None else row["word"]
        values.setdefault(row["setting"], {})[row["dimension"]] = value
    dimensions = plan(folder / "x.toml", adaptive=48).space.dimensions
    return [
        {
            **{name: row[name] for name in ("purpose", "ts", "dur", "value")},
            "setting": [one.values.index(values[row["setting"]][one.name]) for one in dimensions],
        }
        for row in rows
        if row["purpose"].startswith(purpose)
    ][:number]


def write_journal(folder: Path, trail: str, lines: list[dict[str, Any]], **more: int) -> None:
    """The journal of a sweep that ended early."""
    first = {"sweep": 1, "spec": (folder / "x.toml").read_text(), "path": "x.toml", "seed": 1, **more}
    (folder / f"{trail}.sweep").write_text("".join(json.dumps(line) + "\n" for line in [first, *lines]))


def it_goes_on(folder: Path) -> None:
    """A sweep that ended early chooses what the whole one has chosen, with N from its journal."""
    write_journal(folder, "y.trail", end_early(folder, "x.trail", 31), adaptive=48)
    done = answer(folder, "sweep", "x.toml", "-o", "y.trail", "--resume")
    assert done["samples"] == 48
    assert chosen(folder / "y.trail") == chosen(folder / "x.trail")


def clusters_are_confirmed(folder: Path) -> None:
    """Pairs for each face: into a new trail, then into the trail itself."""
    before = answer(folder, "anomalies", "x.trail")
    found = answer(folder, "sweep", "--confirm", "x.trail", "-o", "z.trail", "--pairs", "4")
    assert answer(folder, "anomalies", "x.trail") == before
    (cluster,) = found["clusters"]
    assert bounds(cluster) == bounds(before["clusters"][0])
    depth, scheduler = cluster["faces"]
    assert (depth["dimension"], depth["inside"], depth["outside"]) == ("depth", "8", "4")
    assert (scheduler["dimension"], scheduler["inside"]) == ("scheduler", "bfq")
    assert set(scheduler["outside"].split(" or ")) <= {"none", "kyber"}
    assert [face["is_confirmed"] for face in cluster["faces"]] == [True, True]
    assert all(face["loss"] == pytest.approx(0.5, abs=0.02) for face in cluster["faces"])
    # Three pairs of the sweep, four of each face.
    assert cluster["pairs"] == sum(face["pairs"] for face in cluster["faces"]) == 11
    assert purposes(folder / "z.trail")["confirm"] == 22
    # What ended early after seven measurements measures the others.
    of_sweep = purposes(folder / "x.trail")["confirm"]
    confirming = end_early(folder, "z.trail", 99, purpose="confirm")
    write_journal(folder, "w.trail", confirming[of_sweep:][:7])
    with pytest.raises(SweepError, match="a confirmation ended early"):
        iotrail(folder, "sweep", "--confirm", "x.trail", "-o", "w.trail", "--pairs", "4")
    answer(folder, "sweep", "--confirm", "x.trail", "-o", "w.trail", "--pairs", "4", "--resume")
    assert chosen(folder / "w.trail") == chosen(folder / "z.trail")
    said = iotrail(folder, "sweep", "--confirm", "z.trail", "--pairs", "2")
    assert "confirmed: depth 8 beside 4: " in said
    assert purposes(folder / "z.trail")["confirm"] == 30
    assert not (folder / "z.trail.sweep").exists()
    assert (folder / "scheduler").read_text() == "mq-deadline\n"
    subprocess.run([native.binary(), "trail", "check", folder / "z.trail"], check=True, capture_output=True)


def test_a_quiet_adaptive_sweep_is_uniform(folder: Path) -> None:
    specify(folder, QUIET, "adaptive = 24\n")
    done = answer(folder, "sweep", "x.toml", "-o", "x.trail")
    assert done["purposes"] == {"uniform": 24}
    found = answer(folder, "anomalies", "x.trail")
    assert (found["clusters"], found["unproven"], found["uniform"]) == ([], 0, 24)
    with pytest.raises(SweepError, match=r"x.trail: has no cluster to confirm"):
        iotrail(folder, "sweep", "--confirm", "x.trail")


def test_what_an_adaptive_sweep_would_measure(folder: Path) -> None:
    said = answer(folder, "sweep", "x.toml", "--dry", "--adaptive", "100")
    assert (said["samples"], said["uniform"]) == (100, 34)
    said = iotrail(folder, "sweep", "x.toml", "--dry", "--adaptive", "100")
    assert "34 are drawn at random, the others follow from what is measured." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["x.toml", "-o", "x.trail", "--samples", "3", "--adaptive", "3"],
            "--samples can't be combined with --adaptive",
        ),
        (["--confirm", "x.trail", "--adaptive", "3"], "--confirm can't be combined with --adaptive"),
        (["x.toml", "--confirm", "x.trail"], "--confirm can't be combined with SPEC.toml"),
        (["x.toml", "-o", "x.trail", "--pairs", "3"], "--pairs needs --confirm"),
    ],
)
def test_options_that_contradict(folder: Path, words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        iotrail(folder, "sweep", *words)


def test_specifications_that_contradict(folder: Path) -> None:
    specify(folder, COMMAND, "samples = 3\nadaptive = 3\n")
    with pytest.raises(UsageError, match="samples and adaptive can't be combined"):
        plan(folder / "x.toml")
    specify(folder, COMMAND)
    text = (folder / "x.toml").read_text()
    (folder / "x.toml").write_text(text.replace('expect = "expect.py:rate"', ""))
    with pytest.raises(UsageError, match="an adaptive sweep needs an expectation"):
        plan(folder / "x.toml", adaptive=30)


def test_losses_stand_out() -> None:
    rng = np.random.default_rng(1)
    assert not stands_out(rng.normal(0, 0.03, 100))
    assert not stands_out(rng.normal(0.3, 0.03, 100))
    assert not stands_out(np.array([0.5]))
    assert stands_out(np.append(rng.normal(0, 0.03, 100), 0.2))
    # What varies by a tenth is not unlike the others for being two of it off.
    assert not stands_out(np.append(rng.normal(0, 0.1, 100), 0.25))


def test_a_batch_asks_what_samples_leave_open() -> None:
    space = planted.paper_space()
    box, loss = planted.causes(space)["cancel"]
    samples = planted.sample(space, [(box, loss)], seed=2, number=50)
    pursuit = Pursuit(space, samples.codes, samples.losses)
    fit = pursuit.run()
    batches = [choose(pursuit, fit, space.feasible, 10, np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*batches)
    assert len(np.unique(batches[0], axis=0)) == 10
    # Those that differ most: near the cause's faces, not all over the space.
    near = planted.box(space, concurrency=(32, None))
    assert space.contains(near, batches[0]).mean() > space.contains(near, space.feasible).mean() + 0.2
    # Nothing is open without a loss.
    quiet = planted.sample(space, [], seed=2, number=50)
    pursuit = Pursuit(space, quiet.codes, quiet.losses)
    assert len(choose(pursuit, pursuit.run(), space.feasible, 10, np.random.default_rng(3))) == 0
