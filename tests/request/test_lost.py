"""What was lost is said beside every answer that lacks it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from iotrail.cli import app

from .conftest import MakeTrail


def trail(make: MakeTrail, lost: int) -> Path:
    """A hundred requests in two steps each, a disk's I/O for each, and as many records lost as said."""
    rows = {
        "service_op": [
            {"crumb": n, "ts": n * 1000, "dur": 500, "client": "a", "kind": "server"} for n in range(1, 101)
        ],
        "disk_op": [
            {"crumb": n, "ts": n * 1000 + 100, "dur": 200, "kind": "program", "length": 10}
            for n in range(1, 101)
        ],
        "unseen": [{"kind": "dropped", "amount": lost, "detail": "records nobody wrote away"}]
        if lost
        else [],
    }
    return make(rows)


VERBS = {
    "demand": [],
    "graph": [],
    "explain": ["--client", "a"],
    "path": ["--slowest", "1"],
    "arrivals": [],
}


@pytest.mark.parametrize("verb", VERBS)
def test_loss_is_said(make: MakeTrail, verb: str) -> None:
    """At 90 % lost each answer says so, on standard error, also beside JSON."""
    path = trail(make, 1800)
    for json_too in ([], ["--json"]):
        done = CliRunner().invoke(app, [verb, str(path), *VERBS[verb], *json_too], catch_exceptions=False)
        assert done.exit_code == 0
        assert "lost: 1,800 of 2,000 records (90 %): records nobody wrote away" in done.stderr
        if json_too:
            json.loads(done.stdout)
        else:
            assert "lost:" not in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_said_where_nothing_is_lost(make: MakeTrail, verb: str) -> None:
    done = CliRunner().invoke(app, [verb, str(trail(make, 0)), *VERBS[verb]], catch_exceptions=False)
    assert done.exit_code == 0 and "lost" not in done.output


def test_explain_says_it_in_its_first_sentence(make: MakeTrail) -> None:
    found = json.loads(
        CliRunner().invoke(app, ["explain", str(trail(make, 1800)), "--client", "a", "--json"]).stdout
    )
    assert found["verdict"]["text"].endswith("of what was recorded 90% is lost, so this may be wrong")
    assert found["lost"] and "90 %" in found["lost"][0]


@pytest.mark.parametrize("verb", ["graph", "explain", "path"])
def test_pages_say_it(make: MakeTrail, tmp_path: Path, verb: str) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, [verb, str(trail(make, 1800)), *VERBS[verb], "--html", str(page)])
    assert done.exit_code == 0
    assert "1,800 of 2,000 records" in page.read_text()
