# Walks a file of lines backwards with seek and read, as a naive `tac` does, not cached.
# cause: backward_reads
# where: lines.txt
# prepare: yes
# cold: yes
# held: yes
import os
import sys

PIECE = 6000
if sys.argv[1:]:
    with open("lines.txt", "wb") as file:
        for _ in range(96):
            file.write(os.urandom(1 << 20))
    sys.exit()
with open("lines.txt", "rb", buffering=0) as file:
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        at = max(0, at - PIECE)
        file.seek(at)
        file.read(PIECE)
