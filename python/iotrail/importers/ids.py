"""Ids of what a foreign trace names: the same 63-bit hash as `crates/format/src/ids.rs`, so that a file
has one id whether it was recorded or imported (a test holds the two equal).

Hashed are names only, a few for each trace, never records. That is why it isn't left to `iotrail-native`: a row
needs its ids before it is streamed there, and asking a process for a few hashes costs more than this loop.
"""

from functools import cache

_MASK = (1 << 64) - 1


@cache
def hash63(name: bytes) -> int:
    """FNV-1a finished with MurmurHash3's mixer; positive, never 0."""
    value = 0xCBF29CE484222325
    for byte in name:
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    value ^= value >> 33
    value = (value * 0xFF51AFD7ED558CCD) & _MASK
    value ^= value >> 33
    value = (value * 0xC4CEB9FE1A85EC53) & _MASK
    value ^= value >> 33
    return (value & ((1 << 63) - 1)) or 1


def _of(name: str) -> int:
    # the bytes a name had, also where they are no UTF-8
    return hash63(name.encode("utf-8", "surrogateescape"))


def file_id(path: str) -> int:
    """The id of a path."""
    return _of(path)


def process_id(node: str, pid: int, image: int = 0) -> int:
    """The id of the nth program image of a pid. A recorder hashes the start's counter, a trace has none."""
    return _of(f"process {node} {pid} {image}")


def thread_id(process: int, tid: int) -> int:
    """The id of a thread."""
    return _of(f"thread {process} {tid}")
