"""What posting a record of a request costs, beside other tracing libraries.

An instant is one record with three numbers; a scope an interval with three numbers (LTTng-UST has no intervals: two
records). Off: the library is in the program and nothing is recorded.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import ROOT, ROUNDS, Spread, console, interleave, keep, scratch, table

IOTRAIL = ROOT / ".venv" / "bin" / "iotrail"
# 1 GiB of slots of 64 bytes.
POSTS = 1 << 24
# Others are measured with fewer: they take longer, and memory they touch first is no matter of theirs.
OTHERS = 1 << 20
Figures = dict[str, float]


@dataclass(frozen=True)
class Way:
    """A library, and what posts through it."""

    name: str
    post: Callable[[str], Figures]


def bench() -> None:
    """Measure and print."""
    folder = ROOT / "bench" / "post"
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=folder, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    rust = Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "post"
    with scratch() as place:
        ours = _compile(place / "post-iotrail", "iotrail")
        lttng = _compile(place / "post-lttng", "lttng") if shutil.which("lttng") else None
        if lttng is None:
            console.print("[dim]LTTng-UST is left out: no lttng (Debian: lttng-tools, liblttng-ust-dev)[/]")
        ways: dict[str, Callable[[str], Figures]] = {
            "iotrail": lambda kind: _recorded([rust, "iotrail", kind, POSTS], place),
            "iotrail, through C": lambda kind: _recorded([ours, kind, POSTS], place),
            "iotrail, off": lambda kind: _plain([rust, "iotrail", kind, OTHERS]),
            "iotrail, through C, off": lambda kind: _plain([ours, kind, OTHERS]),
            "tracing, counting": lambda kind: _plain([rust, "tracing", kind, OTHERS]),
            "tracing, formatting": lambda kind: _plain([rust, "tracing-fmt", kind, OTHERS]),
        }
        if lttng:
            ways["LTTng-UST"] = lambda kind: _lttng([lttng, kind, OTHERS], place)
        kept = {}
        for kind in ("instant", "scope"):
            here = dict(ways)
            if kind == "scope":
                here["OpenTelemetry"] = lambda kind: _plain([rust, "opentelemetry", kind, OTHERS])
            seen = interleave(
                [Way(name, post) for name, post in here.items()],
                ROUNDS,
                lambda way, kind=kind: way.post(kind),
            )
            shape = table(f"Posting: {kind}, nanoseconds, median of {ROUNDS} rounds (least–most)", [
                "library", "p50", "p99", "p99.9", "mean"])  # fmt: skip
            for name, rounds in seen.items():
                figures = [
                    Spread.of([r[f] for r in rounds]).text(",.0f") for f in ("p50", "p99", "p999", "mean")
                ]
                shape.add_row(name, *figures)
            console.print(shape)
            kept[kind] = seen
    keep("post", posts=POSTS, rounds=kept)


def _compile(binary: Path, library: str) -> Path:
    source = ROOT / "bench" / "post" / "c"
    if library == "lttng":
        flags = ["-DLTTNG", f"-I{source}", "-llttng-ust", "-ldl"]
    else:
        found = subprocess.run(
            [IOTRAIL, "sdk", "--cflags", "--libs"], check=True, capture_output=True, text=True
        )
        flags = found.stdout.split()
    subprocess.run(["gcc", "-O2", "-o", binary, source / "post.c", *flags], check=True)
    return binary


def _plain(command: list[object]) -> Figures:
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def _recorded(command: list[object], place: Path) -> Figures:
    trail = place / "post.trail"
    recorder = [IOTRAIL, "record", "--force", "-o", trail, "--memory", "1G", "--"]
    return _plain([*recorder, *command])


def _lttng(command: list[object], place: Path) -> Figures:
    def tell(*words: str) -> None:
        subprocess.run(["lttng", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    tell("create", "post", f"--output={place / 'lttng'}")
    try:
        tell("enable-channel", "--userspace", "--subbuf-size=4M", "--num-subbuf=4", "post")
        tell("enable-event", "--userspace", "--channel=post", "post:*")
        tell("start")
        return _plain(command)
    finally:
        tell("destroy", "post")
        shutil.rmtree(place / "lttng", ignore_errors=True)
