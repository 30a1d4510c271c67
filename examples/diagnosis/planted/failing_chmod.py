# Removes again and again what is a directory, and ignores the error.
# cause: failing_calls
# where: unlink
# held: yes
import contextlib
import os

os.mkdir("spool")
for _ in range(150_000):
    with contextlib.suppress(OSError):
        os.unlink("spool")
