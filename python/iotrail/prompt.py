"""The prompt of `iotrail sql`: statements over several lines until `;`, history, completion, dot commands."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from iotrail import ask
from iotrail.errors import IotrailError, QueryInterrupted
from iotrail.terminal import Console, Text
from iotrail.trail import Trail

HELP = """\
.tables          list the tables of the trail
.modules         list the modules: documented views that answer a question
.schema NAME     columns of a table or module, and what they mean
.set NAME=VALUE  set a parameter of the modules
.help            this
.quit            leave (or Ctrl-D)

A statement ends with ; and may take several lines. Ctrl-C stops a running query.
  FROM call_summary;
  SELECT path, bytes_read FROM file_summary ORDER BY 2 DESC LIMIT 10;"""

COMMANDS = re.findall(r"^(\.\w+)", HELP, re.MULTILINE)


class _Completer(Completer):
    """Tables, modules, keywords and functions; columns of the tables and modules the statement names."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._keywords = [
            row[0].upper()
            for row in trail.connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
        ]
        self._functions = [
            row[0]
            for row in trail.connection.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name ~ '^[a-z]'"
            ).fetchall()
        ]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        trail = self._trail
        word = document.get_word_before_cursor(pattern=re.compile(r"[.\w]+"))
        text = document.text_before_cursor
        if text.lstrip().startswith("."):
            if " " in text.strip() or text.endswith(" "):
                names = {name: trail.describe(name)[0] for name in (*trail.tables, *trail.modules)}
                yield from _matching(word, names, "")
            else:
                yield from _matching(word, dict.fromkeys(COMMANDS, ""), "command")
            return
        prefix, _, word = word.rpartition(".")
        named = [
            name
            for name in dict.fromkeys(re.findall(r"\w+", document.text.lower()))
            if name in trail.tables or name in trail.modules
        ]
        columns = {c.name: c.comment for name in named for c in trail.describe(name)[1]}
        yield from _matching(word, columns, "column")
        if prefix:
            return
        yield from _matching(word, {t.name: t.meaning for t in trail.tables.values()}, "table")
        yield from _matching(word, {m.name: m.summary for m in trail.modules.values()}, "module")
        if word:
            yield from _matching(word, dict.fromkeys(self._keywords, ""), "keyword")
            yield from _matching(word, dict.fromkeys(self._functions, ""), "function")


def _matching(word: str, names: Mapping[str, str], kind: str) -> Iterable[Completion]:
    for name, meaning in names.items():
        if name.lower().startswith(word.lower()):
            meta = " ".join(filter(None, (kind, meaning.split("\n")[0])))
            yield Completion(name, start_position=-len(word), display_meta=meta)


def _history() -> History:
    """History in the user's state folder; in memory if that can't be written."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "iotrail"
    path = folder / "sql_history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def run(trail: Trail, values: Mapping[str, object]) -> None:
    """Read and answer statements until the user leaves."""
    console = Console()
    rows = trail.rows
    console.print(
        Text(f"{trail.path}", style="bold")
        + Text(
            f"  {rows.get('file_op', 0):,} calls on files, {rows.get('sync_op', 0):,} that wait",
            style="not bold",
        )
    )
    console.print(
        Text(".help tells the rest, .modules what can be asked; end a statement with ;", style="dim")
    )

    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_Completer(trail),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=Condition(lambda: not complete(session.default_buffer.text)),
        prompt_continuation=lambda width, *_: "… ".rjust(width),
    )
    while True:
        try:
            text = session.prompt("iotrail> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            if text in (".quit", ".exit"):
                return
            if text.startswith("."):
                _command(trail, console, text)
            elif text.rstrip(";").strip():
                for statement in ask.split(trail, text):
                    ask.show(trail, statement, values, None, "table")
        except QueryInterrupted:
            console.print("interrupted")
        except IotrailError as error:
            console.print(Text(ask.failed(error), style="red"), soft_wrap=True)


def complete(text: str) -> bool:
    """Whether Enter ends the input: a dot command, nothing, or a statement closed by `;` outside a string."""
    text = text.strip()
    if not text or text.startswith("."):
        return True
    tokens = duckdb.tokenize(text)
    return text.endswith(";") and bool(tokens) and text[tokens[-1][0] :] == ";"


def _command(trail: Trail, console: Console, text: str) -> None:
    command, _, rest = text.partition(" ")
    rest = rest.strip().rstrip(";")
    match command:
        case ".help":
            console.print(Text(HELP))
        case ".tables" | ".modules":
            names = trail.tables if command == ".tables" else trail.modules
            width = max(map(len, names))
            for name in names:
                module = trail.modules.get(name)
                meaning = module.summary if module else trail.describe(name)[0]
                console.print(
                    Text(f"{name.ljust(width)}  ", style="bold cyan") + Text(meaning, style="not bold"),
                    no_wrap=True,
                    overflow="ellipsis",
                )
        case ".schema" if rest:
            meaning, columns = trail.describe(rest)
            console.print(Text(meaning))
            ask.print_columns(console, columns)
        case ".set" if rest:
            ask.parameters(trail, [rest], "")
        case _:
            console.print(Text(f"error: no command {text}\n  hint: .help lists them", style="red"))
