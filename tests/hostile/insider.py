"""A program of another user inside a recording, which knows where the session is: plants what it can there.

Usage: insider.py VICTIM_PID PRECIOUS_FILE; says what it planted, and what it was refused.
"""

import os
import re
import struct
import sys
from contextlib import suppress
from pathlib import Path

HEADER = 36864  # everything before the first ring: crates/format/src/segment.rs

victim, precious = int(sys.argv[1]), sys.argv[2]
session = Path(os.environ["IOTRAIL_SESSION"])
own = re.search(r" (/\S+/seg-\S+)", Path("/proc/self/maps").read_text())
assert own, "this program is not being recorded"
with open(own[1], "rb") as segment:
    header = bytearray(segment.read(HEADER))
(start,) = struct.unpack_from("<Q", header, 24)


def name(pid: int, ticks: int) -> Path:
    return session / f"seg-{pid:08x}-{ticks:016x}"


# A segment of the victim, newer than its own: as if it had become another program.
struct.pack_into("<I", header, 12, victim)
struct.pack_into("<Q", header, 24, start + 1)
name(victim, start + 1).write_bytes(header)
# Files of others, a pipe that nobody reads, more memory than a segment has, and a folder.
name(victim, start + 2).symlink_to(precious)
os.mkfifo(name(victim, start + 3))
with open(name(victim, start + 4), "wb") as large:
    large.truncate(3 << 30)
name(victim, start + 5).mkdir()
for planted in ("journal-7", "carry", "carry.new", "control.new"):
    (session / planted).symlink_to(precious)
print("planted", flush=True)

for attempt in (
    lambda: os.listdir(session),
    lambda: os.listdir(session.parent),
    lambda: (session.parent / "carry").symlink_to(precious),
    lambda: os.rename(session / "control", session / "gone"),
    lambda: os.unlink(session / "control"),
    lambda: os.truncate(session / "control", 0),
    lambda: os.chmod(session / "control", 0o666),
    lambda: open(session / "control", "r+b").close(),
):
    with suppress(PermissionError):
        attempt()
        print("allowed", flush=True)
