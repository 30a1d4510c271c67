"""Every golden of this folder: trail + query -> expected rows. See README.md."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import csv

from iotrail import modules
from iotrail.trail import Trail

HERE = Path(__file__).parent
GOLDENS = sorted(HERE.glob("*/*.sql"))


@pytest.mark.parametrize("query", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(
    query: Path, make_trail: Callable[[Path], Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The query's rows are those expected."""
    text = query.read_text()
    trail = Trail(make_trail(query.parent), dict(re.findall(r"^-- @param (\w+)=(.*)$", text, re.MULTILINE)))
    found = tmp_path / "found.csv"
    csv.write_csv(
        trail.query(text).to_arrow_table(),
        found,
        write_options=csv.WriteOptions(quoting_style="needed", quoting_header="needed"),
    )
    expected = query.with_suffix(".csv")
    if request.config.getoption("--update"):
        expected.write_bytes(found.read_bytes())
    assert found.read_text() == expected.read_text()


def test_every_module_has_a_golden() -> None:
    """Findings have tests of their own; every other module is asked by a golden."""
    asked = {word for query in GOLDENS for word in re.findall(r"\b(?:FROM|JOIN) (\w+)", query.read_text())}
    wanted = {name for name in modules.load() if not name.startswith(modules.FOLDERS["finding"])}
    assert wanted - asked == set()
