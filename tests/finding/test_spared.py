"""Near misses, one a row: calls of a program that look like a problem and are none. Those that take more than one
program or thread to tell stand beside the scenes that fire."""

import pytest

from .scene import EAGAIN, O_DIRECT, O_DSYNC, O_WRONLY, backwards, scattered

KIB, MIB = 1024, 1024 * 1024
US, MS, S = 1_000, 1_000_000, 1_000_000_000

# finding, what it spares, the calls
SPARED = [
    (
        "small_reads",
        "fewer than a thousand",
        lambda app: app.read("/in", 999, 512, backwards(512), ns=2 * US),
    ),
    (
        "small_reads",
        "reads of 128 KiB",
        lambda app: app.read("/in", 1000, 128 * KIB, backwards(128 * KIB), ns=2 * US),
    ),
    (
        "small_reads",
        "what costs nothing",
        lambda app: app.read("/in", 1000, 512, backwards(512), ns=2 * US).compute(199 * MS),
    ),
    ("small_reads", "cheap runs", lambda app: app.read("/in", 1000, 512, ns=2 * US).compute(40 * MS)),
    ("readahead_reads", "expensive runs", lambda app: app.read("/in", 1000, 512, ns=2 * US).compute(38 * MS)),
    # 1000 small ones among 10,001: fewer than a tenth
    (
        "small_writes",
        "a tenth",
        lambda app: app.write("/out", 1000, 8 * KIB, scattered(8 * KIB), ns=2 * US).write(
            "/out", 9001, MIB, ns=2 * US
        ),
    ),
    ("small_writes", "tiny appends", lambda app: app.write("/log", 1000, 100, ns=2 * US, call="write")),
    ("tiny_appends", "whole pages", lambda app: app.write("/log", 1000, 4096, ns=2 * US, call="write")),
    ("unaligned_reads", "blocks", lambda app: app.read("/in", 1001, 4096, scattered(4096), ns=2 * US)),
    # off the block's boundary, but each where the last one ended: the block is in memory
    ("unaligned_writes", "a log", lambda app: app.write("/log", 1001, 1000, ns=2 * US)),
    ("random_reads", "order", lambda app: app.read("/db", 5000, 8 * KIB, ns=100 * US)),
    # long runs: 1000 jumps among 2600 reads are 38 %
    (
        "random_reads",
        "a few jumps",
        lambda app: app.read(
            "/db", 2600, 8 * KIB, lambda i: (i // 13 * 997 % 10_007 * 100 + i % 13) * 8 * KIB, ns=100 * US
        ),
    ),
    ("random_writes", "order", lambda app: app.write("/db", 5000, 8 * KIB, ns=100 * US)),
    ("strided_access", "whole rows", lambda app: app.read("/matrix", 2000, 8 * KIB, ns=10 * US)),
    (
        "mixed_access",
        "phases",
        lambda app: app.read("/db", 600, 8 * KIB, ns=2 * US).write("/db", 600, 8 * KIB, ns=2 * US),
    ),
    (
        "stdio_buffer",
        "larger buffers",
        lambda app: app.read("/in", 1000, 64 * KIB, ns=2 * US, call="fread", calls=256),
    ),
    ("stdio_flush", "full buffers", lambda app: app.write("/log", 1000, 4096, ns=3 * US, call="fflush")),
    (
        "synchronous_writes",
        "large ones",
        lambda app: app.open("/wal", O_WRONLY | O_DSYNC).write("/wal", 100, 128 * KIB, ns=100 * US),
    ),
    ("small_direct", "large ones", lambda app: app.open("/db", O_DIRECT).read("/db", 100, MIB, ns=90 * US)),
    # 199 blocks' worth for 100 blocks
    (
        "overwritten_data",
        "less than twice",
        lambda app: app.write("/state", 100, 4096, ns=10 * US).write("/state", 99, 4096, ns=10 * US),
    ),
    (
        "rereads",
        "less than half",
        lambda app: app.read("/in", 16, MIB, ns=10 * US).read("/in", 15, MIB, ns=10 * US),
    ),
    (
        "fsync_bound",
        "99 flushes",
        lambda app: app.write("/db", 99, 512, ns=10 * US).call("fsync", "/db", ns=MS, times=99),
    ),
    ("system_sync", "fsync", lambda app: app.call("fsync", "/data", ns=MS)),
    (
        "slow_metadata",
        "just under a millisecond",
        lambda app: app.call("stat", "/nfs/a", times=20, ns=MS - 1),
    ),
    ("io_errors", "try again", lambda app: app.call("read", "/data", errno=EAGAIN, result=-1, times=50)),
    (
        "failed_opens",
        "the question for a terminal",
        lambda app: app.call("open", "/dev/tty", errno=6, result=-1, times=17),
    ),
    (
        "latency_outliers",
        "one in a thousand",
        lambda app: app.read("/db", 999, ns=10 * US).read("/db", 1, ns=5 * MS),
    ),
    (
        "latency_outliers",
        "less than a hundredfold",
        lambda app: app.read("/db", 998, ns=60 * US).read("/db", 2, ns=5 * MS),
    ),
    ("stalled", "a pause", lambda app: app.read("/in", 10).compute(5 * S).read("/in", 10)),
    (
        "polling",
        "a rate limit",
        lambda app: app.wait("sleep", "sleep", ns=10 * MS, times=100).call("stat", "/run/ready", times=99),
    ),
]


@pytest.mark.parametrize(
    ("name", "calls"), [pytest.param(name, calls, id=f"{name} spares {what}") for name, what, calls in SPARED]
)
def test_spared(name, calls, app, find):
    calls(app)
    assert find(name) == []
