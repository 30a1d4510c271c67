"""Findings about names, attributes, descriptors and flushes: what fires each, and what looks alike but is fine."""

import json

import pytest

from .scene import EACCES, EIO, EMFILE, ENOENT, ENOSPC, O_CREAT, O_RDWR, O_TRUNC, O_WRONLY

KIB, MIB = 1024, 1024 * 1024
US, MS = 1_000, 1_000_000


def test_fsync_bound_fires(app, one):
    for _ in range(100):
        app.write("/db", 2, 8 * KIB, ns=10 * US).call("fdatasync", "/db", ns=980 * US)
    app.compute(100 * MS)
    one(
        "fsync_bound",
        "100 flushes of /db, 16,384 bytes each, take 49 %",
        "980.0 µs each, 0.098 s in all, for 1.6 MiB in 200 writes",
        severity="high",
        ops=100,
        bytes=1_638_400,
        cost_ns=98 * MS,
        file="/db",
    )


def test_fsync_bound_spares_a_mebibyte_each(app, find):
    for _ in range(100):
        app.write("/db", 2, 512 * KIB, ns=10 * US).call("fsync", "/db", ns=MS)
    assert find("fsync_bound") == []


def test_fsync_per_write_fires(app, one):
    for _ in range(100):
        app.write("/wal", 1, 512, ns=10 * US).call("fsync", "/wal", ns=MS)
    one(
        "fsync_per_write",
        "100 flushes for 100 writes of 512 bytes",
        "100 flushes, one for each 1.0 writes",
        ops=100,
        severity="high",
    )


def test_fsync_per_write_spares_groups(app, find):
    # three writes to a flush
    for _ in range(100):
        app.write("/wal", 3, 512, ns=10 * US).call("fsync", "/wal", ns=MS)
    assert find("fsync_per_write") == []


def test_system_sync_fires(app, one):
    app.compute(9 * MS).call("sync", ns=MS)
    one("system_sync", "1 calls of sync", "1.0 ms each", severity="medium", ops=1, cost_ns=MS)


def test_reopened_files_fires(app, one):
    for _ in range(100):
        app.open("/log", O_WRONLY, ns=6 * US).write("/log", 1, 100).close("/log", ns=4 * US)
    one(
        "reopened_files",
        "/log opened 100 times",
        severity="high",
        ops=100,
        cost_ns=990 * US,  # all but the first
        file="/log",
    )


def test_reopened_files_spares_one_open_each(app, find):
    for i in range(200):
        for _ in range(9):
            app.open(f"/f{i}", ns=6 * US).close(f"/f{i}")
    assert find("reopened_files") == []


def test_reopened_files_spares_processes_that_open_once(scene, find):
    for _ in range(200):
        scene.process("cat").main.open("/log").close("/log")
    assert find("reopened_files") == []


def test_repeated_stat_fires(app, one):
    app.call("stat", "/etc/localtime", times=1000, ns=2 * US).compute(8 * MS)
    one(
        "repeated_stat",
        "attributes of /etc/localtime read 1,000 times",
        severity="high",
        ops=1000,
        cost_ns=2 * MS,
    )


def test_repeated_stat_spares_a_walk(app, find):
    for i in range(1000):
        app.call("stat", f"/tree/{i}", ns=2 * US)
    assert find("repeated_stat") == []


def test_missing_files_fires(app, one):
    for i in range(100):
        app.open(f"/opt/lib/m{i}", errno=ENOENT, ns=10 * US).open(f"/usr/lib/m{i}", ns=10 * US)
    one(
        "missing_files",
        "100 of 200 look-ups find no file, in 2 directories, most in /opt/lib/",
        severity="high",
        ops=100,
        cost_ns=MS,
    )


def test_missing_files_spares_less_than_half(app, find):
    for i in range(100):
        app.open(f"/opt/lib/m{i}", errno=ENOENT, ns=10 * US).call("stat", f"/usr/m{i}").open(f"/usr/m{i}")
    assert find("missing_files") == []


def test_metadata_bound_fires(app, one):
    for i in range(500):
        app.open(f"/d/{i}", ns=20 * US).read(f"/d/{i}", 1, MIB, ns=25 * US).close(f"/d/{i}", ns=5 * US)
    one(
        "metadata_bound",
        "1,000 calls for names and attributes take 50 % of its I/O time and 50 %",
        "most of it in open (0.010 s)",
        severity="high",
        ops=1000,
        cost_ns=12_500 * US,
    )


def test_metadata_bound_spares_data(app, find):
    for i in range(500):
        app.open(f"/d/{i}", ns=20 * US).read(f"/d/{i}", 1, MIB, ns=26 * US).close(f"/d/{i}", ns=5 * US)
    assert find("metadata_bound") == []


def test_slow_metadata_fires(app, one):
    for i in range(5):
        app.open(f"/nfs/{i}", ns=MS).close(f"/nfs/{i}", ns=3 * MS)
    one(
        "slow_metadata",
        "10 calls",
        "take 2.0 ms each",
        "of which close took 0.015 s",
        ops=10,
        cost_ns=20 * MS,
        severity="high",
    )


def test_slow_metadata_on_one_mount_fires(scene, app, one):
    """The mount is slow, however many files elsewhere are fast."""
    scene.rows["recording"] = [
        {"node": "n", "name": f"mount:{point}", "value": json.dumps({"type": type})}
        for point, type in (("/", "ext4"), ("/nfs", "nfs4"))
    ]
    for i in range(5):
        app.open(f"/nfs/{i}", ns=MS).close(f"/nfs/{i}", ns=3 * MS)
    app.call("stat", "/usr/lib/x", times=1000)
    one("slow_metadata", "10 calls", ops=10, cost_ns=20 * MS)


def test_slow_metadata_spares_few_among_many(scene, app, find):
    """What is held up on a busy machine: 19 slow ones of 400 on the same mount; a twentieth would be 5 %."""
    for i in range(19):
        app.call("close", f"/out/{i}", ns=9 * MS)
    for i in range(381):
        app.call("close", f"/out/{i + 100}")
    assert find("slow_metadata") == []


def test_small_files_fires(app, one):
    for i in range(1000):
        app.open(f"/src/{i}", ns=5 * US).read(f"/src/{i}", 1, 2 * KIB, ns=3 * US).close(
            f"/src/{i}", ns=2 * US
        )
    one(
        "small_files",
        "1,000 small files, 2,048 bytes each",
        "10.0 µs a file",
        "of which 0.007 s for names",
        severity="high",
        ops=3000,
        bytes=2_048_000,
        cost_ns=10 * MS,
    )


def test_small_files_spares_large_ones(app, find):
    for i in range(1000):
        app.open(f"/src/{i}").read(f"/src/{i}", 1, 64 * KIB + 1).close(f"/src/{i}")
    assert find("small_files") == []


def test_unread_temporaries_fires(app, one):
    app.open("/tmp/sort", O_RDWR | O_CREAT).write("/tmp/sort", 16, 64 * KIB, ns=100 * US).close("/tmp/sort")
    app.call("unlink", "/tmp/sort")
    one(
        "unread_temporaries",
        "1.0 MiB written to temporary files",
        severity="high",
        ops=19,
        bytes=MIB,
        file="/tmp/sort",
    )


def test_unread_temporaries_spares_what_another_program_reads(scene, app, find):
    app.open("/tmp/a.s", O_RDWR | O_CREAT).write("/tmp/a.s", 16, 64 * KIB, ns=100 * US).close("/tmp/a.s")
    scene.process("as").main.open("/tmp/a.s").read("/tmp/a.s", 1, MIB)
    app.call("unlink", "/tmp/a.s")
    assert find("unread_temporaries") == []


def test_unread_temporaries_spares_what_is_run(scene, app, find):
    app.open("/tmp/a.out", O_RDWR | O_CREAT).write("/tmp/a.out", 16, 64 * KIB, ns=100 * US).close(
        "/tmp/a.out"
    )
    scene.process("a.out", exe="/tmp/a.out").main.compute(MS)
    app.call("unlink", "/tmp/a.out")
    assert find("unread_temporaries") == []


def test_rewritten_in_place_fires(app, one):
    for _ in range(10):
        app.open("/etc/state", O_WRONLY | O_CREAT | O_TRUNC).write("/etc/state", 1, 300).close("/etc/state")
    app.compute(10_000 * MS)  # reported though it costs nothing: the data is at risk
    one(
        "rewritten_in_place",
        "/etc/state emptied and written anew 10 times, 300 bytes each",
        severity="low",
        ops=10,
        bytes=3000,
    )


def test_rewritten_in_place_spares_rename(scene, app, find):
    for _ in range(10):
        app.open("/etc/state.new", O_WRONLY | O_CREAT | O_TRUNC).write("/etc/state.new", 1, 300).close(
            "/etc/state.new"
        )
        app.call("rename", "/etc/state.new", file2=scene.file("/etc/state"))
    assert find("rewritten_in_place") == []


def test_descriptor_leak_fires(app, one):
    for i in range(256):
        app.open(f"/f{i}", result=3 + i, fd=3 + i)
    app.open("/closed").close("/closed")
    one(
        "descriptor_leak",
        "256 descriptors opened and never closed",
        "256 opens of 256 files",
        severity="medium",
        cost_ns=None,
        process=app.process,
    )


def test_descriptor_leak_spares_what_is_closed(app, find):
    for i in range(2000):
        app.open(f"/f{i}")
        if i >= 255:
            app.close(f"/f{i - 255}")
    assert find("descriptor_leak") == []


def test_descriptor_leak_spares_numbers_that_are_given_out_again(app, find):
    for i in range(2000):  # dup2 closes what had the number, without a call of close: a shell's redirections
        app.open(f"/f{i}", result=1 + i % 9, fd=1 + i % 9)
    assert find("descriptor_leak") == []


def test_descriptor_leak_spares_closing_in_bulk(app, find):
    for i in range(256):
        app.open(f"/f{i}", result=3 + i, fd=3 + i)
    app.call("close_range", fd=3)
    assert find("descriptor_leak") == []


def test_failed_opens_fires(app, one):
    for i in range(10):
        app.open(f"/root/{i}", errno=EACCES, ns=2 * US)
    one(
        "failed_opens",
        "10 opens of /root/0 and others fail with EACCES",
        ops=10,
        cost_ns=20 * US,
        severity="high",
    )


def test_failed_opens_at_the_descriptor_limit_is_high(app, one):
    app.open("/data", errno=EMFILE).compute(1000 * MS)
    one("failed_opens", "1 opens of /data fail with EMFILE (too many open files)", severity="high", ops=1)


def test_failed_opens_spares_nine(app, find):
    app.open("/root/x", errno=EACCES)
    for i in range(8):
        app.open(f"/root/{i}", errno=EACCES).open(f"/lib/{i}", errno=ENOENT)
    assert find("failed_opens") == []


def test_io_errors_fires(app, one):
    app.compute(2 * MS).call("fsync", "/data", errno=EIO, result=-1)
    one(
        "io_errors",
        "1 times fsync on /data fails with EIO",
        "The first fails 0.002 s after the start",
        severity="high",
        ops=1,
    )


def test_io_errors_are_told_apart(app, find):
    app.call("pwrite", "/data", errno=ENOSPC, result=-1, times=2).call("pread", "/data", errno=EIO, result=-1)
    assert sorted(row["ops"] for row in find("io_errors")) == [1, 2]


def test_fsync_bound_counts_msync(app, one):
    for _ in range(100):
        app.call("msync", "/map", ns=MS)
    one("fsync_bound", "100 flushes of /map, 0 bytes each", severity="high", cost_ns=100 * MS)


def test_failing_calls_fires(app, one):
    app.call("xattr", "/photo", errno=61, result=-1, times=1500, ns=2 * US).compute(7 * MS)
    one(
        "failing_calls",
        "1,500 calls of xattr fail, on /photo; they take 30 % of the working time",
        "1,500 of 1,500 calls of xattr fail, most with ENODATA (no such attribute); 2.0 µs each",
        severity="high",
        ops=1500,
        cost_ns=3 * MS,
        file="/photo",
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.call("xattr", "/photo", errno=61, result=-1, times=999),
        lambda app: app.call("stat", "/x", errno=ENOENT, result=-1, times=2000),  # finding_missing_files
        lambda app: app.call("unlink", "/x", errno=ENOENT, result=-1, times=1000).call(
            "unlink", "/y", times=1001
        ),
        lambda app: app.call(
            "fcntl", "/lock", errno=11, result=-1, flags=6, times=2000
        ),  # a lock that is tried
    ],
    ids=["fewer than a thousand", "look-ups", "less than half", "locks"],
)
def test_failing_calls_spares_others(call, app, find):
    call(app)
    assert find("failing_calls") == []
