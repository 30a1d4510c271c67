# Reads the same large file from its beginning to its end, again and again.
# cause: rereads
# where: lookup.bin
import os

with open("lookup.bin", "wb") as file:
    for _ in range(96):
        file.write(os.urandom(1 << 20))
for _ in range(40):
    lookup = os.open("lookup.bin", os.O_RDONLY)
    while os.read(lookup, 1 << 20):
        pass
    os.close(lookup)
