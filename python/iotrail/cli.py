"""The command line: verbs of Python's side. `iotrail.__main__` hands native verbs over before this loads."""

import re
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from iotrail import native
from iotrail.anomaly.verb import anomalies, profile
from iotrail.device.verbs import app as device
from iotrail.errors import UsageError
from iotrail.model.generate_verb import generate
from iotrail.model.verbs import app as model
from iotrail.options import DiffCommand, Format, TrailPath, one_each, split_sides
from iotrail.requests.verbs import (
    By,
    ByOption,
    ClientOption,
    ComponentOption,
    OpOption,
    SinceOption,
    UntilOption,
    arrivals,
    demand,
    explain,
    graph,
    path,
)
from iotrail.sweep.verb import sweep
from iotrail.whatif.verbs import app as whatif

app = typer.Typer(
    help="Record any program's I/O and see where the time went.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


@app.command(rich_help_panel="Record and keep")
def sdk(
    cflags: Annotated[bool, typer.Option("--cflags", help="Print what the C compiler needs.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="Print what the linker needs.")] = False,
) -> None:
    """Print compiler and linker options for the C SDK: cc component.c $(iotrail sdk --cflags --libs)."""
    from iotrail.native import sdk_folder

    folder = sdk_folder()
    words = [f"-I{folder}"] if cflags else []
    words += [f"-L{folder}", f"-Wl,-rpath,{folder}", "-liotrail"] if libs else []
    print(" ".join(words) or f"{folder}/iotrail.h\n{folder}/libiotrail.so")


@app.command(rich_help_panel="Ask")
def summary(
    trail: TrailPath,
    json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Print where the time of a recorded run went."""
    from iotrail import summary as page

    page.show(trail, json=json)


@app.command(rich_help_panel="Ask")
def waits(
    trail: TrailPath,
    rank: Annotated[
        int | None,
        typer.Option(
            "--trace",
            metavar="RANK",
            help="Print what this MPI rank did, with what it computed and waited for, instead.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Show who waited for whom in a run recorded with --causal, and the critical path."""
    from iotrail.causal.waits import trace
    from iotrail.causal.waits import waits as show
    from iotrail.trail import Trail

    if rank is None:
        return show(Trail(trail), as_json=json)
    if json:
        raise UsageError(
            "--trace prints lines of text: it can't be combined with --json",
            "iotrail sql X.trail annotated --format json",
        )
    return trace(Trail(trail), rank)


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
    """Query a trail with SQL (DuckDB).

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


app.add_typer(whatif, name="whatif", rich_help_panel="Ask")
app.add_typer(device, name="device", rich_help_panel="Ask")
app.add_typer(model, name="model", rich_help_panel="Ask")
app.command(rich_help_panel="Record and keep")(generate)
app.command(rich_help_panel="Record and keep")(sweep)

for _question in (path, graph, demand, explain, arrivals, anomalies, profile):
    app.command(rich_help_panel="Ask")(_question)


@app.command(rich_help_panel="Ask")
def report(
    trail: TrailPath,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="F.html", help="The page to write.", show_default="X.html"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the page's data as JSON instead.")] = False,
    since: SinceOption = None,
    until: UntilOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file even if it is no report.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one self-contained HTML page of the run, or of the part between --from and --to."""
    from iotrail import report as page
    from iotrail.trail import Trail

    opened = Trail(trail)
    if since is not None or until is not None:
        page.cut(opened, since, until)
    if json:
        page.write_data(opened, output, force=force)
        return
    path = output or Path(trail.resolve().name).with_suffix(".html")
    page.write_report(opened, path, force=force)
    print(path)
    if show:
        page.open_in_browser(path)


@app.command(rich_help_panel="Ask")
def serve(
    trail: Annotated[
        Path | None, typer.Argument(metavar="X.trail", help="The trail to show.", show_default=False)
    ] = None,
    collector: Annotated[
        str | None,
        typer.Option(
            "--collector",
            metavar="HOST:PORT",
            help="Show what a collector gets, live, and its trail.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="X.trail", help="Trail to collect into, if nothing is named to show."
        ),
    ] = Path("cluster.trail"),
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="OPTION", help="An option for the agent that is started; may be repeated."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 a free one.")] = 8787,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="F", help="Answer only who has the secret in F.", show_default=False
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="F", help="Certificate (PEM) of the page.", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="F", help="Its private key.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let tokens go unencrypted between machines.")
    ] = False,
    collector_token_file: Annotated[
        Path | None,
        typer.Option(
            "--collector-token-file", metavar="F", help="The collector's secret.", show_default=False
        ),
    ] = None,
    collector_tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--collector-tls-ca",
            metavar="F",
            help="Certificates (PEM) that vouch for the collector's; without, those of https:// that the system trusts.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve the page of a cluster: every member live, and any moment before.

    iotrail serve                           starts collector and agent here, and shows what they see
    iotrail serve --collector 127.0.0.1:4317
    iotrail serve X.trail
    """
    from iotrail.serve import command

    command.run(
        command.Options(
            trail=trail,
            collector=collector,
            output=output,
            host=host,
            port=port,
            token_file=token_file,
            collector_token_file=collector_token_file,
            collector_tls_ca=collector_tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            insecure=insecure,
            agent=agent or [],
            show=show,
        )
    )


@app.command(rich_help_panel="Ask", cls=DiffCommand)
def diff(
    trails: Annotated[
        list[str],
        typer.Argument(
            metavar="A1.trail A2.trail A3.trail -- B1.trail B2.trail B3.trail",
            help="Runs before and runs after; or one of each: A.trail B.trail.",
            show_default=False,
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print all comparisons as JSON.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="F.html", help="Write a page that shows them too.", show_default=False
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="METRIC:5%",
            help="End with 1 if there is such a difference, with 3 if the runs can't tell; may be repeated.",
        ),
    ] = None,
    min_effect: Annotated[
        str, typer.Option("--min-effect", metavar="5%", help="Smallest relative change that counts.")
    ] = "5%",
    fdr: Annotated[
        str | None,
        typer.Option(
            "--fdr",
            metavar="1%",
            help="Share of reported differences that may be noise (default: 1%; of one run each 0.1%).",
            show_default=False,
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FROM=TO", help="Directory FROM of A is TO in B; may be repeated."),
    ] = None,
    fidelity: Annotated[bool, typer.Option("--fidelity", help="B replays A: say how faithfully.")] = False,
    requests: Annotated[
        bool, typer.Option("--requests", help="Compare the ways of requests, not the calls of programs.")
    ] = False,
    client: ClientOption = None,
    op: OpOption = None,
    component: ComponentOption = None,
    by: ByOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    against_since: Annotated[
        str | None,
        typer.Option(
            "--against-from",
            metavar="TIME",
            help="Start of B's time range (default: --from).",
            show_default=False,
        ),
    ] = None,
    against_until: Annotated[
        str | None,
        typer.Option(
            "--against-to",
            metavar="TIME",
            help="End of B's time range (default: --to).",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help="Print at most so many differences.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page even if it is none.")] = False,
) -> None:
    """Compare runs of two versions, and tell differences from noise.

    Ranked by the time a difference adds, so that the first line says why B is slower. Runs of one program differ among
    themselves: record at least three of each version, alternating, and name A's before and B's after `--`. One run
    each shows what differs in number; of times it can tell only large differences. Examples:

      iotrail diff A1.trail A2.trail A3.trail -- B1.trail B2.trail B3.trail
      iotrail diff before?.trail -- after?.trail --fail-on slower:5% --fail-on calls.fsync
      iotrail diff before.trail after.trail
      iotrail diff app.trail replay.trail --map /srv/app=/mnt/test
      iotrail diff before.trail after.trail --requests --client alice
      iotrail diff day.trail day.trail --to 14:00 --against-from 14:00
    """
    a, b = split_sides(trails)
    if requests:
        if map or fidelity:
            raise UsageError("--requests compares requests: it takes no --map or --fidelity")
        from iotrail.diff import flow_command

        flow_command.run(
            *one_each(a, b, "--requests"),
            client=client,
            op=op,
            component=component,
            since=since,
            until=until,
            against=(against_since, against_until),
            by_node=by is By.NODE,
            as_json=json,
            html=html,
            fail_on=fail_on or [],
            min_effect=min_effect,
            fdr=fdr or "0.1%",
            limit=limit,
            force=force,
        )
        return
    if client or op or component or by:
        raise UsageError("--client, --op, --component and --by are about requests", "add --requests")
    from iotrail.diff import command

    command.run(
        a,
        b,
        json=json,
        html=html,
        fail_on=fail_on or [],
        min_effect=min_effect,
        fdr=fdr,
        renamed=map or [],
        part=(since, until),
        against=(against_since, against_until),
        fidelity=fidelity,
        limit=limit,
        force=force,
    )


@app.command(rich_help_panel="Ask")
def export(
    format: Annotated[
        str, typer.Argument(metavar="FORMAT", help="perfetto, fio, csv, parquet or oracle-general.")
    ],
    trail: TrailPath,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="What to write.", show_default="X.FORMAT"),
    ] = None,
    page: Annotated[
        int, typer.Option("--page", metavar="BYTES", help="oracle-general: bytes of an object.")
    ] = 4096,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Convert a trail to another tool's format."""
    from iotrail import exporters
    from iotrail.trail import Trail

    print(exporters.export(Trail(trail), format, output, page=page, force=force))


@app.command(rich_help_panel="Record and keep")
def anonymize(
    trail: TrailPath,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="Y.trail", help="The trail to make.", show_default=False),
    ],
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="F",
            help="Key of the hashes: equal names of trails made with one key stay equal. A random one if not given.",
            show_default=False,
        ),
    ] = None,
    keep_extensions: Annotated[
        bool, typer.Option("--keep-extensions", help="Keep the extensions of file names, such as .sqlite.")
    ] = False,
    shift_times: Annotated[
        bool, typer.Option("--shift-times", help="Move all times so that the trail begins in 2000.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the trail if it exists.")] = False,
) -> None:
    """Copy a trail and replace all names by keyed hashes: of files, programs, machines, clients, disks.

    iotrail anonymize X.trail -o Y.trail
    iotrail anonymize X.trail -o Y.trail --keep-extensions --shift-times
    """
    from iotrail import anonymize as anonymizing
    from iotrail.trail import Trail

    key = None
    if key_file is not None:
        try:
            key = key_file.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{key_file}: can't be read: {error.strerror}", "name a file with a secret"
            ) from None
        if len(key) < 16:
            raise UsageError(
                f"{key_file}: {len(key)} bytes; expected 16 or more", "head -c 32 /dev/urandom makes a key"
            )
    anonymizing.anonymize(
        Trail(trail), output, key=key, keep_extensions=keep_extensions, shift=shift_times, force=force
    )
    print(output)


@app.command("import", rich_help_panel="Record and keep")
def import_trace(
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FORMAT] FILE…",
            help="The trace; without FORMAT it is guessed and said.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="X.trail", help="The trail to make.", show_default="FILE.trail"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trail if it exists.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse the trace at the first line that doesn't parse.")
    ] = False,
    map: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="K=V,…",
            help="Which column of a CSV is what: ts=1,unit=ms,dev=2,pos=3,length=4,op=5,read=R,write=W.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Name of the device, where the trace has none.", show_default=False),
    ] = None,
    formats: Annotated[bool, typer.Option("--list", help="List the formats.")] = False,
) -> None:
    """Import a trace of another tool: strace, blktrace, fio, Recorder, CSV … Compressed files are read directly.

    iotrail import strace app.strace
    iotrail import blktrace sda.blktrace.0
    iotrail import recorder recorder-20240102/
    iotrail import disk.csv.gz --map ts=time,unit=us,pos=lba,pos_unit=sectors,length=bytes,op=rw
    """
    from iotrail.importers import command
    from iotrail.importers.base import Options

    if formats:
        command.show_list()
        return
    if not words:
        raise UsageError("which trace?", "iotrail import FILE, or iotrail import --list")
    command.run(words, output, force=force, options=Options(strict=strict, map=map, device=device))
