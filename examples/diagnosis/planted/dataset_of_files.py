# Reads a data set of small files, one sample each, that are not cached.
# cause: small_files
# where: samples
# prepare: yes
# cold: yes
# held: yes
import os
import sys

if sys.argv[1:]:
    os.mkdir("samples")
    for number in range(8000):
        with open(f"samples/{number:05}.bin", "wb") as file:
            file.write(os.urandom(3000))
    sys.exit()
total = 0
for name in sorted(os.listdir("samples")):
    with open(f"samples/{name}", "rb") as file:
        total += len(file.read())
print(total)
