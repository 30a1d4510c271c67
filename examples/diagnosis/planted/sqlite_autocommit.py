# Inserts into SQLite, each a transaction of its own.
# cause: fsync_per_write, fsync_bound
# where: shop.db
# advice: transaction
import sqlite3

shop = sqlite3.connect("shop.db", isolation_level=None)
shop.execute("CREATE TABLE sale (id INTEGER PRIMARY KEY, what TEXT)")
for number in range(200):
    shop.execute("INSERT INTO sale (what) VALUES (?)", (f"article {number}",))
