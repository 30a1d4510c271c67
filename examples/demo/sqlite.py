"""SQLite under load: writers that commit orders, readers that look customers up, for some seconds.

    sqlite.py FOLDER

The demo's workload where PostgreSQL isn't installed; needs nothing but Python.
"""

import os
import random
import sqlite3
import sys
import time
from pathlib import Path

CUSTOMERS = 200_000
SECONDS = 12
WRITERS, READERS = 2, 2


def connect(database: Path) -> sqlite3.Connection:
    """A connection that commits durably and caches 1 MiB, less than the tables."""
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-1024;")
    return connection


def load(database: Path) -> None:
    """Make the tables."""
    with connect(database) as connection:
        connection.execute("CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, balance INTEGER)")
        connection.execute("CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER)")
        connection.execute("CREATE INDEX purchase_customer ON purchase(customer)")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO customer VALUES (?, ?, 0)",
            ((number, f"customer {number:0100}") for number in range(CUSTOMERS)),
        )
        connection.execute("COMMIT")


def write(database: Path, seed: int) -> int:
    """Commit purchases until the time is over; how many."""
    chance, connection, done = random.Random(seed), connect(database), 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        customer, amount = chance.randrange(CUSTOMERS), chance.randrange(10_000)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO purchase(customer, amount) VALUES (?, ?)", (customer, amount))
        connection.execute("UPDATE customer SET balance = balance + ? WHERE id = ?", (amount, customer))
        connection.execute("COMMIT")
        done += 1
    return done


def read(database: Path, seed: int) -> int:
    """Look customers up until the time is over; how many."""
    chance, connection, done = random.Random(seed), connect(database), 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        customer = chance.randrange(CUSTOMERS)
        connection.execute("SELECT name, balance FROM customer WHERE id = ?", (customer,)).fetchone()
        done += 1
    return done


def main(folder: Path) -> int:
    """Fork the clients and wait for them."""
    database = folder / "shop.db"
    load(database)
    children = []
    for seed in range(WRITERS + READERS):
        child = os.fork()
        if child == 0:
            work = write if seed < WRITERS else read
            done = work(database, seed)
            print(f"{work.__name__} {seed}: {done} transactions", flush=True)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
