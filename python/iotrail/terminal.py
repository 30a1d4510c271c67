"""Tables and lines for a terminal, of rich, in which all text is data (`iotrail.visible`)."""

import os
from typing import IO, Any

import rich.console
import rich.text
from rich.style import Style

from iotrail.visible import one_line, visible

# As wide as it takes: another program reads the rows, one a line.
WIDE = 100_000


class Text(rich.text.Text):
    """Text of which a terminal obeys nothing."""

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(visible(text), style, **options)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> rich.text.Text:
        return super().append(visible(text) if isinstance(text, str) else text, style)

    def __add__(self, other: rich.text.Text | str) -> "Text":
        joined = Text(self.plain, self.style, spans=list(self.spans))
        joined.append(other)
        return joined


class Console(rich.console.Console):
    """Standard output or error. What it is given is text, without markup, emoji or highlighting; a `str` is one line.

    `piped` is its width where it is no terminal; COLUMNS changes it unless it is WIDE. There, lines of text are
    not wrapped: they are for programs to search.
    """

    def __init__(
        self,
        *,
        piped: int | None = None,
        stderr: bool = False,
        file: IO[str] | None = None,
        soft_wrap: bool = False,
    ) -> None:
        super().__init__(
            stderr=stderr, file=file, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False
        )
        fixed = piped == WIDE or "COLUMNS" not in os.environ
        if piped is not None and not self.is_terminal and fixed:
            self.width = piped

    def print(self, *objects: Any, **options: Any) -> None:
        if not self.is_terminal and all(isinstance(each, str | rich.text.Text) for each in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        return super().render_str(one_line(text), **options)
