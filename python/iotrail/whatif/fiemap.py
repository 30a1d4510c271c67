"""Where files of this machine lie on its disks: the kernel's own map of them (FIEMAP).

Follows Documentation/filesystems/fiemap.rst and linux/fiemap.h: extents whose place is no place on the disk (not allocated
yet, compressed or encrypted, inside of the inode) are left out.
"""

import array
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FS_IOC_FIEMAP = 0xC020660B
_SYNC = 1
_LAST = 0x1
# FIEMAP_EXTENT_UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL
_NO_PLACE = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400
_HEADER = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")
_AT_ONCE = 512
_SECTOR = 512


@dataclass(frozen=True)
class Extent:
    """A part of a file on its disk, in bytes."""

    file_pos: int
    pos: int
    length: int


def disk_of(number: int) -> tuple[str, int] | None:
    """The name of the disk with a file system whose files have this `st_dev`, and where on it that begins; None if it is none."""
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        # a file system without a disk, or on several (btrfs)
        return None
    device = device.resolve()
    if not (device / "partition").exists():
        return device.name, 0
    return device.parent.name, int((device / "start").read_text()) * _SECTOR


def extents(path: Path) -> Iterator[Extent]:
    """The extents of a regular file in its order, without those that have no place. Holes are none.

    Raises:
        OSError: the file can't be opened, or its file system has no such map.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        start = 0
        while True:
            header = _HEADER.pack(start, (1 << 64) - 1 - start, _SYNC, 0, _AT_ONCE, 0)
            buffer = array.array("B", header + bytes(_EXTENT.size * _AT_ONCE))
            fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
            count = _HEADER.unpack_from(buffer)[3]
            for at in range(count):
                logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(
                    buffer, _HEADER.size + at * _EXTENT.size
                )
                if not flags & _NO_PLACE:
                    yield Extent(logical, physical, length)
                start = logical + length
                if flags & _LAST:
                    return
            if count == 0:
                return
    finally:
        os.close(descriptor)
