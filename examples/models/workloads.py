"""Block traces of applications whose data doesn't fit a small cache, made by rules that are written here.

Seeded: the same seed gives the same requests. Requests are large, so that few of them use tens of GB. Each maker returns
requests of one disk in the order of their arrivals, and takes how many there should be, about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

KIB, MIB, GB = 1 << 10, 1 << 20, 10**9
# Columns of what `write` writes, for iotrail import csv.
MAP = "ts=1,unit=ns,epoch=none,dev=2,op=3,pos=4,length=5,header=no,sep=comma"

Random = np.random.Generator
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Requests:
    """Requests of one disk, an element each. Times in ns from 0; addresses and lengths in bytes."""

    ts: Ints
    is_write: npt.NDArray[np.bool_]
    pos: Ints
    length: Ints

    def sorted(self) -> "Requests":
        """In the order of their times."""
        order = np.argsort(self.ts, kind="stable")
        return Requests(self.ts[order], self.is_write[order], self.pos[order], self.length[order])


def together(parts: list[Requests]) -> Requests:
    """Requests of several in the order of their times."""
    fields = ([getattr(each, name) for each in parts] for name in ("ts", "is_write", "pos", "length"))
    return Requests(*map(np.concatenate, fields)).sorted()


def choose_zipf(random: Random, things: int, count: int, exponent: float) -> Ints:
    """Numbers of things, of which the one of rank k is chosen in proportion to 1 / k ** exponent; ranks are in random order."""
    share = 1 / np.arange(1, things + 1) ** exponent
    return random.permutation(things)[random.choice(things, count, p=share / share.sum())].astype(np.int64)


def arrive(random: Random, count: int, mean_s: float, burst: float = 1.0) -> Ints:
    """Times in ns, `mean_s` apart on average: in bursts of `burst` on average, whose requests are 5 ms apart."""
    gaps = np.where(random.random(count) < 1 / burst, random.exponential(mean_s * burst, count), 0.005)
    return (np.cumsum(gaps) * 1e9).astype(np.int64)


def read_photos(random: Random, count: int) -> Requests:
    """User content: 80,000 photos of 64 KiB to 1 MiB, 45 GB, are read whole, some far more often than others (Zipf 0.6); 1 of 20
    visitors uploads one, which lies behind all others, and 1 of 10 looks at a new one."""
    photos, visits = 80_000, int(count / 1.5)
    uploads = random.random(visits) < 0.05
    sizes = random.integers(1, 17, photos + visits) * 64 * KIB
    places = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    photo = choose_zipf(random, photos, visits, 0.6)
    newest = photos + np.cumsum(uploads) - 1
    # how old a new photo is when it is looked at: mostly a few uploads
    recent = (random.random(visits) < 0.1) & (newest >= photos)
    age = random.geometric(0.02, visits)
    photo = np.where(recent, np.maximum(newest - age, photos), photo)
    photo = np.where(uploads, newest, photo)
    # a photo of more than 512 KiB is two requests
    ts, place, size = arrive(random, visits, 0.03, burst=4), places[photo], sizes[photo]
    first = np.minimum(size, 512 * KIB)
    second = size > first
    return together(
        [
            Requests(ts, uploads, place, first),
            Requests(
                ts[second] + 4_000_000, uploads[second], (place + first)[second], (size - first)[second]
            ),
        ]
    )


def search(random: Random, count: int) -> Requests:
    """Search: an index of 47 GB is read 512 KiB at a time, its terms by a Zipf law (0.6), two or three of them for a query."""
    terms, unit = 90_000, 512 * KIB
    chosen = choose_zipf(random, terms, count, 0.6)
    return Requests(
        arrive(random, count, 0.024, burst=2.5), np.zeros(count, bool), chosen * unit, np.full(count, unit)
    )


def deliver_mail(random: Random, count: int) -> Requests:
    """Mail: 5,000 mailboxes of 8 MiB, 42 GB. Most requests write a message of 64 KiB to 1 MiB anywhere in a mailbox, others read
    one that came a while ago, up to days; each delivery is noted in a log, in blocks of 64 KiB."""
    boxes, box = 5_000, 8 * MIB
    steps = int(count / 1.6)
    delivers = random.random(steps) < 0.6
    of = choose_zipf(random, boxes, steps, 0.5)
    place = of * box + random.integers(0, box // MIB, steps) * MIB
    length = random.integers(1, 17, steps) * 64 * KIB
    # who reads, reads what came some messages ago, tens as often as thousands
    delivered = np.flatnonzero(delivers)
    before = np.cumsum(delivers) - 1
    age = (10 ** random.uniform(0, 5, steps)).astype(np.int64)
    read = delivered[np.maximum(before - age, 0)]
    place, length = (np.where(delivers, each, each[read]) for each in (place, length))
    ts = arrive(random, steps, 0.025, burst=3)
    noted = ts[delivers] + 1_000_000
    log = boxes * box + np.arange(len(noted)) * 64 * KIB
    return together(
        [
            Requests(ts, delivers, place, length),
            Requests(noted, np.ones(len(noted), bool), log, np.full(len(noted), 64 * KIB)),
        ]
    )


def process_data(random: Random, count: int) -> Requests:
    """Data processing: 20 GB are read from begin to end, 1 MiB at a time, again and again; after every fourth read a result of
    256 KiB is written behind the last one, the next time over it."""
    blocks, unit = 20 * GB // MIB, MIB
    reads = int(count / 1.25)
    at = np.arange(reads, dtype=np.int64)
    ts = arrive(random, reads, 0.02)
    writes = at[3::4]
    result = 30 * GB // MIB * MIB + (writes % blocks) // 4 * 256 * KIB
    return together(
        [
            Requests(ts, np.zeros(reads, bool), at % blocks * unit, np.full(reads, unit)),
            Requests(
                ts[writes] + 2_000_000, np.ones(len(writes), bool), result, np.full(len(writes), 256 * KIB)
            ),
        ]
    )


def restore(random: Random, count: int) -> Requests:
    """Archive: 256 KiB anywhere in 800 GB, nearly none of them twice."""
    unit = 256 * KIB
    return Requests(
        arrive(random, count, 0.025),
        np.zeros(count, bool),
        random.integers(0, 800 * GB // unit, count) * unit,
        np.full(count, unit),
    )


Maker = Callable[[Random, int], Requests]
MAKERS: dict[str, Maker] = {
    "user content": read_photos,
    "search": search,
    "mail": deliver_mail,
    "data processing": process_data,
    "archive": restore,
}


def write(requests: Requests, path: Path) -> None:
    """Write requests as CSV (columns of MAP)."""
    rows = {
        "ts": requests.ts,
        "dev": np.full(len(requests.ts), "disk"),
        "op": np.where(requests.is_write, "w", "r"),
        "pos": requests.pos,
        "length": requests.length,
    }
    csv.write_csv(pa.table(rows), path, csv.WriteOptions(include_header=False, quoting_style="none"))
