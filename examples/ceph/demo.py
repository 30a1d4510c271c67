"""`make demo-ceph`: a Ceph cluster on this machine under load, and the page that shows it live.

Three OSDs, three MDSs, one monitor; clients that make trees of files, write them, and write objects. Ctrl-C ends all
of it and leaves only demo/ceph.trail, of which a few answers are printed.
"""

import argparse
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import POOL, Cluster, ClusterError

ROOT = Path(__file__).resolve().parent.parent.parent
TRAIL = Path("demo", "ceph.trail")
IOTRAIL = Path(sys.executable).with_name("iotrail")
LOAD = Path(__file__).with_name("load.py")
DEBIANS_PYTHON = "/usr/bin/python3"

# One after the other, over and over: (what it is, command).
LOADS = (
    ("8 clients make trees of files and walk them", [LOAD, "tree", "--clients", "8", "--files", "60"]),
    ("4 clients write 64 KiB pieces", [LOAD, "own", "--clients", "4", "--seconds", "12", "--bytes", "65536"]),
    ("12 clients write small pieces of one file", [LOAD, "shared", "--clients", "12", "--seconds", "12"]),
    ("32 clients open the same files", [LOAD, "crowd", "--clients", "32", "--opens", "3200"]),
)

ANSWERS: list[list[str | Path]] = [
    [
        IOTRAIL,
        "sql",
        TRAIL,
        "SELECT component, op, COUNT(*) AS requests, AVG(dur) / 1e3 AS mean_us FROM request "
        "GROUP BY ALL ORDER BY requests DESC LIMIT 12",
    ],
    [IOTRAIL, "path", TRAIL, "--slowest", "1", "--component", "osd"],
    [IOTRAIL, "graph", TRAIL, "--component", "mds", "--op", "create"],
]


@contextlib.contextmanager
def started(command: list[str | Path], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A program that is ended at the end, whatever happens."""
    # Not in the terminal's foreground group: Ctrl-C is for this script, which ends them in order.
    program = subprocess.Popen(list(map(str, command)), text=True, process_group=0, **options)  # type: ignore[call-overload]
    try:
        yield program
    finally:
        if program.poll() is None:
            program.send_signal(signal.SIGTERM)
            try:
                program.wait(20)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def serve(cluster: Cluster, trail: Path, state: Path, port: int) -> list[str | Path]:
    """The command that collects, samples and shows."""
    options = [f"--ceph={cluster.sockets}", f"--state={state}", "--requests=all"]
    return [IOTRAIL, "serve", "-o", trail, "--port", str(port), *(f"--agent={option}" for option in options)]


def check() -> None:
    """Whether iotrail is beside this Python.

    Raises:
        ClusterError: it isn't.
    """
    if not IOTRAIL.exists():
        python = os.path.relpath(ROOT / ".venv" / "bin" / "python")
        raise ClusterError(f"there is no {IOTRAIL}: run `make`, and this by {python}")


def main() -> int:
    """Run until Ctrl-C, or for some seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=None, help="end by itself after so long")
    parser.add_argument("--port", type=int, default=8787)
    given = parser.parse_args()
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        check()
        TRAIL.parent.mkdir(exist_ok=True)
        shutil.rmtree(TRAIL, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="iotrail-ceph-") as folder, contextlib.ExitStack() as stack:
            print("starting a Ceph cluster: 3 OSDs, 3 MDSs", flush=True)
            began = time.monotonic()
            cluster = stack.enter_context(Cluster(Path(folder) / "c", mdss=3, active=3))
            print(f"healthy after {time.monotonic() - began:.0f} s", flush=True)
            page = stack.enter_context(
                started(serve(cluster, TRAIL, Path(folder) / "agent", given.port), stdout=subprocess.PIPE)
            )
            assert page.stdout is not None
            print(page.stdout.readline(), end="", flush=True)
            print("Ctrl-C ends it\n", flush=True)
            end = None if given.seconds is None else time.monotonic() + given.seconds
            with contextlib.suppress(KeyboardInterrupt):
                put_under_load(cluster, page, end)
    except ClusterError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Before there was anything to see.
        return 130
    if TRAIL.exists():
        for command in ANSWERS:
            print(
                "\n$",
                shlex.join(os.path.relpath(word) if isinstance(word, Path) else word for word in command),
                flush=True,
            )
            subprocess.run(command, check=False)
    return 0


def put_under_load(cluster: Cluster, page: subprocess.Popen[str], end: float | None) -> None:
    """Loads in turn, and writes of objects beside them, until the end or Ctrl-C."""
    bench: list[str | Path] = [
        "rados",
        "-c",
        cluster.conf,
        "bench",
        "3600",
        "write",
        "-b",
        "4096",
        "-t",
        "4",
        "-p",
        POOL,
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": cluster.environment}
    with started([*bench, "--no-cleanup"], **quiet):
        for what, command in itertools.cycle(LOADS):
            print(f"  {what}", flush=True)
            with started([DEBIANS_PYTHON, *command], **quiet) as load:
                while load.poll() is None:
                    if page.poll() is not None:
                        print("demo: the page ended", file=sys.stderr)
                        return
                    if end is not None and time.monotonic() > end:
                        return
                    time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
