"""`make demo-model`: an application's requests, those of a model fitted to them, and a fio job of the same mix, on one disk.

    demo.py [TRACE]     a trace that iotrail import reads instead of the application; the busiest 45 s of its busiest disk are taken

Records SQLite on an emulated 7,200 rpm disk, fits a model, writes a fio job from the model, and runs all three on such disks:
the recording replayed at its times, the model by `iotrail generate`, the job by fio. Each disk records its own requests.
Prints one table, and writes a page with the requests of all three by offset and time. Trails, model, job and page stay in demo/.

SQLite needs a file system on a loop device, and so root. Without root the recorded program is fio with bursts of its own.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rich.box
from rich.table import Table

from iotrail import page, units
from iotrail.model.check import describe_runs
from iotrail.model.check_page import draw_maps
from iotrail.model.figures import measures
from iotrail.model.fit import load
from iotrail.page import document, table, tag
from iotrail.terminal import Console
from iotrail.trail import Trail

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "devices"))
from served import IOTRAIL, Served, served  # noqa: E402

ROOT = HERE.parent.parent
OUTPUT = Path("demo")
DEVICE, FAST = "hdd-7200", "sata-ssd"
SIZE = "2G"
SECONDS = 40
SEED = 1
# What the table shows, by the keys of iotrail model check.
KEYS = ("requests", "iops", "read_share", "random_share", "continue_8", "dispersion_0.1s", "dispersion_1s")
ERRORS = ("lru", "lru_even")
OPS = {0: "read", 1: "write"}


def run(*words: object, **variables: str) -> str:
    """What a command prints."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
    )
    if done.returncode != 0:
        sys.exit(f"demo: error: {' '.join(command)}:\n{done.stderr or done.stdout}")
    return done.stdout


def say(text: str) -> None:
    """Print what happens next."""
    print(text, flush=True)


def trail_of(name: str) -> Path:
    """Where the trail of a run is."""
    return OUTPUT / f"model-{name}.trail"


@contextmanager
def disk(name: str, *options: object) -> Iterator[Served]:
    """An emulated disk without data, which records its requests."""
    with (
        tempfile.TemporaryDirectory(prefix="iotrail-demo-") as folder,
        served(DEVICE, Path(folder, "emulated"), *options, "-o", trail_of(name), "--force") as found,
    ):
        yield found


@contextmanager
def mounted(target: str, place: Path) -> Iterator[Path]:
    """A file system on a loop device."""
    run("mount", target, place)
    try:
        yield place / "shop.db"
    finally:
        subprocess.run(["umount", place], check=True)


def record_application() -> None:
    """SQLite on ext4 on an emulated disk; the database is made on a fast one before."""
    application = [sys.executable, HERE / "application.py"]
    with tempfile.TemporaryDirectory(prefix="iotrail-demo-") as name:
        folder, place = Path(name, "emulated"), Path(name, "mounted")
        place.mkdir()
        say("SQLite: a database on an emulated disk …")
        with served(FAST, folder, "--size", SIZE, "--loop") as fast:
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", fast.target)
            with mounted(fast.target, place) as base:
                run(*application, "create", base)
        say(f"SQLite: {SECONDS} s of lookups and orders on an emulated {DEVICE} …")
        output = ("-o", trail_of("recorded"), "--force")
        with (
            served(DEVICE, folder, "--size", SIZE, "--loop", *output) as slow,
            mounted(slow.target, place) as base,
        ):
            run(*application, "run", base, SECONDS)


def record_fio() -> None:
    """Bursts by fio: a file without a file system needs no root."""
    say(f"Not root, so no file system: fio in bursts on an emulated {DEVICE}, {SECONDS} s …")
    with disk("recorded", "--size", SIZE) as target:
        run("fio", "--output=/dev/null", HERE / "bursts.fio", TARGET=target.target, SECONDS=str(SECONDS))


def import_trace(trace: Path) -> Path:
    """A trace as a trail; a trail is one already."""
    if trace.is_dir():
        return trace
    run(IOTRAIL, "import", trace, "-o", trail_of("whole"), "--force")
    return trail_of("whole")


def keep_stretch(path: Path) -> None:
    """The busiest stretch of a trail's busiest device as a block trace, which iotrail replay takes."""
    trail, length = Trail(path), (SECONDS + 5) * 10**9
    placed = "FROM device_request WHERE op < 3 AND (op = 2 OR (pos IS NOT NULL AND length > 0))"
    found = trail.query(
        f"SELECT device, MIN(ts), MAX(ts) {placed} GROUP BY device ORDER BY COUNT(*) DESC LIMIT 1"
    )
    if not (devices := found.fetchall()):
        sys.exit(f"demo: error: {path}: no requests of disks with a known time and place")
    [[device, first, last]] = devices
    of_device = f"{placed} AND device = {device}"
    if last - first > length:
        found = trail.query(
            f"SELECT ts - (ts - {first}) % {length} AS start {of_device} GROUP BY start ORDER BY COUNT(*) DESC, start LIMIT 1"
        )
        [[first]] = found.fetchall()
    rows = trail.query(
        f"SELECT ts - {first}, 'disk', CASE op WHEN 0 THEN 'r' WHEN 1 THEN 'w' ELSE 'flush' END, IF(op = 2, 0, pos), "
        f"IF(op = 2, 0, length) {of_device} AND ts BETWEEN {first} AND {first + length} ORDER BY ts, trace_row, pos"
    ).fetchall()
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as out:
        out.writelines(",".join(map(str, row)) + "\n" for row in rows)
        out.flush()
        columns = "ts=1,unit=ns,epoch=none,dev=2,op=3,pos=4,length=5,header=no,sep=comma"
        run(IOTRAIL, "import", "csv", out.name, "--map", columns, "-o", trail_of("trace"), "--force")


def responses(trail: Trail) -> dict[str, np.ndarray]:
    """Response times by direction, ns."""
    found = trail.query(
        "SELECT CAST(op AS BIGINT) AS op, dur FROM device_request WHERE dur IS NOT NULL AND op < 2"
    ).to_arrow_table()
    op, dur = (found[name].to_numpy() for name in ("op", "dur"))
    return {name: dur[op == number] for number, name in OPS.items()}


def rows(names: list[str], trails: list[Trail], described: list[dict]) -> Iterator[list[str]]:
    """Rows of the table: a figure's name, and its value in each run."""
    known = {each.key: each for each in measures(described[0], None)}
    for key in KEYS:
        measure = known[key]
        values = [measure.value(each) for each in described]
        unit = measure.unit
        yield [
            measure.name,
            *(
                "–" if value is None else units.human(value, unit) if unit else f"{value:,.4g}"
                for value in values
            ),
        ]
    times = [responses(trail) for trail in trails]
    for op in OPS.values():
        for name, value in (("mean", np.mean), ("p99", lambda dur: np.quantile(dur, 0.99))):
            cells = [units.duration(float(value(each[op]))) if len(each[op]) else "–" for each in times]
            yield [f"{op} response, {name}", *cells]
    for key in ERRORS:
        measure = known[key]
        off = [measure.distance(described[0], each) for each in described]
        yield [f"{measure.name}: error", *("–" if each is None else f"{each:.2%}" for each in off)]


def main() -> int:
    """Record, fit, run, print."""
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    trace = next(iter(sys.argv[1:]), os.environ.get("TRACE") or os.environ.get("IOTRAIL_TRACE"))
    # of a trace the disk is whole, and addresses beyond it wrap
    size: tuple[object, ...] = ("--size", SIZE) if not trace else ()
    if trace:
        say(f"{trace}: its busiest {SECONDS + 5} s …")
        keep_stretch(import_trace(Path(trace).expanduser()))
    elif os.geteuid() == 0:
        record_application()
    else:
        record_fio()
    if not trace:
        keep_stretch(trail_of("recorded"))
    recorded, model, job = trail_of("trace"), OUTPUT / "model.json", OUTPUT / "model.fio"
    say("Fitting a model …")
    run(IOTRAIL, "model", "fit", recorded, "-o", model, "--force")
    print(run(IOTRAIL, "model", "show", model), end="")
    run(IOTRAIL, "model", "export", "fio", model, "-o", job, "--seed", SEED, "--force")
    late = {}
    with disk("original", *size) as target:
        say(f"The recording, replayed on an emulated {DEVICE} …")
        replayed = OUTPUT / "model-replay.trail"
        words = ("--mode", "timed", "--direct", "--fold", "--overwrite", "--force", "-o", replayed)
        run(IOTRAIL, "replay", recorded, "--target", target.target, *words)
    late["original"] = target.counts
    with disk("model", *size) as target:
        say("The model's requests there …")
        words = ("--seed", SEED, "--direct", "--fold", "--overwrite")
        run(IOTRAIL, "generate", model, "--target", target.target, *words)
    late["model"] = target.counts
    with disk("fio", *size) as target:
        say("The fio job there …")
        run("fio", "--output=/dev/null", job, TARGET=target.target)
    late["fio"] = target.counts
    names = ["original", "model", "fio"]
    trails = [Trail(trail_of(name)) for name in names]
    described, reaches = describe_runs(load(model), trails)
    figures = list(rows(names, trails, described))
    shown = Table(box=rich.box.SIMPLE_HEAD)
    for title in ("", *names):
        shown.add_column(title, justify="right" if title else "left")
    for row in figures:
        shown.add_row(*row)
    console = Console(piped=120)
    console.print(shown)
    notes = [
        f"Each run is on an emulated {DEVICE} of its own, which recorded it. original: the recording, replayed at its times. fio: a "
        "job with the model's rate, mix, sizes and sequential shares (iotrail model export fio).",
        "Error of miss ratios: mean difference from the original's over sizes of the cache.",
        "Half of the answers of the disks came so much after the device's model, or more: "
        + ", ".join(f"{name} {units.duration(each['lateness_p50_ns'])}" for name, each in late.items())
        + ".",
    ]
    for note in notes:
        console.print(note, style="dim")
    html = OUTPUT / "model.html"
    maps = draw_maps(list(zip(names, described, strict=True)), reaches)
    page.write(
        html,
        document(
            "model demo",
            str(recorded),
            [
                *maps,
                tag("h2", "Figures"),
                table(["", *names], figures, wrap=None),
                *(tag("p", note, of="note") for note in notes),
            ],
        ),
    )
    say(f"Requests by offset and time: {html}")
    say(f"More: iotrail model check {model} --against {recorded} --on {DEVICE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
