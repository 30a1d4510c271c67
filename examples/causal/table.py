#!/usr/bin/env python3
"""Processes that insert into one table of SQLite, each transaction durable, and try again where another one has the lock.

table.py FOLDER WAL|DELETE TRANSACTIONS
"""

import os
import sqlite3
import sys

PROCESSES = 4


def connect(folder: str) -> sqlite3.Connection:
    """Open the database."""
    connection = sqlite3.connect(f"{folder}/table", timeout=60, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def insert(folder: str, who: int, transactions: int) -> None:
    """What one process does."""
    mine = connect(folder)
    for _ in range(transactions):
        sum(each * each for each in range(3000))
        mine.execute("BEGIN IMMEDIATE")
        mine.execute("INSERT INTO line (who, text) VALUES (?, ?)", (who, "x" * 200))
        mine.execute("COMMIT")
    mine.close()


def main() -> None:
    """Make the table, and fill it."""
    folder, journal, transactions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    first = connect(folder)
    first.execute(f"PRAGMA journal_mode = {journal}")
    first.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, who INT, text TEXT)")
    first.close()
    for who in range(PROCESSES):
        if os.fork() == 0:
            insert(folder, who, transactions)
            os._exit(0)
    for _ in range(PROCESSES):
        os.wait()


main()
