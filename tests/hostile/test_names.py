"""Names that give orders to who shows them: neither a terminal nor a picture obeys any."""

import json
import os
import pty
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pytest

from iotrail.visible import one_line, visible
from tests.sql.tiny import write_trail

STORIES = Path(__file__).parents[1] / "sql"
# Clears the screen, sets the title, rings, writes right to left, begins a line of its own, is red (in C1), overwrites, hides.
ORDERS = "\x1b[2J\x1b]0;owned\x07\u202e\nFORGED LINE\x9b31m\r[red]\u200b"
NAMES = {
    *("path", "exe", "cmd", "cwd", "name", "value", "detail", "role", "node", "parent_node"),
    *("component", "client", "cache", "sender", "receiver", "dev", "member", "place"),
}
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def hostile(name: str, rows: pa.Table) -> pa.Table:
    """The rows, all names of which give orders. The same names stay the same."""
    for index, column in enumerate(rows.column_names):
        is_name = column in NAMES or (name, column) == ("service_op", "op")
        if is_name and pa.types.is_string(rows.schema.field(column).type):
            values = [value and value + ORDERS for value in rows[column].to_pylist()]
            rows = rows.set_column(index, column, pa.array(values, pa.string()))
    return rows


@pytest.fixture(scope="module")
def trails(native, tmp_path_factory) -> dict[str, Path]:
    """A program's calls, and requests through a small store."""
    into = tmp_path_factory.mktemp("hostile")
    return {story: write_trail(native, STORIES / story, into, hostile) for story in ("run", "store")}


def iotrail(*words: object, terminal: bool) -> str:
    """All that a command writes, as a pipe or a terminal gets it."""
    command = [sys.executable, "-m", "iotrail", *map(str, words)]
    if not terminal:
        done = subprocess.run(command, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr
        return (done.stdout + done.stderr).decode()
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "300"}
    program = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # its last writer is gone: tty(4)
            break
        written += part
    os.close(ours)
    assert program.wait() == 0, written
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("summary", "run"),
        ("sql", "run", "SELECT * FROM file"),
        ("sql", "run", "SELECT * FROM process"),
        ("sql", "run", "SELECT * FROM file_summary"),
        ("trail", "info", "run"),
        ("trail", "check", "run"),
        ("diff", "run", "run"),
        ("path", "store", "--slowest", "3"),
        ("path", "store", "--slowest", "3", "--timeline"),
        ("graph", "store"),
        ("arrivals", "store"),
        ("demand", "store"),
        ("explain", "store", "--client", "alice" + ORDERS),
        ("explain", "store", "--client", "nobody"),
        ("diff", "store", "store", "--requests"),
    ],
    ids=" ".join,
)
def test_a_terminal_obeys_no_name(trails, words, terminal):
    """Whatever a verb prints holds no control character but the ends of its own lines."""
    told = [trails.get(word, word) for word in words]
    if "nobody" in words:
        command = [sys.executable, "-m", "iotrail", *map(str, told)]
        done = subprocess.run(command, check=False, capture_output=True)
        said = (done.stdout + done.stderr).decode()
    else:
        said = iotrail(*told, terminal=terminal)
    found = OBEYED.search(said)
    assert found is None, said[max(0, found.start() - 200) : found.end() + 50]
    assert not re.search(r"^FORGED", said, re.MULTILINE), said
    # what can't be seen in the names of this output is no test of it
    assert words[:2] in (("trail", "check"), ("diff", "run"), ("diff", "store")) or "\\x1b[2J" in said, said


@pytest.mark.parametrize(
    "words",
    [("path", "--slowest", "3"), ("graph",), ("arrivals",), ("explain", "--client", "alice" + ORDERS)],
)
def test_a_picture_and_a_page_hold_no_order(trails, words, tmp_path):
    """A picture is well-formed, whatever names it shows; and so is the page's."""
    verb, *options = words
    picture, page = tmp_path / "x.svg", tmp_path / "x.html"
    iotrail(verb, trails["store"], *options, "--svg", picture, "--html", page, terminal=False)
    ET.parse(picture)
    for path in (picture, page):
        # an HTML document may hold tabs
        found = OBEYED.search(path.read_text().replace("\t", ""))
        assert found is None, path


def test_rust_and_the_pages_show_the_same():
    """They are held to the same file."""
    held = json.loads((Path(__file__).parents[1] / "fixtures/obeyed.json").read_text())
    expected = {code for first, last in held["ranges"] for code in range(int(first, 16), int(last, 16) + 1)}
    assert {code for code in range(0x110000) if visible(chr(code)) != chr(code)} == expected
    assert [visible(name) for name, _ in held["shown"]] == [shown for _, shown in held["shown"]]


def test_what_is_obeyed_is_shown():
    """As Python writes it, and nothing else changes."""
    assert visible("a\x1b[0m\u202e\n") == "a\\x1b[0m\\u202e\n"
    assert one_line("a\tb\nc\udcff") == "a\\tb\\nc\\udcff"
    assert visible("data/ä 漢 🐘.db") == "data/ä 漢 🐘.db"
