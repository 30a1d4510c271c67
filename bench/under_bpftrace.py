"""Runs a command while bpftrace prints each of its calls on files: `under_bpftrace.py OUT COMMAND …`.

A line a call, when it returned: thread, number of the system call, its first three arguments, result, start, duration
in ns. Whose children a process belongs to it can't tell: calls of the whole machine are printed.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# read to lseek, pread64, pwrite64, access, fsync, fdatasync, unlink, getdents64, openat, newfstatat
# (arch/x86/entry/syscalls/syscall_64.tbl): the kernel's verifier takes no longer condition.
CALLS = (17, 18, 21, 74, 75, 87, 217, 257, 262)
SCRIPT = """
tracepoint:raw_syscalls:sys_enter / FILTER && pid != SELF / {
    @start[tid] = nsecs; @a[tid] = args->args[0]; @b[tid] = args->args[1]; @c[tid] = args->args[2];
}
tracepoint:raw_syscalls:sys_exit / @start[tid] / {
    printf("%d %d %lx %lx %lx %ld %lu %lu\\n", tid, args->id, @a[tid], @b[tid], @c[tid], args->ret, @start[tid],
        nsecs - @start[tid]);
    delete(@start[tid]); delete(@a[tid]); delete(@b[tid]); delete(@c[tid]);
}
interval:ms:1 / !@told / { @told = 1; system("touch READY"); }
END { clear(@told); clear(@start); clear(@a); clear(@b); clear(@c); }
"""


def main(out: Path, command: list[str]) -> int:
    """Trace a command; returns its status."""
    script = SCRIPT.replace(
        "FILTER", "(" + " || ".join(["args->id <= 8", *(f"args->id == {call}" for call in CALLS)]) + ")"
    )
    ready = out.with_suffix(".ready")
    ready.unlink(missing_ok=True)
    script = script.replace("SELF", str(os.getpid())).replace("READY", str(ready))
    # --unsafe: to be told when all is attached. Tracepoints are found through tracefs, which a machine that was
    # just started has not mounted: this one's own mounts have it (/sys/kernel/tracing: tracefs(5)).
    mounted = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"',
        "sh",
    ]
    words = [*mounted, "bpftrace", "--unsafe", "-B", "full", "-o", out, "-e", script]
    errors = out.with_suffix(".errors")
    tracer = subprocess.Popen(words, stderr=errors.open("wb"))
    while tracer.poll() is None and not ready.exists():
        time.sleep(0.001)
    if tracer.poll() is not None:
        sys.exit(f"bpftrace ended with status {tracer.returncode}: {errors.read_text()}")
    status = subprocess.run(command, check=False).returncode
    tracer.send_signal(signal.SIGINT)
    return status or (tracer.wait() and 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
