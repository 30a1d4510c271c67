"""A user of the store: files of blocks that are read, some much oftener than others, and at times written and synced.

load.py FOLDER SEED FILES BLOCKS OPERATIONS [WRITES]: FILES of BLOCKS blocks of 16 KiB are written, then OPERATIONS follow each
other, of which WRITES in a hundred (default 10) write. Which block is next follows Zipf's law; equal seeds, equal operations.
"""

import os
import random
import sys

BLOCK = 16384


def main() -> None:
    """Write the files, then read and write."""
    folder, seed, files, blocks, operations = sys.argv[1], *map(int, sys.argv[2:6])
    writes = int(sys.argv[6]) if len(sys.argv) > 6 else 10
    chance = random.Random(seed)
    content = chance.randbytes(BLOCK)
    opened = []
    for number in range(files):
        descriptor = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
        for _ in range(blocks):
            os.write(descriptor, content)
        os.fsync(descriptor)
        opened.append(descriptor)
    places = [(descriptor, block * BLOCK) for descriptor in opened for block in range(blocks)]
    chance.shuffle(places)
    weights = [1 / (rank + 8) for rank in range(len(places))]
    for descriptor, pos in chance.choices(places, weights, k=operations):
        if chance.randrange(100) < writes:
            os.pwrite(descriptor, content, pos)
            os.fsync(descriptor)
        else:
            os.pread(descriptor, BLOCK, pos)


main()
