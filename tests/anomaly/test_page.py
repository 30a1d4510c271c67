"""The page of anomalies: when samples were measured, how to see their requests, and what their normal neighbours are."""

import html
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrail import report
from iotrail.anomaly import answer, page, text
from iotrail.anomaly.space import Dimension, Space
from iotrail.anomaly.window import Window, read_windows, report_command
from iotrail.moments import moment, written
from iotrail.page import Html
from iotrail.trail import Trail
from tests.anomaly import sweep_trail
from tests.sql.tiny import ingest

NATIVE = Path(__file__).parents[2] / "python/iotrail/_native/iotrail-native"


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep_trail.with_requests(tmp_path_factory)


def rows_of(content: str) -> list[tuple[list[str], str]]:
    """The rows of the tables of samples: their cells, and what is below each."""
    found = re.findall(
        r"<tr>((?:(?!</tr>).)*)</tr><tr><td class=\"left whole\"[^>]*><div>(.*?)</div></td></tr>", content
    )
    return [(re.findall(r"<td[^>]*>(.*?)</td>", cells), html.unescape(below)) for cells, below in found]


def test_each_sample_leads_to_its_requests(trail: Path, tmp_path: Path) -> None:
    written_to = tmp_path / "x.html"
    subprocess.run(
        [sys.executable, "-m", "iotrail", "anomalies", trail, "--html", written_to],
        check=True,
        capture_output=True,
    )
    rows = rows_of(written_to.read_text())
    assert len(rows) > 8 and [row[0][0] for row in rows] == [
        word for number in range(1, len(rows) // 2 + 1) for word in (str(number), "normal")
    ]
    opened = Trail(trail)
    (start,) = opened.rows_of("SELECT start_ts FROM trail_span")
    measured: dict[tuple[float, float, str], dict[str, Any]] = {
        (row["depth"], row["stream"], row["scheduler"]): row
        for row in opened.rows_of(
            """SELECT m.ts, m.dur,
                (SELECT number FROM setting s WHERE s.setting = m.setting AND dimension = 'depth') AS depth,
                (SELECT number FROM setting s WHERE s.setting = m.setting AND dimension = 'stream') AS stream,
                (SELECT word FROM setting s WHERE s.setting = m.setting AND dimension = 'scheduler') AS scheduler
            FROM measurement m ORDER BY m.ts DESC"""
        )
    }
    streams = {"64.0 KiB": 65536.0, "256 KiB": 262144.0, "1.00 MiB": 1048576.0}
    with_requests = 0
    for (_, depth, stream, scheduler, *_), below in rows:
        plain = [re.sub("</?b>", "", cell) for cell in (depth, stream, scheduler)]
        one = measured[float(plain[0]), streams[plain[1]], plain[2]]
        assert below.startswith(f"measured at {written(one['ts'])} for ")
        commands = re.findall("<code>(.*)</code>", below)
        assert len(commands) == (plain[2] != sweep_trail.WITHOUT)
        for command in commands:
            words = shlex.split(command)
            assert words[:3] == ["iotrail", "report", str(trail)]
            since, until = words[words.index("--from") + 1], words[words.index("--to") + 1]
            assert moment(since, start["start_ts"], "--from") == one["ts"]
            assert moment(until, start["start_ts"], "--to") == one["ts"] + one["dur"]
            part = Trail(trail)
            report.cut(part, since, until)
            assert part.rows_of("SELECT count(*) AS n FROM disk_op") == [{"n": sweep_trail.REQUESTS}]
            with_requests += 1
    assert 0 < with_requests < len(rows)


def test_normal_neighbours_are_nearest(trail: Path) -> None:
    """Each by a search through all samples; what differs is bold."""
    opened = Trail(trail)
    samples = answer.read(opened)
    found = answer.find(samples, "x.trail")
    (cluster,) = found.clusters
    rows = rows_of(page.render(found, samples, read_windows(opened), lambda window: Html("r")).decode())
    depths = [str(value) for value in samples.space.dimensions[0].values]
    streams = ["64.0 KiB", "256 KiB", "1.00 MiB"]
    schedulers = ["none", "bfq", "kyber"]

    def steps(one: Any, other: Any) -> tuple[int, int]:
        apart = [abs(one[0] - other[0]), abs(one[1] - other[1]), int(one[2] != other[2])]
        return sum(step > 0 for step in apart), sum(apart)

    outside = samples.codes[~samples.space.contains(cluster.box, samples.codes)]
    assert len(rows) >= 8
    for (short, _), (normal, _) in zip(rows[::2], rows[1::2], strict=True):
        codes = [
            (
                depths.index(re.sub("</?b>", "", row[1])),
                streams.index(re.sub("</?b>", "", row[2])),
                schedulers.index(re.sub("</?b>", "", row[3])),
            )
            for row in (short, normal)
        ]
        assert steps(*codes) == min(steps(codes[0], other) for other in outside.tolist())
        bold = [cell.startswith("<b>") for cell in normal[1:4]]
        assert bold == [one != other for one, other in zip(*codes, strict=True)] and any(bold)
        assert (short[-1], normal[-1]) == ("50.0 %", "0.0 %")


def test_without_a_normal_sample_it_says_so(trail: Path) -> None:
    """What reaches twice of what is expected is no measure, either."""
    opened = Trail(trail)
    samples = answer.read(opened)
    found = answer.find(samples, "x.trail")
    inside = samples.space.contains(found.clusters[0].box, samples.codes)
    odd = replace(samples, losses=np.where(inside, samples.losses, -np.log(2)))
    content = page.render(found, odd, read_windows(opened), lambda window: Html("r")).decode()
    assert "there is none to compare with" in content
    assert {row[0][0].isdigit() for row in rows_of(content)} == {True}


def test_samples_of_which_nothing_is_expected_are_counted(trail: Path) -> None:
    samples = answer.read(Trail(trail))
    assert answer.find(samples, "x.trail").unjudged == 0
    unknown = np.arange(len(samples.ids)) < 5
    changed = replace(
        samples,
        target_expected=np.where(unknown, np.nan, samples.target_expected),
        losses=np.where(unknown, np.nan, samples.losses),
    )
    found = answer.find(changed, "x.trail")
    assert (found.samples, found.unjudged) == (len(samples.ids) - 5, 5)
    said = "Of 5 more samples is not known what to expect."
    assert said in text.lines(found)
    content = page.render(found, changed, read_windows(Trail(trail)), lambda window: Html("r"))
    assert said in content.decode()


def test_a_neighbour_differs_in_few_dimensions_first() -> None:
    space = Space(
        (
            Dimension("n", (1, 2, 4, 8)),
            Dimension("m", (1, 2, 4)),
            Dimension("w", ("a", "b", "c", "d"), is_ordered=False),
        ),
        np.zeros((1, 3), int),
    )
    code = np.array([0, 0, 0])
    assert space.nearest(code, np.array([[1, 1, 0], [3, 0, 0]])) == 1
    assert space.nearest(code, np.array([[3, 0, 0], [1, 1, 0], [0, 2, 0]])) == 2
    # a value without an order is one step away, wherever it stands
    assert space.nearest(code, np.array([[2, 0, 0], [0, 0, 3]])) == 1


def test_windows_are_first_measurements_that_count(tmp_path: Path) -> None:
    """The failed one isn't; requests of another machine, or between measurements, are none of it."""
    s = 10**9
    measurements = {
        "ts": [1 * s, 2 * s, 4 * s, 6 * s, 8 * s],
        "dur": [s] * 5,
        "node": ["n"] * 5,
        "setting": [1, 1, 1, 2, 3],
        "purpose": ["uniform", "uniform", "again", "uniform", "uniform"],
        "value": [None, 5.0, 6.0, 7.0, 8.0],
        "detail": ["timeout", None, None, None, None],
    }
    requests = {"ts": [2 * s + 5, 5 * s + 1, 6 * s + 5, 9 * s], "node": ["n", "n", "other", "n"]}
    others = {
        "dur": 5, "thread": 0, "crumb": 0, "kind": "kernel", "dev": "sda", "op": "read", "pos": 0, "length": 512, "merged": 0,
    }  # fmt: skip
    trail = ingest(
        NATIVE,
        {
            "file_op": pa.table({"ts": pa.array([], pa.int64())}),
            "measurement": pa.table(measurements),
            "disk_op": pa.table({**requests, **{name: [value] * 4 for name, value in others.items()}}),
        },
        tmp_path / "x.trail",
    )
    windows = read_windows(Trail(trail))
    assert windows.of == {
        1: Window(2 * s, s, 2, True),
        2: Window(6 * s, s, 1, False),
        3: Window(8 * s, s, 1, False),
    }
    assert windows.start_ts == 2 * s + 5
    # the trail begins with the request, after the measurement did
    assert report_command("x.trail", windows.of[1], 2 * s + 5) == (
        "iotrail report x.trail --from +0s --to +0.999999995s"
    )
