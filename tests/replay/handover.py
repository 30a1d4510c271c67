"""Programs in which one thread or process reads what another wrote: `handover.py KIND SEED FOLDER`.

KIND is threads or processes. Each round hands over by one of several ways, drawn by SEED; the reader never reads before
it was told to, and gets all it asks for, or notes the end of the file where it says so. `race` and `apart` are the
controls: two that overlap on purpose, and two that have nothing to do with each other.
"""

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable

ROUNDS = 24
kind, seed, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
drawn = random.Random(seed)


def at(name: str) -> str:
    return os.path.join(folder, name)


def write(name: str, flags: int, data: bytes, pos: int | None = None) -> None:
    fd = os.open(at(name), os.O_WRONLY | flags, 0o644)
    if pos is None:
        os.write(fd, data)
    else:
        os.pwrite(fd, data, pos)
    os.close(fd)


def read(name: str, length: int, pos: int, expected: int) -> None:
    fd = os.open(at(name), os.O_RDONLY)
    assert len(os.pread(fd, length, pos)) == expected
    os.close(fd)


Step = tuple[Callable[[], None], Callable[[], None]]


def steps() -> list[Step]:
    """What the writer does and what the reader does after it, round by round."""
    found: list[Step] = []
    # the reader has it from the start, and a marker of which it knows that it is not there
    write("shared", os.O_CREAT, b"")
    log = 0
    for number in range(ROUNDS):
        n, pos = drawn.randrange(1, 200_000), drawn.randrange(0, 100_000)
        way = drawn.choice(["new", "range", "append", "hole", "truncate", "rename", "replace"])
        name = f"{way}{number}"
        if way == "new":
            found.append(
                (lambda a=name, n=n: write(a, os.O_CREAT, bytes(n)), lambda a=name, n=n: read(a, n + 9, 0, n))
            )
        elif way == "range":
            # beyond what was there, so that the file grows now and then
            found.append((
                lambda n=n, pos=pos: write("shared", 0, bytes(n), pos),
                lambda n=n, pos=pos: read("shared", n, pos, n),
            ))  # fmt: skip
        elif way == "append":
            found.append((
                lambda n=n: write("log", os.O_CREAT | os.O_APPEND, bytes(n)),
                lambda n=n, pos=log: read("log", n + 1, pos, n),
            ))  # fmt: skip
            log += n
        elif way == "hole":
            found.append((
                lambda a=name, pos=pos: write(a, os.O_CREAT, b"end", pos),
                lambda a=name, pos=pos: read(a, pos + 3, 0, pos + 3),
            ))  # fmt: skip
        elif way == "truncate":

            def cut(a: str = name, n: int = n) -> None:
                write(a, os.O_CREAT, bytes(n))
                os.truncate(at(a), n // 2)

            found.append((cut, lambda a=name, n=n: read(a, n, 0, n // 2)))
        elif way == "rename":

            def move(a: str = name, n: int = n) -> None:
                write(f"{a}.tmp", os.O_CREAT | os.O_EXCL, bytes(n))
                os.rename(at(f"{a}.tmp"), at(a))

            found.append((move, lambda a=name, n=n: read(a, n, 0, n)))
        else:
            # the same name again and again, each time another file of another size
            def replace(a: str = name, n: int = n) -> None:
                write(f"{a}.tmp", os.O_CREAT | os.O_EXCL, bytes(n))
                os.rename(at(f"{a}.tmp"), at("current"))

            found.append((replace, lambda n=n: read("current", n + 1, 0, n)))
    return found


def writer(rounds: list[Step], wait: Callable[[], None], tell: Callable[[], None]) -> None:
    for write_it, _ in rounds:
        # slower than the reader: as fast as possible it would be overtaken
        time.sleep(0.002)
        write_it()
        tell()
        wait()


def reader(rounds: list[Step], wait: Callable[[], None], tell: Callable[[], None]) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.stat(at("never"))
    for _, read_it in rounds:
        wait()
        read_it()
        tell()


if kind in ("threads", "processes"):
    rounds = steps()
    if kind == "threads":
        there, back = threading.Semaphore(0), threading.Semaphore(0)
        both = [
            threading.Thread(target=reader, args=(rounds, there.acquire, back.release)),
            threading.Thread(target=writer, args=(rounds, back.acquire, there.release)),
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    else:
        (hear, say), (hear_back, say_back) = os.pipe(), os.pipe()
        if (child := os.fork()) == 0:
            reader(rounds, lambda: os.read(hear, 1) and None, lambda: os.write(say_back, b".") and None)
            os._exit(0)
        writer(rounds, lambda: os.read(hear_back, 1) and None, lambda: os.write(say, b".") and None)
        assert os.waitpid(child, 0)[1] == 0
elif kind == "race":
    # neither tells the other anything
    write("raced", os.O_CREAT, bytes(1 << 20))
    go = threading.Barrier(2)

    def again(flags: int) -> None:
        fd = os.open(at("raced"), flags)
        go.wait()
        for i in range(200):
            if flags == os.O_RDONLY:
                os.pread(fd, 65536, i % 16 * 65536)
            else:
                os.pwrite(fd, bytes(65536), i % 16 * 65536)
        os.close(fd)

    both = [threading.Thread(target=again, args=(flags,)) for flags in (os.O_RDONLY, os.O_WRONLY)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
else:
    assert kind == "apart"

    def alone(name: str) -> None:
        fd = os.open(at(name), os.O_RDWR | os.O_CREAT)
        for i in range(100):
            os.pwrite(fd, bytes(4096), i * 4096)
            os.pread(fd, 4096, i * 4096)
            time.sleep(0.0002)
        os.close(fd)

    both = [threading.Thread(target=alone, args=(f"own{i}",)) for i in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
