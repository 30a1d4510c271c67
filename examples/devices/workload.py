"""A block trace of a file server whose files grew a piece at a time, side by side: what fragments real ones.

Seeded: the same seed gives the same trace. Clients read some pieces of a file one after the other and write single ones; a few
files are used most (a Zipf distribution).
"""

from pathlib import Path

import numpy as np

UNIT = 256 * 1024
# Of a file; pieces of 1 to 4 units lie together.
UNITS = 32
FILES = 6000
LARGEST_PIECE = 4
# Time in ns, device, operation, offset and bytes, inode and offset in the file.
MAP = "ts=1,unit=ns,dev=2,op=3,pos=4,length=5,inode=6,file_pos=7,header=no,sep=comma"


def write(path: Path, requests: int, *, seed: int = 1) -> None:
    """Write about so many requests as CSV (columns of MAP): 48 GB of files, some 30 requests per second."""
    random = np.random.default_rng(seed)
    place = _places(random)
    # how often files are used, and how many units a client uses
    share = 1 / np.arange(1, FILES + 1) ** 0.9
    sessions = requests // 5
    files = random.permutation(FILES)[random.choice(FILES, sessions, p=share / share.sum())]
    is_write = random.random(sessions) < 0.3
    counts = np.where(is_write, 1, random.integers(1, 14, sessions))
    starts = np.cumsum(random.exponential(0.17, sessions))
    session = np.repeat(np.arange(sessions), counts)
    step = np.arange(len(session)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = (random.random(sessions) * (UNITS - counts + 1)).astype(np.int64)
    unit = first[session] + step
    # a client thinks a little between its reads
    think = random.exponential(0.01, len(session))
    think[step == 0] = 0
    since = np.cumsum(think)
    since -= np.repeat(since[np.cumsum(counts) - counts], counts)
    ts = ((starts[session] + since + step * 0.015) * 1e9).astype(np.int64)
    order = np.argsort(ts, kind="stable")
    with path.open("w") as out:
        for at in order.tolist():
            number = session[at]
            file = files[number]
            out.write(
                f"{ts[at]},server,{'w' if is_write[number] else 'r'},{place[file, unit[at]]},{UNIT},{file + 1},{unit[at] * UNIT}\n"
            )


def _places(random: np.random.Generator) -> np.ndarray:
    """The place of each unit of each file: files grow by pieces, at random times, each behind what was written last."""
    place = np.zeros((FILES, UNITS), np.int64)
    grown = np.zeros(FILES, np.int64)
    end = 0
    # files of a time grow side by side
    for group in np.array_split(np.arange(FILES), FILES // 50):
        left = list(group)
        while left:
            at = int(random.integers(len(left)))
            file = left[at]
            count = min(int(random.integers(1, LARGEST_PIECE + 1)), UNITS - int(grown[file]))
            place[file, grown[file] : grown[file] + count] = (end + np.arange(count)) * UNIT
            grown[file] += count
            end += count
            if grown[file] == UNITS:
                left.pop(at)
    return place
