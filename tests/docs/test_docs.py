"""What the documentation says can be done works as printed."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.glob("*.md"))]
# Done already where the tests run.
SET_UP = ("make", "export ")


def console_blocks(page: Path) -> list[str]:
    """The blocks of a page that show a terminal."""
    return re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_as_printed(tmp_path: Path) -> None:
    """Each command succeeds, and prints every word that stands below it; figures differ from run to run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    ran = 0
    for block in console_blocks(DOCS / "tutorial.md"):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = shown.partition("\n")
            if command.startswith(SET_UP):
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}"
            words = set(re.findall(r"[a-z_]{5,}", expected))
            missing = words - set(re.findall(r"[a-z_]{5,}", done.stdout))
            assert not missing, f"{command}: expected {sorted(missing)} in\n{done.stdout}"
            ran += 1
    assert ran == 8
    assert (tmp_path / "one.html").stat().st_size > 100_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert dead == []


def test_each_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    assert [
        page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index
    ] == []
