"""`iotrail VERB … | head -1`, for every verb: once the reader is gone the command ends quietly, as SIGPIPE ends others."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from iotrail.cli import app

FOLDER = Path(__file__).parent

# What a shell shows of a process that SIGPIPE ended, and what Python does.
ENDED = (128 + signal.SIGPIPE, -signal.SIGPIPE)

# Commands that print, of every verb; {run}, {store}, {block} and {causal} are trails, {new} is an empty folder.
PRINTS = [
    "--help",
    "--version",
    "anomalies --help",
    "anonymize {run} -o {new}/a.trail",
    "arrivals {store}",
    "arrivals {store} --json",
    "demand {store}",
    "device list",
    "device schema",
    "device show hdd-7200",
    "device show sata-ssd --json",
    "diff {run} {run}",
    "diff {run} {run} --json",
    "diff {store} {store} --requests",
    "diff {store} {store} --requests --json",
    "explain {store} --client bob",
    "explain {store} --client bob --json",
    "export csv {run} -o {new}/csv",
    "generate --help",
    "graph {store}",
    "graph {store} --json",
    "import --list",
    "model diff --help",
    "model merge --help",
    "model scale --help",
    "model schema",
    "model show --help",
    "path {store} --slowest 1",
    "path {store} --slowest 1 --json",
    "profile {run}",
    "profile {run} --json",
    "record --summary -o {new}/r.trail -- true",
    "replay {run} --root {new}/root -o {new}/y.trail",
    "report {run} -o {new}/r.html",
    "report {run} --json",
    "schema",
    "sdk",
    "serve {run} --port 0",
    "sql {run} call_summary",
    "sql {run} call_summary --format csv",
    "sql {run} call_summary --format json",
    "sql {run} call_summary --format arrow",
    "sql --modules",
    "sql --tables",
    "sweep --help",
    "summary {run}",
    "summary {run} --json",
    "trail info {run}",
    "waits {causal}",
    "waits {causal} --json",
    "waits {causal} --trace 0",
    "whatif cache {run}",
    "whatif cache {run} --json",
    "whatif defrag {block} --on hdd-7200",
    "whatif defrag {block} --on hdd-7200 --json",
    "whatif encode --help",
    "whatif merge --help",
    "whatif move --help",
    "whatif ram --help",
    "whatif run {causal}",
    "whatif run {causal} --json",
]

# These print nothing, a line that nobody has to read, or of a program that runs: their help has to do.
HELPS = ["agent --help", "collect --help", "emudisk --help", "ingest --help", "types --help"]


@pytest.fixture
def words(make_trail: Callable[[Path], Path], tmp_path: Path) -> Callable[[str], list[str]]:
    """The command line of one of PRINTS."""
    (tmp_path / "root").mkdir()

    def fill(line: str) -> list[str]:
        trails = {name: make_trail(FOLDER / name) for name in ("run", "store", "block", "causal")}
        return [word.format(new=tmp_path, **trails) for word in line.split()]

    return fill


@pytest.mark.parametrize("line", PRINTS + HELPS)
def test_a_reader_that_is_gone_is_no_failure(line: str, words: Callable[[str], list[str]]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "iotrail", *words(line)],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    os.close(writer)
    # the binary's help ignores what it can't print
    assert done.returncode in (*ENDED, *([0] if line in HELPS else [])), done.stderr
    assert not any(words in done.stderr for words in ("Traceback", "Exception ignored", "rror:")), done.stderr


def test_every_verb_is_tried() -> None:
    assert {line.split()[0] for line in PRINTS + HELPS} >= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("format", ["table", "csv", "json", "arrow"])
def test_a_reader_that_goes_while_rows_are_written(
    format: str, unbuffered: str, words: Callable[[str], list[str]]
) -> None:
    query = "SELECT range + 100000000000 AS n FROM range(20000)"
    command = [
        sys.executable,
        "-m",
        "iotrail",
        *words("sql {run}"),
        query,
        "--format",
        format,
        "--limit=20000",
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, bufsize=0
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        # more than fits in the pipe is written
        assert child.stdout.read(1)
        child.stdout.close()
        said = child.stderr.read().decode()
    assert (child.returncode, said) == (ENDED[0], "")


def test_only_stdout_counts(words: Callable[[str], list[str]], tmp_path: Path) -> None:
    """A status that says something stays where the reader read everything."""
    shell = f"{sys.executable} -m iotrail {' '.join(words('diff {run} {run} --json'))} | cat"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)
    shell = f"{sys.executable} -m iotrail summary {tmp_path}/none | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, check=False)
    assert done.returncode == 1 and b"iotrail: error: " in done.stderr


def test_a_full_device_is_a_message(words: Callable[[str], list[str]]) -> None:
    for line in ("--help", "sql {run} call_summary", "summary {run}"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "iotrail", *words(line)],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        said = b"iotrail: error: cannot write to stdout: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, said)
