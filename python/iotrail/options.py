"""Options and arguments that several verbs of the command line take alike."""

import enum
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from iotrail.errors import UsageError

TrailPath = Annotated[Path, typer.Argument(metavar="X.trail", help="The trail to read.", show_default=False)]


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


_DIFF_USAGE = "iotrail diff A1.trail A2.trail A3.trail -- B1.trail B2.trail B3.trail"
# What stands for `--` among the trails: no path holds a null byte.
_SEPARATOR = "\0--"


class DiffCommand(TyperCommand):
    """`--` separates the sides; click would take it for the end of options."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Hand `--` on as an argument; options may stand on both sides of it."""
        return super().parse_args(ctx, [_SEPARATOR if word == "--" else word for word in args])


def split_sides(words: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The trails of A and of B: two, or those before and after `--`.

    Raises:
        UsageError: a side is empty, `--` is missing or there twice, a trail is named twice.
    """
    separators = [number for number, word in enumerate(words) if word == _SEPARATOR]
    trails = [Path(word) for word in words if word != _SEPARATOR]
    if not separators:
        if len(trails) != 2:
            raise UsageError(
                f"diff: expected two trails, or several of A and of B with -- between them; found {len(trails)} without --",
                _DIFF_USAGE,
            )
        return trails[:1], trails[1:]
    if len(separators) > 1:
        raise UsageError(f"diff: expected one --, found {len(separators)}", _DIFF_USAGE)
    a, b = trails[: separators[0]], trails[separators[0] :]
    if not a or not b:
        raise UsageError(
            f"diff: no trail {'after' if a else 'before'} --: side {'B' if a else 'A'} is empty", _DIFF_USAGE
        )
    if len(trails) > 2:
        for number, path in enumerate(trails):
            if path.resolve() in {other.resolve() for other in trails[:number]}:
                raise UsageError(
                    f"diff: {path} is named twice; one run counted twice would look like two that agree",
                    _DIFF_USAGE,
                )
    return a, b


def one_each(a: Sequence[Path], b: Sequence[Path], option: str) -> tuple[Path, Path]:
    """The only trail of each side, for what compares no more.

    Raises:
        UsageError: there are more.
    """
    if len(a) != 1 or len(b) != 1:
        raise UsageError(f"{option} compares two trails, found {len(a) + len(b)}")
    return a[0], b[0]


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_of(option: str, text: str) -> int:
    """Bytes of a size as people write it: 4096, 64M, 8GiB.

    Raises:
        UsageError: it is none.
    """
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    if match is None or int(match[1]) == 0:
        raise UsageError(f"{option}: expected a size like 64M, found {text!r}")
    return int(match[1]) * _SIZES[match[2]]
