"""An application on SQLite whose requests come in bursts: `application.py create|run DATABASE SECONDS`.

Seeded: the same seed does the same operations. A minute of a small shop: clients look up items, most of them a few popular
ones, place orders that are flushed one by one, pause; now and then somebody reads a whole table.
"""

import random
import sqlite3
import sys
import time

ITEMS = 200_000
# Bytes of an item's text: the table is much larger than SQLite's cache.
TEXT = 700
# Operations of a burst, and the mean pause after one, s.
BURST = (5, 60)
PAUSE = 0.4
# Of bursts, those that read a stretch of the table from begin to end.
SCANS = 0.05
STRETCH = 10_000


def create(path: str) -> None:
    """Fill the database."""
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER, text TEXT)")
    base.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item INTEGER, at REAL)")
    rows = ((number, 1000, f"{number:x}" * (TEXT // len(f"{number:x}"))) for number in range(ITEMS))
    base.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
    base.commit()
    base.close()


def run(path: str, seconds: float, seed: int = 1) -> None:
    """Bursts of operations for some seconds."""
    draw = random.Random(seed)
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA cache_size = -2000")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if draw.random() < SCANS:
            first = draw.randrange(ITEMS - STRETCH)
            base.execute(
                "SELECT SUM(LENGTH(text)) FROM item WHERE id BETWEEN ? AND ?", (first, first + STRETCH)
            ).fetchall()
        for _ in range(draw.randint(*BURST)):
            if time.monotonic() >= end:
                break
            # a Pareto law: most operations are for few items
            item = min(int(20 * (draw.paretovariate(0.35) - 1)), ITEMS - 1) * 7919 % ITEMS
            if draw.random() < 0.3:
                base.execute("BEGIN")
                base.execute("UPDATE item SET stock = stock - 1 WHERE id = ?", (item,))
                base.execute("INSERT INTO orders (item, at) VALUES (?, 0)", (item,))
                base.execute("COMMIT")
            else:
                base.execute("SELECT text FROM item WHERE id = ?", (item,)).fetchall()
        time.sleep(draw.expovariate(1 / PAUSE))
    base.close()


if __name__ == "__main__":
    if sys.argv[1] == "create":
        create(sys.argv[2])
    else:
        run(sys.argv[2], float(sys.argv[3]))
