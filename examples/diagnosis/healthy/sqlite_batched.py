# SQLite with a write-ahead log and transactions of many rows.
import sqlite3

db = sqlite3.connect("batched.db", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA synchronous=NORMAL")
db.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, what TEXT)")
for batch in range(20):
    db.execute("BEGIN")
    db.executemany("INSERT INTO row (what) VALUES (?)", ((f"row {batch} {i}",) for i in range(10_000)))
    db.execute("COMMIT")
print(db.execute("SELECT count(*) FROM row").fetchall())
