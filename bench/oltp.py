"""Transactions on an SQLite database, in the shape of Stardust's OLTP workload: read-modify-write of single records at
random, in pages of 8 KB, few of which are cached.

    oltp.py DIR ROWS TRANSACTIONS     prints a line of JSON, as client.c does
"""

import json
import random
import sqlite3
import sys
import time
from pathlib import Path

from measure import SEED

UPDATES = 3
# Pages of the database that SQLite keeps.
CACHED = 64


def main(folder: Path, rows: int, transactions: int) -> None:
    """Fill a database and change it; the filling isn't timed."""
    database = sqlite3.connect(folder / "bank.db", isolation_level=None)
    database.execute("PRAGMA page_size = 8192")
    database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT)")
    database.execute("BEGIN")
    filler = "x" * 200
    database.executemany("INSERT INTO account VALUES (?, 0, ?)", ((n, filler) for n in range(rows)))
    database.execute("COMMIT")
    database.execute(f"PRAGMA cache_size = {CACHED}")
    chance = random.Random(SEED)
    latencies = []
    start = time.perf_counter_ns()
    for _ in range(transactions):
        began = time.perf_counter_ns()
        database.execute("BEGIN IMMEDIATE")
        for _ in range(UPDATES):
            account = chance.randrange(rows)
            (balance,) = database.execute("SELECT balance FROM account WHERE id = ?", (account,)).fetchone()
            database.execute("UPDATE account SET balance = ? WHERE id = ?", (balance + 1, account))
        database.execute("COMMIT")
        latencies.append(time.perf_counter_ns() - began)
    took = time.perf_counter_ns() - start
    (total,) = database.execute("SELECT sum(balance) FROM account").fetchone()
    if total != transactions * UPDATES:
        raise SystemExit(f"oltp: the balances are {total}, expected {transactions * UPDATES}")
    latencies.sort()
    told = {
        "operations": transactions,
        "seconds": took / 1e9,
        "mean": sum(latencies) / transactions,
        "p50": latencies[transactions // 2],
        "p99": latencies[transactions * 99 // 100],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
