"""A store on this machine, as examples/store/up.sh starts it, and what the kernel counts of its daemons: for tests and
the benchmark."""

import ctypes
import os
import re
import select
import signal
import socket
import struct
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "store"


class Store:
    """A store in a directory; what a test starts, the fixture ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mount = directory / "mnt"
        self.addresses: dict[str, str] = {}

    def up(self, *options: str) -> None:
        """Start it, or those of its daemons that don't run."""
        done = subprocess.run(
            [EXAMPLE / "up.sh", *options, self.directory], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        for name, address in re.findall(r"^([\w-]+): pid \d+, (\S+)$", done.stdout, re.MULTILINE):
            self.addresses[name] = address

    def down(self) -> subprocess.CompletedProcess[str]:
        """End it and merge its trails."""
        return subprocess.run(
            [EXAMPLE / "down.sh", self.directory], check=False, capture_output=True, text=True
        )

    def pids(self, name: str) -> list[int]:
        """The processes of a daemon: its recorder, if it has one, and itself, last."""
        file = self.directory / f"{name}.pid"
        if not file.exists():
            return []
        pid = int(file.read_text())
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [pid, *map(int, children)]

    def kill(self, name: str) -> None:
        """End a daemon, and its recorder, as a crash of its machine would."""
        pids = self.pids(name)
        fds = [os.pidfd_open(pid) for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for fd in fds:
            # Readable when the process has ended.
            select.select([fd], [], [])
            os.close(fd)

    def log(self, name: str) -> str:
        """What a daemon said."""
        return (self.directory / f"{name}.log").read_text()

    def clean(self) -> None:
        """End all that is left of it."""
        names = [file.stem for file in self.directory.glob("*.pid")]
        subprocess.run(["umount", "-l", self.mount], check=False, capture_output=True)
        for name in names:
            self.kill(name)
        for disk in self.directory.glob("node-*/disk"):
            disk.unlink()


def bytes_sent(pid: int) -> int:
    """Bytes that the kernel sent, and got acknowledged, on the TCP connections that a process has open."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd_getfd = 438  # asm-generic/unistd.h
    pidfd = os.pidfd_open(pid)
    total = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        if not os.readlink(entry.path).startswith("socket:"):
            continue
        fd = libc.syscall(pidfd_getfd, pidfd, int(entry.name), 0)
        assert fd >= 0, os.strerror(ctypes.get_errno())
        with socket.socket(fileno=fd) as connection:
            if connection.type == socket.SOCK_STREAM and connection.family == socket.AF_INET:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                # tcpi_bytes_acked of struct tcp_info, linux/tcp.h; the connection's first byte counts the SYN
                total += struct.unpack_from("<Q", info, 120)[0]
    os.close(pidfd)
    return total


def io_of(pid: int) -> dict[str, int]:
    """What the kernel says of a process's I/O."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}
