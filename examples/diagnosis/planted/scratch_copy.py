# Writes temporary data that nobody reads, and removes it.
# cause: unread_temporaries
# where: scratch
# held: yes
import os

for number in range(6):
    with open(f"scratch{number}", "wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
    os.unlink(f"scratch{number}")
