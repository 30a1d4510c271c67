# Writes to a full device and loses the data.
# cause: io_errors
# where: /dev/full
# held: yes
import contextlib
import os

device = os.open("/dev/full", os.O_WRONLY)
for _ in range(2000):
    with contextlib.suppress(OSError):
        os.write(device, b"x" * 4096)
