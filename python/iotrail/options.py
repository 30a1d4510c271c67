"""Options and arguments that several verbs of the command line take alike."""

import enum
from pathlib import Path
from typing import Annotated

import typer

TrailPath = Annotated[Path, typer.Argument(metavar="X.trail", help="The trail to read.", show_default=False)]


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"
