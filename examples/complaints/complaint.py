#!/usr/bin/env python3
"""Two users' complaints about a small distributed store, seeded here, and what `iotrail explain` says of them.

complaint.py noisy [TRAIL]     another user's reads keep the disks busy
complaint.py tiny [TRAIL]      requests of 48 to 92 bytes, one at a time

README.md beside this file tells the stories.
"""

import datetime
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STORE = Path("examples", "store")
IOTRAIL = ROOT / ".venv" / "bin" / "iotrail"
KIB, MIB = 1024, 1024 * 1024
# Seconds that the users work.
LASTS = float(os.environ.get("COMPLAINT_SECONDS", "12"))


def at(start: float, second: float) -> None:
    """Wait for a moment: a second of the run."""
    time.sleep(max(0.0, start + second - time.monotonic()))


def reads_here_and_there(home: Path, start: float, _: float) -> None:
    """4 KiB at random, forty times a second."""
    chance = random.Random(1)
    with (home / "table").open("rb", buffering=0) as table:
        for number in range(round(LASTS * 40)):
            at(start, number / 40)
            os.pread(table.fileno(), 4 * KIB, chance.randrange(4096) * 4 * KIB)


def reads_streams(home: Path, start: float, since: float) -> None:
    """Large files with eight threads, from a moment on."""

    def stream(number: int) -> None:
        at(start, since)
        while time.monotonic() < start + LASTS:
            with (home / f"video-{number}").open("rb", buffering=0) as video:
                while time.monotonic() < start + LASTS and video.read(64 * KIB):
                    pass

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def writes_results(home: Path, start: float, _: float) -> None:
    """Results of 48 to 92 bytes, one after another, now and then one read again."""
    chance = random.Random(2)
    with (home / "results").open("w+b", buffering=0) as results:
        results.write(bytes(MIB))
        pos = 0
        while time.monotonic() < start + LASTS:
            length = chance.randrange(48, 93)
            os.pwrite(results.fileno(), bytes(length), pos)
            if chance.random() < 0.1:
                os.pread(results.fileno(), length, pos)
            pos += length


def keeps_records(home: Path, start: float, _: float) -> None:
    """What others do with the store: 16 KiB written and read, a hundred times a second."""
    chance = random.Random(3)
    with (home / "records").open("w+b", buffering=0) as records:
        for number in range(round(LASTS * 100)):
            at(start, number / 100)
            place = chance.randrange(256) * 16 * KIB
            os.pwrite(records.fileno(), bytes(16 * KIB), place)
            os.pread(records.fileno(), 16 * KIB, place)


Work = Callable[[Path, float, float], None]
# Each: the store's options, files there before, who does what, what `explain` is asked.
COMPLAINTS: dict[str, tuple[list[str], dict[str, int], dict[str, Work], list[str]]] = {
    "noisy": (
        ["--head", "--cache=4M", "--node", "--cache=1M", "--node", "--fault=slow-disk=1"],
        {"daemon/table": 16 * MIB, **{f"games/video-{number}": 16 * MIB for number in range(8)}},
        {"daemon": reads_here_and_there, "games": reads_streams},
        ["--client", "daemon", "--from", "HALF"],
    ),
    "tiny": (
        ["--node", "--fault=slow-disk=1"],
        {},
        {"daemon": writes_results, "games": keeps_records},
        ["--client", "daemon"],
    ),
}


def as_user(user: str, home: Path, work: Work, start: float) -> int:
    """Run a user's work in a process of that user; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        import pwd

        entry = pwd.getpwnam(user)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        work(home, start, LASTS / 2)
        status = 0
    except OSError as error:
        print(f"complaint: {user}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def run(command: list[str | Path]) -> None:
    """Show a command and run it."""
    words = [os.path.relpath(part) if isinstance(part, Path) else part for part in command]
    print("$", shlex.join(words), flush=True)
    subprocess.run(words, check=True)


def record(name: str, trail: Path) -> str:
    """Start the store, let its users work, end it. Returns when its users were half through."""
    options, files, users, _ = COMPLAINTS[name]
    folder = Path(tempfile.mkdtemp(prefix="iotrail-complaint-", dir="/var/tmp"))
    # users of this machine reach their homes in it
    folder.chmod(0o755)
    try:
        run([STORE / "up.sh", "--record", "--kernel=cpu", *options, str(folder)])
        try:
            mount = folder / "mnt"
            for user in users:
                (mount / user).mkdir()
                (mount / user).chmod(0o777)
            for file, length in files.items():
                with (mount / file).open("wb") as opened:
                    opened.write(os.urandom(length))
                    os.fsync(opened.fileno())
            began = time.monotonic()
            half = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=LASTS / 2)
            pids = [as_user(user, mount / user, work, began) for user, work in users.items()]
            failed = [pid for pid in pids if os.waitpid(pid, 0)[1]]
        finally:
            run([STORE / "down.sh", str(folder)])
        if failed:
            raise SystemExit("complaint: error: a user's program failed; see above")
        trail.parent.mkdir(exist_ok=True)
        shutil.rmtree(trail, ignore_errors=True)
        shutil.move(folder / "store.trail", trail)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return half.isoformat()


def main() -> int:
    """Record a complaint and ask why."""
    os.chdir(ROOT)
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in COMPLAINTS:
        print(f"usage: complaint.py {'|'.join(COMPLAINTS)} [TRAIL]", file=sys.stderr)
        return 2
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        print("complaint: error: mounting the store needs root and /dev/fuse", file=sys.stderr)
        return 1
    name = sys.argv[1]
    trail = Path(sys.argv[2] if len(sys.argv) == 3 else f"demo/complaint-{name}.trail")
    half = record(name, trail)
    asked = [half if word == "HALF" else word for word in COMPLAINTS[name][3]]
    run([IOTRAIL, "explain", trail, *asked, "--html", trail.with_suffix(".html")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
