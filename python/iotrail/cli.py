"""The command line: verbs of Python's side. `iotrail.__main__` hands native verbs over before this loads."""

import enum
import re
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from iotrail import native
from iotrail.errors import UsageError

app = typer.Typer(
    help="Record any program's I/O and see where the time went.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TrailPath = Annotated[Path, typer.Argument(metavar="X.trail", help="The trail to read.", show_default=False)]


class Format(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


def _version(wanted: bool) -> None:
    if wanted:
        path = native.binary()
        print(f"iotrail {native.package_version() or 'not installed'}")
        print(f"iotrail-native {native.native_version(path)} ({path})")
        native.check_version(path)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    pass


def _native_verb(verb: str, meaning: str) -> None:
    """List a verb of the binary in --help. It is run here only if options stand before it."""

    def command(context: typer.Context) -> NoReturn:
        native.run([verb, *context.args])

    app.command(
        verb,
        help=meaning,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        rich_help_panel="Record and keep",
    )(command)


for _verb, _meaning in native.VERBS.items():
    _native_verb(_verb, _meaning)


@app.command(rich_help_panel="Ask")
def summary(
    trail: TrailPath,
    json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Print where the time of a recorded run went: what `record --summary` prints."""
    from iotrail import summary as page

    page.show(trail, json=json)


@app.command(rich_help_panel="Ask")
def sql(
    trail: Annotated[
        Path | None,
        typer.Argument(metavar="X.trail", help="The trail to ask.", show_default=False),
    ] = None,
    query: Annotated[
        str | None,
        typer.Argument(
            help="A query, the name of a module or table, or - for standard input. None opens a prompt.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the query from a file.", show_default=False)
    ] = None,
    module: Annotated[
        str | None, typer.Option("--module", help="Ask a module; see --modules.", show_default=False)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="A,B", help="Group a module by these dimensions.", show_default=False),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="1s", help="Group a module by time: 10ms, 1s, 5min.", show_default=False
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="K=V", help="Set a parameter of modules or a $K of the query."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Give at most so many rows.", show_default=False)
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    modules: Annotated[bool, typer.Option("--modules", help="List the modules.")] = False,
    tables: Annotated[bool, typer.Option("--tables", help="List the tables of a trail.")] = False,
) -> None:
    """Ask a trail with SQL, in DuckDB's dialect.

    Its tables and the documented modules of iotrail are views. Examples:

      iotrail sql X.trail call_summary
      iotrail sql X.trail --module throughput --by kind --every 1s --format csv
      iotrail sql X.trail "SELECT path, bytes_read FROM file_summary ORDER BY 2 DESC LIMIT 10"
    """
    from iotrail import ask

    if modules or tables:
        ask.show_listing(trail, modules, tables)
        return
    if trail is None:
        raise UsageError("which trail?", "iotrail sql X.trail")
    if sum(given is not None for given in (query, file, module)) > 1:
        raise UsageError("expected one of QUERY, --file and --module")
    if (by or every) and not module:
        # `iotrail sql X.trail latency --by call`
        module, query = query, None
        if module is None or not re.fullmatch(r"\w+", module):
            raise UsageError(
                "--by and --every group a module: name it with --module", "iotrail sql --modules"
            )
    opened = ask.open_trail(trail)
    if file is not None:
        query = ask.read_query(file)
    elif query == "-" or (query is None and module is None and not sys.stdin.isatty()):
        query = sys.stdin.read()
    if query is None and module is None:
        from iotrail import prompt

        prompt.run(opened, ask.parameters(opened, param or [], ""))
        return
    ask.run(
        opened,
        query=query,
        module=module,
        by=[name for name in re.split(r"[,\s]+", by or "") if name],
        every=every,
        param=param or [],
        limit=limit,
        format=format.value,
    )


@app.command(rich_help_panel="Ask")
def report(
    trail: TrailPath,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="F.html", help="The page to write.", show_default="X.html"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the page's data as JSON instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file even if it is no report.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one self-contained page that shows the run: open it in any browser, offline."""
    from iotrail import report as page
    from iotrail.trail import Trail

    opened = Trail(trail)
    if json:
        page.write_data(opened, output, force=force)
        return
    path = output or Path(trail.resolve().name).with_suffix(".html")
    page.write_report(opened, path, force=force)
    print(path)
    if show:
        page.open_in_browser(path)
