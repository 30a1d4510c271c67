"""The prompt of `iotrail sql`: what ends a statement, what is completed, what is answered."""

from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from iotrail import prompt
from iotrail.trail import Trail


@pytest.fixture
def trail(make_trail: Callable[[Path], Path]) -> Trail:
    """The trail of tests/sql/run."""
    return Trail(make_trail(Path(__file__).parent / "run"))


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;  ", True),
        ("SELECT ';", False),
        ("SELECT 1 -- a comment;", False),
        (".tables", True),
        ("", True),
    ],
)
def test_what_ends_a_statement(text: str, ends: bool) -> None:
    assert prompt.complete(text) is ends


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM call_su", ["call_summary"]),
        ("SELECT again_", []),
        ("FROM reread SELECT again_b", ["again_bytes"]),
        ("FROM op o SELECT o.mov", ["moved"]),
        ("SEL", ["SELECT"]),
        (".sch", [".schema"]),
        (".schema trail_s", ["trail_span"]),
    ],
)
def test_completion(trail: Trail, text: str, offered: list[str]) -> None:
    found = prompt._Completer(trail).get_completions(Document(text), CompleteEvent())
    assert [c.text for c in found] == offered


def test_a_session(
    trail: Trail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A statement over two lines, an error that doesn't end it, dot commands; history is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    typed = "SELECT n\rFROM call_summary WHERE kind = 'read';\rSELECT foo FROM op;\r.schema trail_span\r"
    typed += ".set every_ns=500\rSELECT count(*) + 70 AS m FROM time_bucket;\r.nope\r.quit\r"
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(typed)
        prompt.run(trail, {})
    said = capsys.readouterr().out
    assert "n\n5\n" in said
    assert '"foo" not found' in said and "^^^" in said
    assert "first moment" in said
    assert "m\n73\n" in said
    assert "no command .nope" in said
    assert "FROM call_summary" in (tmp_path / "iotrail" / "sql_history").read_text()
