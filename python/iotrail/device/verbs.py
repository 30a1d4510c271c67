"""The command line of `iotrail device`."""

import json
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from iotrail import native, units
from iotrail.errors import DeviceError

app = typer.Typer(
    help="Device files: what simulated and emulated storage is made of.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def _ask(*words: str) -> Any:
    """What `iotrail-native device` says."""
    done = subprocess.run([native.binary(), "device", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message, _, hint = done.stderr.removeprefix("iotrail: error: ").partition("\n  hint: ")
        raise DeviceError(message.strip(), hint.strip() or None)
    return json.loads(done.stdout)


@app.command(name="list")
def list_devices(as_json: AsJson = False) -> None:
    """List the devices that come with iotrail."""
    from rich.table import Table

    from iotrail.terminal import Console, Text

    found = _ask("list")
    if as_json:
        print(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("name", "device", "capacity"):
        table.add_column(name, justify="right" if name == "capacity" else "left")
    for each in found:
        table.add_row(*map(Text, (each["name"], each["device"], units.size(each["capacity"]))))
    Console().print(table)


@app.command()
def show(
    device: Annotated[
        Path, typer.Argument(metavar="DEVICE", help="Device file, or the name of one that comes with iotrail.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show the values of a device, each with its unit and source."""
    from rich.table import Table

    from iotrail.terminal import Console, Text

    found = _ask("show", str(device))
    if as_json:
        print(json.dumps(found))
        return
    console = Console(piped=160)
    console.print(Text(f"{found['device']}: {found['kind']}, {units.size(found['capacity'])}"))
    table = Table(box=None, pad_edge=False)
    table.add_column("value")
    table.add_column("", justify="right")
    table.add_column("unit")
    table.add_column("source")
    for each in found["values"]:
        table.add_row(*map(Text, (each["key"], _short(each["value"]), each["unit"] or "", each["source"])))
    console.print(table)


def _short(value: Any) -> str:
    """A value in one line; of a list its length and ends."""
    if isinstance(value, list):
        ends = [_short(each) for each in (value[0], value[-1])] if value else []
        return f"{len(value)}: {' … '.join(ends)}"
    if isinstance(value, dict):
        return " ".join(f"{key} {_short(each)}" for key, each in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else str(value)
