# A journal that is flushed after each record.
# cause: fsync_per_write
# where: journal.log
import os

journal = os.open("journal.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for number in range(500):
    os.write(journal, f"record {number:06} paid\n".encode())
    os.fsync(journal)
