# Computes for most of its time, and reads a little.
# cause: storage_idle
import hashlib

with open("seed.txt", "w") as file:
    file.write("seed\n")
digest = b""
for number in range(1_200_000):
    if number % 1000 == 0:
        with open("seed.txt", "rb") as file:
            digest += file.read()
    digest = hashlib.sha256(digest).digest()
print(digest.hex())
