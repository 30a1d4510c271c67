"""Findings about the size, order and place of reads and writes: what fires each, and what looks alike but is fine.

Severities follow from shares of the working time: 1 % reported, 5 % medium, 20 % high. Most scenes spend
2 ms in the calls concerned and compute for the rest, so that the share can be read off.
"""

import pytest

from .scene import O_DIRECT, O_DSYNC, O_WRONLY, backwards, scattered

KIB, MIB = 1024, 1024 * 1024
US, MS = 1_000, 1_000_000


def test_small_reads_fires(app, one):
    app.read("/in", 1000, 512, backwards(512), ns=2 * US).compute(8 * MS)
    one(
        "small_reads",
        "app: 1,000 small reads, 512 bytes on average, from /in take 20 % of the working time",
        "1,000 of 1,000 reads moved fewer than 131,072 bytes: 0.5 MiB in all, 2.0 µs each, 0.002 s together",
        "0 % of the reads follow",
        severity="high",
        ops=1000,
        bytes=512_000,
        cost_ns=2 * MS,
        file="/in",
        process=app.process,
        thread=None,
    )


def test_small_reads_are_one_finding_for_a_program(scene, one):
    for rank in range(4):
        scene.process("solver", rank=rank).main.read(
            f"/in.{rank}", 500, 512, backwards(512), ns=(1 + rank) * US
        )
    one(
        "small_reads",
        "4 files, most in /in.3",
        ops=2000,
        cost_ns=5 * MS,
        process=None,
        file=None,
        severity="high",
    )


def test_readahead_reads_fires(app, one):
    app.read("/in", 1000, 512, ns=2 * US).compute(48 * MS)
    one(
        "readahead_reads",
        "1,000 small reads in order, 512 bytes on average, from /in take only 4 %",
        severity="low",
        cost_ns=2 * MS,
        file="/in",
    )


def test_small_writes_fires(app, one):
    app.write("/out", 1000, 8 * KIB, scattered(8 * KIB), ns=2 * US).compute(38 * MS)
    one(
        "small_writes",
        "1,000 small writes, 8,192 bytes on average, to /out take 5 %",
        severity="medium",
        ops=1000,
        bytes=8192_000,
        cost_ns=2 * MS,
        file="/out",
    )


def test_tiny_appends_fires(app, one):
    app.write("/log", 1000, 100, ns=2 * US, call="write").compute(18 * MS)
    one(
        "tiny_appends",
        "1,000 writes in a row of 100 bytes to /log take 10 %",
        "0 writes of 1 MiB would carry the same",
        severity="medium",
        ops=1000,
        bytes=100_000,
        cost_ns=2 * MS,
        file="/log",
    )


def test_unaligned_reads_fires(app, one):
    app.read("/in", 1001, 4096, lambda i: scattered(4096)(i) + 512, ns=2 * US).compute(2 * MS)
    # the first read has no predecessor; each of the others touches two blocks
    one(
        "unaligned_reads",
        "1,000 reads from /in jump to places off a block boundary",
        "they touch blocks of 7.8 MiB for 3.9 MiB of data",
        ops=1000,
        bytes=4_096_000,
        cost_ns=2 * MS,
        severity="high",
    )


def test_unaligned_writes_fires(app, one):
    app.write("/out", 1001, 1000, scattered(5000), ns=2 * US)
    one(
        "unaligned_writes",
        "1,000 writes to /out jump",
        severity="high",
        ops=1000,
        bytes=1_000_000,
        cost_ns=2 * MS,
    )


def test_random_reads_fires(app, one):
    app.read("/db", 1001, 8 * KIB, scattered(8 * KIB), ns=100 * US)
    one(
        "random_reads",
        "1,000 of 1,001 reads (100 %) jump irregularly: 8,192 bytes and 100.0 µs each, 7.8 MiB and 0.100 s in all",
        severity="high",
        ops=1000,
        bytes=8_192_000,
        cost_ns=100 * MS,
        file="/db",
    )


def test_random_writes_fires(app, one):
    app.write("/db", 1001, 8 * KIB, scattered(8 * KIB), ns=20 * US).compute(380 * MS)
    one(
        "random_writes",
        "1,000 writes at random places of /db take 5 %",
        severity="low",
        ops=1000,
        cost_ns=20 * MS,
    )


def test_strided_access_fires(app, one):
    # a column of a matrix: every 1 MiB, 8 KiB; the first two steps set the stride
    app.read("/matrix", 1002, 8 * KIB, lambda i: i * MIB, ns=10 * US)
    one(
        "strided_access",
        "1,000 of 1,002 reads and writes keep the distance",
        ops=1000,
        cost_ns=10 * MS,
        file="/matrix",
    )


def test_mixed_access_fires(app, one):
    for i in range(600):
        app.read("/db", 1, 8 * KIB, i * 64 * KIB, ns=2 * US)
        app.write("/db", 1, 8 * KIB, 500 * MIB + i * 64 * KIB, ns=2 * US)
    one(
        "mixed_access",
        "1,199 times in 1,200 accesses",
        "600 reads and 600 writes",
        ops=1200,
        cost_ns=2_400_000,
    )


def test_read_modify_write_fires(app, one):
    place = scattered(4096)
    for i in range(100):
        app.read("/db", 1, 4096, place(i), ns=30 * US)
        app.write("/db", 1, 4096, place(i), ns=10 * US)
    one(
        "read_modify_write",
        "100 times a piece of /db is read, changed and written back",
        "100 of 100 writes go to where the read just before began: 40.0 µs for each pair",
        severity="high",
        ops=100,
        cost_ns=4 * MS,
    )


def test_read_modify_write_spares_other_places(app, find):
    for i in range(100):
        app.read("/db", 1, 4096, i * 8192, ns=30 * US)
        app.write("/db", 1, 4096, i * 8192 + 4096, ns=10 * US)
    assert find("read_modify_write") == []


def test_short_transfers_fires(app, one):
    # asked for 64 KiB, got 4 KiB, asked for the remaining 60
    for i in range(100):
        app.call("pread", "/fuse", pos=i * 64 * KIB, length=64 * KIB, result=4 * KIB, ns=10 * US)
        app.call("pread", "/fuse", pos=i * 64 * KIB + 4 * KIB, length=60 * KIB, result=60 * KIB, ns=10 * US)
    one(
        "short_transfers",
        "100 of 200 calls ask for the rest",
        severity="high",
        ops=100,
        cost_ns=MS,
        file="/fuse",
    )


def test_short_transfers_spares_ends_of_files(app, find):
    for i in range(200):
        app.call("pread", f"/f{i}", pos=0, length=64 * KIB, result=4 * KIB, ns=10 * US)
        app.call("pread", f"/f{i}", pos=4 * KIB, length=64 * KIB, result=0, ns=10 * US)
    assert find("short_transfers") == []


def test_seek_per_access_fires(app, one):
    for i in range(1000):
        app.call("lseek", "/db", ns=US, result=i * 65536)
        app.read("/db", 1, 4096, i * 65536, ns=9 * US, call="read")
    one(
        "seek_per_access",
        "1,000 seeks for 1,000 reads and writes of /db take 10 %",
        severity="medium",
        ops=1000,
    )


def test_seek_per_access_spares_every_third(app, find):
    for i in range(3001):
        if i % 3 == 0:
            app.call("lseek", "/db", ns=US)
        app.read("/db", 1, 4096, ns=US, call="read")
    assert find("seek_per_access") == []


def test_stdio_buffer_fires(app, one):
    app.read("/in", 1000, 4096, ns=2 * US, call="fread", calls=16).compute(8 * MS)
    one(
        "stdio_buffer",
        "stdio moves /in in 1,000 pieces of 4,096 bytes",
        "16,000 calls of fread, fwrite and the like became 1,000 system calls",
        severity="high",
        ops=1000,
        bytes=4_096_000,
        cost_ns=2 * MS,
    )


def test_stdio_flush_fires(app, one):
    app.write("/log", 1000, 80, ns=3 * US, call="fflush")
    one(
        "stdio_flush",
        "1,000 times fflush, 80 bytes each, to /log",
        severity="high",
        bytes=80_000,
        cost_ns=3 * MS,
    )


def test_eof_polling_fires(app, one):
    app.read("/log", 1000, 4096, call="read", result=0, ns=US)
    one("eof_polling", "1,000 of 1,000 reads of /log return nothing", severity="high", ops=1000, cost_ns=MS)


def test_eof_polling_spares_one_end_a_file(app, find):
    # each file read to its end: one empty read after two full ones
    for i in range(1000):
        app.read(f"/f{i}", 2, 4096, call="read").read(f"/f{i}", 1, 4096, call="read", result=0)
    assert find("eof_polling") == []


def test_synchronous_writes_fires(app, one):
    app.open("/wal", O_WRONLY | O_DSYNC).write("/wal", 100, 8 * KIB, ns=100 * US).close("/wal")
    one(
        "synchronous_writes",
        "100 writes of 8,192 bytes to /wal, each made durable",
        severity="high",
        ops=100,
        bytes=819_200,
        cost_ns=10 * MS,
    )


def test_small_direct_fires(app, one):
    app.open("/db", O_DIRECT).read("/db", 100, 4096, scattered(4096), ns=90 * US)
    app.read("/db", 10, 1000, scattered(4096), ns=90 * US)
    one("small_direct", "110 direct requests", "10 are off the blocks", severity="high", ops=110, file="/db")


def test_overwritten_data_fires(app, one):
    # one block written a hundred times: 1 of 100 writes was new
    app.write("/state", 100, 4096, 0, ns=10 * US)
    one(
        "overwritten_data",
        "0.4 MiB written for 0.0 MiB of data in /state",
        "100.0 bytes written for each byte of the file",
        severity="high",
        ops=100,
        bytes=409_600,
        cost_ns=990 * US,
        file="/state",
    )


def test_rereads_fires(app, one):
    app.read("/in", 16, MIB, ns=10 * US).read("/in", 16, MIB, ns=10 * US).compute(640 * US)
    one(
        "rereads",
        "16.0 MiB of 32.0 MiB read from /in had been read before",
        "32 reads for 16.0 MiB of different data; a cache of 16.0 MiB would serve 90 % of what any can",
        severity="medium",
        ops=32,
        bytes=16 * MIB,
        cost_ns=160 * US,
        file="/in",
        process=app.process,
    )


def test_overwritten_data_fires_for_threads_that_write_the_same(scene, app, one):
    for thread in (app, app.process.thread()):
        thread.write("/state", 100, 4096, ns=10 * US)
    one("overwritten_data", "2.0 bytes written for each byte", ops=200, bytes=819_200, cost_ns=MS)


def test_backward_reads_fires(app, one):
    app.read("/log", 1001, 4096, backwards(4096), ns=20 * US)
    one(
        "backward_reads",
        "1,000 reads of /log go backwards",
        "1,000 of 1,001 reads (100 %) begin before the one before: 4,096 bytes and 20.0 µs each",
        severity="high",
        ops=1000,
        bytes=4_096_000,
        cost_ns=20 * MS,
        file="/log",
    )


def test_backward_reads_spares_random_ones(app, find):
    app.read("/db", 3000, 4096, scattered(4096), ns=20 * US)
    assert find("backward_reads") == []


def test_random_stdio_fires(app, one):
    for i in range(1001):
        app.call("fseek", "/dat", ns=2 * US)
        app.read("/dat", 1, 100, scattered(100)(i), ns=3 * US, call="fread")
    app.compute(15 * MS)
    one(
        "random_stdio",
        "1,000 of 1,001 reads through stdio jump in /dat and take 25 %",
        severity="high",
        ops=1000,
        cost_ns=1001 * 2 * US + 1000 * 3 * US,
        file="/dat",
    )


def test_random_stdio_fires_for_seeks_that_read(app, one):
    """As glibc does it: a seek out of the buffer fills it, and is the read."""
    app.read("/dat", 2000, 4096, scattered(4096), ns=2 * US, call="fread")
    app.compute(4 * MS)
    one(
        "random_stdio",
        "1,999 of 2,000 reads through stdio jump in /dat and take 50 %",
        severity="high",
        file="/dat",
    )


def test_random_stdio_spares_reads_of_descriptors(app, find):
    app.read("/dat", 2000, 4096, scattered(4096), ns=2 * US)
    assert find("random_stdio") == []


def test_random_stdio_spares_a_seek_now_and_then(app, find):
    for i in range(1000):
        app.call("fseek", "/dat", ns=2 * US)
        app.read("/dat", 3, 100, lambda k, i=i: (3 * i + k) * 100, ns=3 * US, call="fread")
    assert find("random_stdio") == []


def mounts(scene):
    for point, kind in (("/", "ext4"), ("/mnt/slow", "fuse"), ("/dev", "devtmpfs")):
        scene.rows.setdefault("recording", []).append(
            {"node": "n", "name": f"mount:{point}", "value": f'{{"dev":"0:1","type":"{kind}"}}'}
        )


def test_slow_mount_fires(scene, app, one):
    mounts(scene)
    app.read("/data", 10, MIB, ns=MS).read("/mnt/slow/data", 10, MIB, ns=50 * MS)
    one(
        "slow_mount",
        "reads from /mnt/slow (fuse) move 21.0 MB/s, / moves 1,048.6 MB/s",
        "10 calls move 10.0 MiB in 0.500 s, 50.0 ms each, most with /mnt/slow/data",
        severity="high",
        cost_ns=500 * MS,
        file="/mnt/slow/data",
    )


@pytest.mark.parametrize(
    ("other", "size", "ns"),
    [
        ("/mnt/slow/more", MIB, MS),  # one mount: nothing to compare with
        ("/dev/zero", MIB, MS),  # no storage
        ("/data", MIB, 40 * MS),  # as slow
        ("/data", 4096, MS),  # small requests: their number limits
    ],
)
def test_slow_mount_spares_what_cannot_be_compared(other, size, ns, scene, app, find):
    mounts(scene)
    app.read(other, 1000 if size < MIB else 10, size, ns=ns).read("/mnt/slow/data", 10, MIB, ns=50 * MS)
    assert find("slow_mount") == []


def test_slow_mount_spares_a_mount_that_moves_enough(scene, app, find):
    mounts(scene)
    app.read("/data", 10, MIB, ns=MS).read("/mnt/slow/data", 10, MIB, ns=18 * MS)
    assert find("slow_mount") == []


def forget_durations(scene):
    """As in an imported trace: nobody knows how long the calls took."""
    for row in scene.rows["file_op"]:
        row["dur"] = None


def test_untimed_access_fires(scene, app, find):
    app.read("/dev/sda", 2000, 4096, scattered(4096), call="pread")
    forget_durations(scene)
    [found] = find("untimed_access")
    assert (found["severity"], found["cost_ns"]) == ("low", None)
    assert (
        "1,999 reads at random places, 4,096 bytes on average, of /dev/sda; their time is not known"
        in found["title"]
    )


def test_untimed_access_spares_large_requests_in_order(scene, app, find):
    app.read("/dev/sda", 2000, 1 << 20, call="pread")
    forget_durations(scene)
    assert find("untimed_access") == []


def test_untimed_access_spares_what_has_times(app, find):
    app.read("/dev/sda", 2000, 4096, scattered(4096), call="pread")
    assert find("untimed_access") == []
