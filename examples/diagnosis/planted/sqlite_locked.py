# A reader and writer of SQLite that wait for another process's long transaction, trying again and again.
# cause: file_lock
# where: orders.db
import os
import sqlite3
import time

db = sqlite3.connect("orders.db", isolation_level=None)
db.execute("CREATE TABLE item (id INTEGER)")
db.close()
if os.fork() == 0:
    db = sqlite3.connect("orders.db", isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    db.execute("INSERT INTO item VALUES (1)")
    time.sleep(2)
    db.execute("COMMIT")
    os._exit(0)
time.sleep(0.2)
db = sqlite3.connect("orders.db", isolation_level=None, timeout=30)
db.execute("INSERT INTO item VALUES (2)")
os.wait()
