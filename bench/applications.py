"""Applications whose requests to a disk `make bench NAME=model` fits models to.

    applications.py NAME create|run FOLDER SECONDS

Each makes its files in a folder, and later works on them for some seconds, seeded; `record` runs one on ext4 on an emulated
disk, with little memory for the page cache, so that data that are used again are read again.
"""

import compileall
import contextlib
import mailbox
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from measure import ROOT, SEED

sys.path += [str(ROOT / "examples" / "devices"), str(ROOT / "examples" / "models")]
import application
from served import served

# Bytes of memory of an application with its part of the page cache.
MEMORY = 96 << 20
SIZE = "3G"


def zipf(count: int, exponent: float) -> Callable[[random.Random], int]:
    """Draws numbers below `count`, the n-th most frequent as often as n to the minus `exponent`; frequent ones are anywhere."""
    weights = list(accumulate((n + 1) ** -exponent for n in range(count)))
    return lambda chance: chance.choices(range(count), cum_weights=weights)[0] * 7919 % count


def oltp_create(folder: Path) -> None:
    """A shop on SQLite."""
    application.create(str(folder / "shop.db"))


def oltp_run(folder: Path, seconds: float) -> None:
    """Lookups and orders in bursts."""
    application.run(str(folder / "shop.db"), seconds)


KEYS = 400_000


def store(folder: Path) -> Any:
    """LevelDB."""
    import plyvel

    return plyvel.DB(str(folder / "store"), create_if_missing=True, lru_cache_size=4 << 20)


def key_value_create(folder: Path) -> None:
    """400,000 values of 1,000 bytes."""
    chance = random.Random(SEED)
    with store(folder) as base:
        for first in range(0, KEYS, 1000):
            with base.write_batch() as batch:
                for key in range(first, first + 1000):
                    batch.put(b"%08d" % key, chance.randbytes(1000))


def key_value_run(folder: Path, seconds: float) -> None:
    """Seven reads of a value to three writes, by Zipf's law."""
    chance, draw, end = random.Random(SEED + 1), zipf(KEYS, 0.9), time.monotonic() + seconds
    with store(folder) as base:
        while time.monotonic() < end:
            key = b"%08d" % draw(chance)
            if chance.random() < 0.3:
                base.put(key, chance.randbytes(1000), sync=chance.random() < 0.1)
            else:
                base.get(key)
            time.sleep(chance.expovariate(200))


WORDS, DOCUMENTS = 30_000, 30_000


def search_create(folder: Path) -> None:
    """A full-text index of 30,000 documents."""
    chance, draw = random.Random(SEED), list(accumulate((n + 1) ** -0.8 for n in range(WORDS)))
    base = sqlite3.connect(folder / "index.db")
    base.execute("CREATE VIRTUAL TABLE document USING fts5 (text)")
    texts = (
        (" ".join(f"w{n}" for n in chance.choices(range(WORDS), cum_weights=draw, k=300)),)
        for _ in range(DOCUMENTS)
    )
    base.executemany("INSERT INTO document VALUES (?)", texts)
    base.commit()
    base.close()


def search_run(folder: Path, seconds: float) -> None:
    """Queries for two words, frequent ones more often, and the texts of ten documents that have both."""
    chance, draw, end = random.Random(SEED + 1), zipf(WORDS // 10, 0.7), time.monotonic() + seconds
    base = sqlite3.connect(folder / "index.db")
    base.execute("PRAGMA cache_size = -1000")
    while time.monotonic() < end:
        words = f"w{50 + draw(chance)} AND w{50 + draw(chance)}"
        base.execute("SELECT text FROM document WHERE document MATCH ? LIMIT 10", (words,)).fetchall()
        time.sleep(chance.expovariate(15))
    base.close()


FILMS, FILM = 12, 96 << 20


def streaming_create(folder: Path) -> None:
    """Twelve films of 96 MiB."""
    for film in range(FILMS):
        (folder / f"{film}.film").write_bytes(os.urandom(FILM))


def streaming_run(folder: Path, seconds: float) -> None:
    """Eight viewers at 2 MB/s, who begin anywhere in a film and stay for some seconds."""
    end = time.monotonic() + seconds

    def view(viewer: int) -> None:
        chance, draw = random.Random(SEED + viewer), zipf(FILMS, 1.0)
        while time.monotonic() < end:
            with (folder / f"{draw(chance)}.film").open("rb", buffering=0) as film:
                film.seek(chance.randrange(FILM))
                stop = time.monotonic() + chance.expovariate(1 / 6)
                while time.monotonic() < min(stop, end) and film.read(256 << 10):
                    time.sleep(256 / 2000)

    viewers = [threading.Thread(target=view, args=(number,)) for number in range(8)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()


BOXES = 40


def message(chance: random.Random) -> str:
    """A mail of a few KB, or now and then of more."""
    size = int(min(1500 * chance.paretovariate(1.1), 2 << 20))
    return f"From: a@example.com\nSubject: {size}\n\n{chance.randbytes(size // 2).hex()}\n"


def mail_create(folder: Path) -> None:
    """Forty mailboxes with 200 mails each."""
    chance = random.Random(SEED)
    for number in range(BOXES):
        box = mailbox.Maildir(folder / f"box{number}", create=True)
        for _ in range(200):
            box.add(message(chance))


def mail_run(folder: Path, seconds: float) -> None:
    """Mails arrive in bursts, each flushed; people read some, and delete some."""
    chance, draw, end = random.Random(SEED + 1), zipf(BOXES, 0.8), time.monotonic() + seconds
    while time.monotonic() < end:
        box = mailbox.Maildir(folder / f"box{draw(chance)}")
        for _ in range(chance.randint(1, 12)):
            what = chance.random()
            if what < 0.5:
                box.add(message(chance))
                continue
            mails = sorted(box.keys())
            name = chance.choice(mails)
            if what < 0.9:
                box.get_bytes(name)
            elif len(mails) > 50:
                box.remove(name)
        time.sleep(chance.expovariate(4))


def build_create(folder: Path) -> None:
    """The sources of Python's library."""
    for number in range(3):
        ignore = shutil.ignore_patterns("__pycache__", "site-packages", "test", "config-*", "*.so", "*.a")
        shutil.copytree(sysconfig.get_path("stdlib"), folder / f"library{number}", ignore=ignore)


def build_run(folder: Path, seconds: float) -> None:
    """Compiles them, one tree after the other."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for tree in sorted(folder.iterdir()):
            for source in tree.rglob("*.py") if tree.name.startswith("library") else ():
                if time.monotonic() < end:
                    compileall.compile_file(source, force=True, quiet=2)


APPLICATIONS = {
    "OLTP": (oltp_create, oltp_run),
    "key-value": (key_value_create, key_value_run),
    "search": (search_create, search_run),
    "streaming": (streaming_create, streaming_run),
    "mail": (mail_create, mail_run),
    "build": (build_create, build_run),
}


@contextlib.contextmanager
def limited() -> Iterator[Callable[[], None]]:
    """What a child calls to have no more than MEMORY, with what the page cache keeps for it (control groups, version 1 or 2)."""
    root = Path("/sys/fs/cgroup")
    first = (root / "memory").is_dir()
    group = (root / "memory" if first else root) / f"iotrail-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(MEMORY))
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None
    finally:
        group.rmdir()


@contextlib.contextmanager
def mounted(target: str, folder: Path) -> Iterator[None]:
    """A file system of a loop device."""
    subprocess.run(["mount", "-o", "noatime", target, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def record(name: str, device: str, seconds: float, trail: Path) -> None:
    """The requests of an application to an emulated disk, as a trail. Its files are made on a fast one before. As root."""
    command = [sys.executable, "-W", "ignore", __file__, name]
    with (
        tempfile.TemporaryDirectory(dir=trail.parent) as held,
        tempfile.TemporaryDirectory(dir=trail.parent) as place,
    ):
        disk, folder = Path(held), Path(place)
        with served("sata-ssd", disk, "--size", SIZE, "--loop") as fast:
            subprocess.run(
                ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", fast.target], check=True
            )
            with mounted(fast.target, folder):
                subprocess.run([*command, "create", folder, "0"], check=True)
        with (
            served(device, disk, "--size", SIZE, "--loop", "-o", trail) as slow,
            mounted(slow.target, folder),
            limited() as limit,
        ):
            subprocess.run([*command, "run", folder, str(seconds)], check=True, preexec_fn=limit)


if __name__ == "__main__":
    name, what, folder, seconds = sys.argv[1:]
    create, run = APPLICATIONS[name]
    if what == "create":
        create(Path(folder))
    else:
        run(Path(folder), float(seconds))
