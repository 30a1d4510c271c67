"""Writes blktrace binaries for the tests, after include/uapi/linux/blktrace_api.h."""

import struct

MAGIC = 0x65617407
READ, WRITE, QUEUE_CAT, ISSUE_CAT, COMPLETE_CAT, PC, NOTIFY, DISCARD = (
    1,
    2,
    1 << 4,
    1 << 6,
    1 << 7,
    1 << 9,
    1 << 10,
    1 << 13,
)
Q, M, F, R, D, C, X = 1, 2, 3, 6, 7, 8, 13


def event(
    time: int, action: int, sector: int = 0, size: int = 0, kind: int = READ, pid: int = 10, error: int = 0,
    pdu: bytes = b"", device: int = (8 << 20) | 16, order: str = "<", cgroup: bool = False,
) -> bytes:  # fmt: skip
    """One record."""
    if cgroup:
        pdu, action = bytes(8) + pdu, action | 1 << 8
    head = struct.pack(
        order + "IIQQIIIIIHH",
        *(MAGIC, 1, time, sector, size, action | kind << 16, pid, device, 0, error & 0xFFFF, len(pdu)),
    )
    return head + pdu


def process(pid: int, name: str, order: str = "<") -> bytes:
    """A note that names a process."""
    return event(0, 0, kind=NOTIFY, pid=pid, pdu=name.encode().ljust(16, b"\0"), order=order)


def wall_clock(time: int, seconds: int, nanoseconds: int, order: str = "<") -> bytes:
    """A note of the wall clock."""
    return event(
        time, 1, kind=NOTIFY, pid=0, pdu=struct.pack(order + "II", seconds, nanoseconds), order=order
    )
