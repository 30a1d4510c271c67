#!/usr/bin/env python3
"""Orders for a SQLite database: the program of docs/tutorial.md.

orders.py DATABASE [N]     2,000 orders, N of them in each transaction (default 1)
"""

import sqlite3
import sys

ORDERS = 2000


def main() -> None:
    """Writes all orders."""
    path, each = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT, cents INTEGER)")
    for first in range(0, ORDERS, each):
        database.execute("BEGIN")
        for number in range(first, min(first + each, ORDERS)):
            row = (number, f"customer {number % 97}", 100 + number % 9000)
            database.execute("INSERT INTO orders VALUES (?, ?, ?)", row)
        database.execute("COMMIT")
    database.close()


if __name__ == "__main__":
    main()
