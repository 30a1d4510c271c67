# Writes its whole state anew for each small change, over the same place.
# cause: overwritten_data
# where: state.bin
import os

state = bytearray(os.urandom(1 << 20))
with open("state.bin", "wb", buffering=0) as file:
    for number in range(1500):
        state[number] ^= 1
        os.pwrite(file.fileno(), state, 0)
