"""Does random things to files in a store, and the same to files elsewhere, and compares; like fsx.

random_io.py SEED STEPS STORE ELSEWHERE
"""

import os
import random
import sys

MOST = 300_000  # bytes of a file: several caches' worth
FILES = 3


class Pair:
    """A file in the store, and one elsewhere that is treated alike."""

    def __init__(self, store: str, elsewhere: str) -> None:
        self.paths = (store, elsewhere)
        self.fds = self.opened(os.O_CREAT)

    def opened(self, flags: int = 0) -> list[int]:
        return [os.open(path, os.O_RDWR | flags, 0o644) for path in self.paths]

    def reopen(self, flags: int = 0) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = self.opened(flags)

    def size(self) -> int:
        size, expected = (os.fstat(fd).st_size for fd in self.fds)
        assert size == expected, f"{self.paths[0]}: size {size}, expected {expected}"
        return size

    def read(self, pos: int, length: int) -> None:
        data, expected = (os.pread(fd, length, pos) for fd in self.fds)
        if data != expected:
            at = next((n for n, (a, b) in enumerate(zip(data, expected, strict=False)) if a != b), None)
            raise AssertionError(
                f"{self.paths[0]}: read {len(data)} bytes at {pos}, expected {len(expected)}; "
                f"the first difference is at {at}"
            )

    def write(self, pos: int, data: bytes) -> None:
        for fd in self.fds:
            assert os.pwrite(fd, data, pos) == len(data)

    def truncate(self, size: int) -> None:
        for fd in self.fds:
            os.ftruncate(fd, size)

    def append(self, data: bytes) -> None:
        self.reopen(os.O_APPEND)
        for fd in self.fds:
            assert os.write(fd, data) == len(data)
        self.reopen()

    def rename(self, suffix: str) -> None:
        new = [path.partition("~")[0] + "~" + suffix for path in self.paths]
        for path, to in zip(self.paths, new, strict=True):
            os.rename(path, to)
        self.paths = (new[0], new[1])

    def begin_anew(self) -> None:
        """The old content goes on for whoever has it open."""
        old = self.fds
        for path in self.paths:
            os.unlink(path)
        self.fds = self.opened(os.O_CREAT | os.O_EXCL)
        new, self.fds = self.fds, old
        self.read(0, MOST)
        self.fds = new
        for fd in old:
            os.close(fd)


def main(seed: str, steps: int, store: str, elsewhere: str) -> None:
    choose = random.Random(seed)
    pairs = [Pair(f"{store}/{seed}-{n}", f"{elsewhere}/{seed}-{n}") for n in range(FILES)]
    for step in range(steps):
        pair = choose.choice(pairs)
        pos = choose.randrange(MOST)
        length = choose.choice([1, 7, 512, 4096, 5000, 20_000, 70_000, choose.randrange(1, MOST // 2)])
        match choose.choices(
            ["write", "read", "truncate", "append", "sync", "reopen", "rename", "anew"],
            [40, 40, 6, 6, 3, 3, 1, 1],
        )[0]:
            case "write":
                pair.write(pos, choose.randbytes(length))
            case "read":
                pair.read(pos, length)
            case "truncate":
                pair.truncate(choose.choice([0, pos, pos // 4096 * 4096]))
            case "append":
                pair.append(choose.randbytes(length % 10_000 + 1))
            case "sync":
                os.fsync(pair.fds[0])
            case "reopen":
                pair.reopen()
            case "rename":
                pair.rename(str(step))
            case _:
                pair.begin_anew()
        pair.size()
    for pair in pairs:
        pair.read(0, pair.size() + 1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
