# Reads a file a few bytes at a time, without a buffer.
# cause: small_reads
# where: input.bin
import os

with open("input.bin", "wb") as file:
    file.write(os.urandom(1 << 20) * 4)
data = os.open("input.bin", os.O_RDONLY)
while os.read(data, 8):
    pass
