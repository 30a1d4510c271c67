# Searches a mapped file that is not cached, here and there.
# cause: mapped_files
# where: corpus.bin
# prepare: yes
# cold: yes
# held: yes
import mmap
import os
import random
import sys

SIZE = 512 << 20
if sys.argv[1:]:
    with open("corpus.bin", "wb") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
    sys.exit()
random.seed(7)
with open("corpus.bin", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as corpus:
    corpus.madvise(mmap.MADV_RANDOM)
    total = 0
    for _ in range(6000):
        total += corpus[random.randrange(SIZE)]
print(total)
