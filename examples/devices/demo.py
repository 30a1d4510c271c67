"""`make demo-device`: SQLite on a 7,200 rpm disk and on an SSD that this machine doesn't have, beside its own storage.

Each run is recorded; `iotrail whatif device` predicts the two from the recording on the machine's own storage. Prints one
table. As root: emulated disks are FUSE files behind loop devices. Trails stay in demo/.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rich.box
from rich.table import Table
from served import IOTRAIL, served

from iotrail.terminal import Console
from iotrail.trail import Trail

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = Path("demo")
DEVICES = ("hdd-7200", "sata-ssd")
SIZE = "2G"
# Each is a transaction: the journal and the database are flushed.
TRANSACTIONS = 200


def work(folder: Path) -> list[str]:
    """SQLite: a table of some MiB, then transactions that each change one row."""
    script = folder / "work.sql"
    lines = [
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, note TEXT);",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        "INSERT INTO account SELECT i, 0, printf('%.200c', 'x') FROM n;",
        *(
            f"UPDATE account SET balance = balance + 1 WHERE id = {number * 7919 % 20000 + 1};"
            for number in range(TRANSACTIONS)
        ),
    ]
    script.write_text("\n".join(lines) + "\n")
    return ["sqlite3", "-init", str(script), str(folder / "accounts.db"), ""]


def has_journal(place: Path) -> bool:
    """Whether the file system of a directory has a journal: all of today have, but ext4 may be without."""
    device = place.stat().st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    return not Path("/proc/fs/ext4", name).exists() or any(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def prepare(target: str, mounted: Path) -> None:
    """Make a file system on a device, and mount it."""
    mounted.mkdir()
    # laziness would write inode tables during the run
    options = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
    if not has_journal(OUTPUT):
        options += ["-O", "^has_journal"]
    subprocess.run(["mkfs.ext4", "-q", *options, target], check=True)
    subprocess.run(["mount", target, mounted], check=True)


def record(name: str, place: Path) -> tuple[Path, float]:
    """Record the work in a directory: the trail, and how long the program ran."""
    folder = place / "iotrail-demo"
    folder.mkdir()
    trail = OUTPUT / f"device-{name}.trail"
    command = work(folder)
    start = time.monotonic()
    subprocess.run(
        # of the whole machine: a journal's requests are the kernel's
        [IOTRAIL, "record", "--kernel=disk", "--system", "--force", "-o", trail, "--", *command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    elapsed = time.monotonic() - start
    shutil.rmtree(folder)
    return trail, elapsed


def ask(*words: object) -> dict:
    """What an iotrail verb answers as JSON."""
    done = subprocess.run([IOTRAIL, *words, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> int:
    """Record on each storage, predict, print."""
    if os.geteuid() != 0:
        print("demo: error: emulated disks behind loop devices need root", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    seconds, flushes, late, trails = {}, {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="iotrail-demo-", dir=OUTPUT) as name:
        print("SQLite on this machine's storage …", flush=True)
        trails["own"], seconds["own"] = record("own", Path(name))
    for device in DEVICES:
        with tempfile.TemporaryDirectory(prefix="iotrail-demo-") as name:
            print(f"SQLite on an emulated {device} …", flush=True)
            folder, mounted = Path(name), Path(name) / "mounted"
            with served(device, folder / "emulated", "--size", SIZE, "--loop") as disk:
                prepare(disk.target, mounted)
                try:
                    trails[device], seconds[device] = record(device, mounted)
                finally:
                    subprocess.run(["umount", mounted], check=False)
            late[device] = disk.counts["lateness_p50_ns"] / 1e6
    query = "SELECT CAST(SUM(dur) AS BIGINT) AS total, COUNT(*) AS count FROM op WHERE kind = 'flush' AND dur IS NOT NULL"
    for name, trail in trails.items():
        [[total, count]] = Trail(trail).query(query).fetchall()
        flushes[name] = (total or 0) / max(count, 1) / 1e6
    wanted = [word for device in DEVICES for word in ("--on", device)]
    predicted = ask("whatif", "device", trails["own"], *wanted)
    recorded = predicted["recorded"]["elapsed_ns"] / 1e9
    table = Table(box=rich.box.SIMPLE_HEAD)
    for title in ("", "elapsed", "predicted", "flush", "request, mean", "late"):
        table.add_column(title, justify="right" if title else "left")
    own = mean(predicted["recorded"])
    table.add_row(
        "this machine's storage",
        f"{seconds['own']:.2f} s",
        "",
        f"{flushes['own']:.2f} ms",
        f"{own:.2f} ms",
        "",
    )
    for device, each in zip(DEVICES, predicted["simulated"], strict=True):
        # what the program did besides waiting for the disk stays
        ends = [
            each[way]["elapsed_ns"] / 1e9 - recorded + seconds["own"]
            for way in ("arrivals_recorded", WAITING)
        ]
        span = f"{min(ends):.2f} – {max(ends):.2f} s"
        figures = flushes[device], mean(each[WAITING]), late[device]
        of_device = [f"{figure:.2f} ms" for figure in figures]
        table.add_row(each["device"], f"{seconds[device]:.2f} s", span, *of_device)
    Console(piped=120).print(table)
    print(
        "predicted: by iotrail whatif device from the recording on this machine's storage: if nobody waits for requests, and"
    )
    print(
        "if each request waits for the completion before it. request, mean: recorded, and predicted. late: half of the answers"
    )
    print(
        "of the emulated device came so much after its model's, or more, which adds to elapsed and isn't in the prediction."
    )
    for device in DEVICES:
        found = ask("diff", trails["own"], trails[device])
        print(f"iotrail diff, {device}: {found['verdict']}")
    print(f"More: iotrail diff {trails['own']} {trails[DEVICES[0]]}; iotrail report {trails[DEVICES[0]]}")
    return 0


WAITING = "arrivals_after_completions"


def mean(outcome: dict) -> float:
    """Mean response time of all requests, in ms."""
    times = outcome["times"]
    count = sum(each["count"] for each in times)
    return sum(each["mean_ns"] * each["count"] for each in times) / max(count, 1) / 1e6


if __name__ == "__main__":
    sys.exit(main())
