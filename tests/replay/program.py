"""A program with the kinds of I/O that a replay has to keep: run as `program.py FOLDER`."""

import contextlib
import os
import sys
import threading
import time

folder = sys.argv[1]


def at(name: str) -> str:
    return os.path.join(folder, name)


def reads(name: str, seed: int) -> None:
    """A thread that reads here and there, thinking in between."""
    fd = os.open(at(name), os.O_RDONLY)
    for i in range(40):
        os.pread(fd, 4096, (i * 7919 * seed) % 290_000)
        time.sleep(0.001)
    os.close(fd)


# sequential reads, a copy, renames, removals, failures
fd = os.open(at("input"), os.O_RDONLY)
out = os.open(at("copy.tmp"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
while part := os.read(fd, 65536):
    os.write(out, part)
os.fsync(out)
os.close(out)
os.close(fd)
os.rename(at("copy.tmp"), at("copy"))
os.mkdir(at("new"))
for i in range(5):
    part_of = os.open(at(f"new/{i}"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(part_of, bytes(1000 * (i + 1)))
    os.lseek(part_of, 100, os.SEEK_SET)
    os.read(part_of, 500)
    os.ftruncate(part_of, 700)
    os.close(part_of)
os.unlink(at("new/3"))
for missing in ("nothing", "new/3"):
    with contextlib.suppress(FileNotFoundError):
        os.stat(at(missing))
os.stat(at("lines"))

# threads beside each other, on a file that another one has made
threads = [
    threading.Thread(target=reads, args=(name, seed)) for seed, name in enumerate(("input", "copy"), 3)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

# one makes and removes directories in which the other works
turn = threading.Barrier(2)


def makes() -> None:
    for i in range(20):
        os.mkdir(at(f"round{i}"))
        turn.wait()
        turn.wait()
        os.rmdir(at(f"round{i}"))


def fills() -> None:
    for i in range(20):
        turn.wait()
        os.close(os.open(at(f"round{i}/file"), os.O_WRONLY | os.O_CREAT))
        os.unlink(at(f"round{i}/file"))
        turn.wait()


threads = [threading.Thread(target=work) for work in (makes, fills)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

# a child with a descriptor of its parent's
log = os.open(at("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(log, b"parent\n")
if (child := os.fork()) == 0:
    for _ in range(10):
        os.write(log, b"child\n")
    os.close(log)
    os._exit(0)
os.waitpid(child, 0)
os.close(log)
