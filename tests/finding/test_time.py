"""Findings about time, processes and threads: what fires each, and what looks alike but is fine."""

import pytest

KIB, MIB = 1024, 1024 * 1024
US, MS, S = 1_000, 1_000_000, 1_000_000_000


def test_slow_process_fires(scene, one):
    ranks = [scene.process("solver", rank=i) for i in range(4)]
    for rank in ranks:
        rank.main.write(f"/out.{rank.id}", 10, MIB, ns=(3 if rank is ranks[2] else 1) * MS).until(100 * MS)
    one(
        "slow_process",
        "rank 2 of 4 spends 0.030 s in I/O, the typical one 0.010 s",
        severity="high",
        process=ranks[2],
        ops=10,
        bytes=10 * MIB,
        cost_ns=20 * MS,
    )


def test_slow_process_spares_less_than_half_more(scene, find):
    for i in range(4):
        scene.process("solver", rank=i).main.write(
            f"/out.{i}", 10, MIB, ns=MS + (499 * US if i == 2 else 0)
        ).until(100 * MS)
    assert find("slow_process") == []


def test_slow_process_spares_one_after_the_other(scene, find):
    for i in range(6):
        scene.process("cc1", start=i * 10 * MS).main.write(
            f"/out.{i}", 1, MIB, ns=(8 if i == 3 else 1) * MS
        ).until((i + 1) * 10 * MS)
    assert find("slow_process") == []


def test_one_process_fires(scene, one):
    ranks = [scene.process("solver", rank=i) for i in range(4)]
    ranks[0].main.write("/out", 30, MIB, ns=MS).until(100 * MS)
    for rank in ranks[1:]:
        rank.main.write("/out", 10, MIB, ns=US).until(100 * MS)
    one(
        "one_process",
        "rank 0 of 4 moves 50 % of the bytes",
        severity="high",
        process=ranks[0],
        bytes=30 * MIB,
        cost_ns=30 * MS,
    )


def test_one_process_without_ranks_is_low(scene, one):
    workers = [scene.process("worker") for _ in range(4)]
    workers[3].main.read("/in", 30, MIB, ns=MS)
    for worker in workers:
        worker.main.until(100 * MS)
    one("one_process", "one process of 4 moves 100 %", severity="low", process=workers[3])


def test_one_process_spares_an_even_split(scene, find):
    for i in range(4):
        scene.process("solver", rank=i).main.write("/out", 29 if i == 0 else 10, MIB, ns=MS).until(100 * MS)
    assert find("one_process") == []


def test_slow_thread_fires(scene, one):
    app = scene.process("app")
    threads = [app.main, *(app.thread() for _ in range(3))]
    for thread in threads:
        thread.read(f"/part.{thread.id}", 100, MIB, ns=(300 if thread is threads[1] else 100) * US)
    one(
        "slow_thread",
        "one of 4 threads spends 0.030 s in I/O, the typical one 0.010 s",
        f"100.0 MiB, most with /part.{threads[1].id}.",
        file=f"/part.{threads[1].id}",
        thread=threads[1],
        cost_ns=20 * MS,
        severity="high",
    )


def test_slow_thread_spares_three_threads(scene, find):
    app = scene.process("app")
    for i, thread in enumerate([app.main, app.thread(), app.thread()]):
        thread.read(f"/part.{i}", 100, MIB, ns=(300 if i == 1 else 100) * US)
    assert find("slow_thread") == []


def test_slow_thread_spares_those_that_come_later(scene, find):
    """Epochs of a training: the first one's workers read from the disk, those of the others from memory."""
    app = scene.process("app")
    for epoch in range(4):
        for i in range(4):
            reader = app.thread(start=epoch * 50 * MS)
            reader.read(f"/part.{i}", 100, MIB, ns=(300 if epoch == 0 else 100) * US)
    assert find("slow_thread") == []


def test_slow_thread_spares_threads_with_other_tasks(scene, find):
    app = scene.process("app")
    app.main.read("/data", 100, MIB, ns=100 * US)
    for i in range(5):
        app.thread().write("/log", 9, 100, ns=100 * US).compute(i * MS)
    assert find("slow_thread") == []


def take_turns(scene, overlap):
    """Four threads, 25 rounds of 1 ms each; the next begins `overlap` ns before the last returns."""
    app = scene.process("app")
    threads = [app.main, *(app.thread() for _ in range(3))]
    for i in range(100):
        threads[i % 4].until(i * (MS - overlap)).read("/data", 1, MIB, i * MIB, ns=MS)
    return app


def test_serial_io_fires(scene, one):
    app = take_turns(scene, overlap=0)
    one(
        "serial_io",
        "4 threads do I/O, but one at a time: 1.00 calls in flight",
        severity="high",
        process=app,
        ops=100,
        cost_ns=100 * MS,
    )


def test_serial_io_spares_overlap(scene, find):
    take_turns(scene, overlap=100 * US)  # 1 / 0.9 = 1.11 in flight
    assert find("serial_io") == []


def test_serial_io_spares_rare_io(scene, find):
    app = take_turns(scene, overlap=0)
    app.main.until(201 * MS)
    assert find("serial_io") == []


def test_shared_file_fires(scene, one):
    for i in range(4):
        scene.process("rank").main.write("/shared", 100, 4096, lambda k, i=i: (4 * k + i) * 4096, ns=100 * US)
    one(
        "shared_file",
        "4 processes write /shared at a time",
        "on average 4.0 processes",
        severity="high",
        ops=400,
        cost_ns=40 * MS,
        file="/shared",
    )


def test_shared_file_spares_three(scene, find):
    for i in range(3):
        scene.process("rank").main.write("/shared", 100, 4096, lambda k, i=i: (4 * k + i) * 4096, ns=100 * US)
    assert find("shared_file") == []


def test_shared_file_spares_one_after_the_other(scene, find):
    for i in range(8):
        scene.process("rank", start=i * 10 * MS).main.write("/shared", 100, 4096, ns=100 * US)
    assert find("shared_file") == []


def test_storage_idle_fires(scene, one):
    scene.process("app", user_ns=180 * MS, system_ns=5 * MS).main.read("/in", 10, MIB, ns=MS).compute(
        190 * MS
    )
    one(
        "storage_idle",
        "calls on files take 5 % of the working time, computing 95 %",
        severity="low",
        ops=10,
        bytes=10 * MIB,
        cost_ns=10 * MS,
    )


@pytest.mark.parametrize(
    ("io", "busy", "waits"),
    [
        (11, 189, 0),  # 5.5 % in calls
        (1, 199, 201),  # hardly any I/O, but mostly waiting
        (1, 90, 0),  # too little to look at
    ],
    ids=["I/O", "waiting", "short"],
)
def test_storage_idle_spares_programs_that_do_not_compute(io, busy, waits, app, find):
    app.read("/in", io, MIB, ns=MS).compute(busy * MS)
    if waits:
        app.wait("recv", "socket", ns=waits * MS)
    assert find("storage_idle") == []


def test_storage_idle_spares_what_is_not_known(app, find):
    app.read("/in", 1000, MIB, ns=5 * US).compute(450 * MS).away(500 * MS)
    assert find("storage_idle") == []


def test_storage_idle_spares_page_faults(app, find):
    app.read("/in", 1000, MIB, ns=5 * US).compute(850 * MS).away(100 * MS, major_faults=100)
    assert find("storage_idle") == []


def test_storage_idle_spares_trails_without_cpu_time(app, find):
    app.read("/in", 1000, MIB, ns=5 * US).untold(950 * MS)
    assert find("storage_idle") == []


def test_storage_idle_spares_what_was_not_seen(scene, find):
    app = scene.process("app")
    app.main.compute(200 * MS)
    scene.unseen("io_uring_setup", 1, app)
    assert find("storage_idle") == []


def test_lock_waits_fires(scene, one):
    app = scene.process("app")
    app.thread().wait("sleep", "sleep", ns=30 * MS)
    for thread in (app.main, app.thread()):
        thread.wait("pthread_mutex_lock", "lock", ns=MS, times=10, object=7).compute(40 * MS)
    one(
        "lock_waits",
        "20 waits for locks, while other threads do I/O or sleep, take 0.020 s, 20 % of working and waiting together",
        "1 locks, 1,000.0 µs a wait, the longest 1.0 ms; the worst (pthread_mutex_lock) makes 2 threads wait",
        severity="high",
        ops=20,
        cost_ns=20 * MS,
        process=app,
    )


def test_lock_waits_counts_what_others_are_in_calls(scene, one):
    """5 ms of each thread's 10 ms; reads that overlap count once."""
    app = scene.process("app")
    for thread in (app.thread(), app.thread()):
        thread.read("/in", 1, 4096, ns=5 * MS)
    for thread in (app.main, app.thread()):
        thread.wait("pthread_mutex_lock", "lock", ns=MS, times=10, object=7).compute(10 * MS)
    one("lock_waits", "10 waits for locks", ops=10, cost_ns=10 * MS)


def test_lock_waits_spares_locks_held_while_computing(scene, find):
    """Threads that merge what they have sorted: no matter of storage."""
    app = scene.process("app")
    for thread in (app.main, app.thread()):
        thread.wait("pthread_mutex_lock", "lock", ns=MS, times=10, object=7).compute(40 * MS).read(
            "/in", ns=MS
        )
    assert find("lock_waits") == []


def test_lock_waits_counts_page_faults(scene, one):
    """Who holds the lock may wait for a page, in no call."""
    app = scene.process("app")
    app.thread().away(20 * MS, major_faults=20)
    for thread in (app.main, app.thread()):
        thread.wait("pthread_mutex_lock", "lock", ns=MS, times=10, object=7).compute(10 * MS)
    one("lock_waits", "20 waits for locks", cost_ns=20 * MS)


def test_lock_waits_of_many_processes_add_up(scene, one):
    """Each waits less than a hundredth of the working time."""
    for _ in range(40):
        app = scene.process("app")
        app.thread().wait("sleep", "sleep", ns=30 * MS)
        app.main.wait("pthread_mutex_lock", "lock", ns=MS, times=2, object=7).compute(10 * MS)
    one("lock_waits", "80 waits for locks", ops=80, cost_ns=80 * MS)


def test_lock_waits_spares_idle_workers(app, find):
    app.wait("pthread_cond_wait", "condition", ns=MS, times=100).wait(
        "pthread_mutex_lock", "lock", ns=US, times=9
    )
    app.compute(MS)
    assert find("lock_waits") == []


def test_latency_outliers_fires(app, one):
    app.read("/db", 998, ns=10 * US).read("/db", 2, ns=5 * MS).compute(30 * MS)
    # 2 of 1000: the 99.9th percentile is theirs; 10 ms of 50 ms
    one(
        "latency_outliers",
        "of pread takes 5.0 ms and more",
        "2 of 1,000 calls",
        severity="high",
        ops=2,
        cost_ns=10 * MS,
    )


def test_stalled_fires(scene, app, one):
    other = scene.process("other").main
    app.read("/in", 100, MIB, ns=MS).call("fsync", "/out", ns=1500 * MS)
    other.read("/in2", 100, MIB, ns=2 * MS).call("write", "/out", ns=1300 * MS)
    # from 0.2 s, the last return, to 1.5 s, when the write comes back
    one(
        "stalled",
        "no I/O returns for 1.300 s while 2 calls are in flight",
        "From 0.200 s to 1.500 s",
        severity="high",
        ops=2,
        cost_ns=1300 * MS,
    )


def test_stalled_spares_what_moves(app, find):
    app.write("/copy", 1, 300 * MIB, ns=8 * S)
    assert find("stalled") == []


def test_stalled_spares_others_progress(scene, app, find):
    app.call("fsync", "/out", ns=3 * S)
    other = scene.process("other").main
    for _ in range(5):
        other.read("/in", 1, ns=MS).compute(600 * MS)
    assert find("stalled") == []


def test_mapped_files_fires(scene, one):
    db = scene.process("db", major_faults=1000)
    db.main.compute(MS)
    scene.unseen("mapped_file", 64 * MIB, db)
    one(
        "mapped_files",
        "mapped files of 64.0 MiB",
        "with 1,000 faults that read from storage",
        severity="low",
        process=db,
        bytes=64 * MIB,
    )


def test_mapped_files_without_fault_counts_fires(scene, one):
    db = scene.process("db")
    db.main.read("/db", 10, MIB)
    scene.unseen("mapped_file", 64 * MIB, db)
    one(
        "mapped_files",
        "mapped files of 64.0 MiB cause I/O that no call shows.",
        "of all programs: 10.0 MiB",
        severity="low",
    )


def test_mapped_files_cost_what_is_neither_calls_nor_cpu_time_fires(scene, one):
    db = scene.process("db", major_faults=5000, user_ns=20 * MS, system_ns=70 * MS)
    db.main.read("/db", 10, MIB, ns=MS).compute(490 * MS)
    scene.unseen("mapped_file", 64 * MIB, db)
    one("mapped_files", "5,000 faults", severity="high", cost_ns=470 * MS, process=db)


def test_mapped_files_cost_the_time_in_page_faults_fires(scene, one):
    """Half of the times that it gave its CPU away were faults: 400 of 800 ms; the guess would be 890 ms."""
    db = scene.process("db", major_faults=5000, user_ns=10 * MS)
    db.main.read("/db", 10, MIB, ns=10 * MS).compute(100 * MS)
    db.main.away(800 * MS, major_faults=4800, switches=9600)
    scene.unseen("mapped_file", 64 * MIB, db)
    one(
        "mapped_files",
        "5,000 faults",
        "waiting for storage in page faults: 0.400 s.",
        severity="high",
        cost_ns=400 * MS,
        process=db,
    )


def test_mapped_files_of_several_threads_fires(scene, one):
    """400 ms of the 2 s that the threads work: 20 %; what is left over between calls is not known of several threads."""
    db = scene.process("db", user_ns=1600 * MS)
    for thread in (db.main, db.thread(), db.thread(), db.thread()):
        thread.compute(400 * MS).away(100 * MS, major_faults=500)
    one("mapped_files", "2,000 faults", "page faults: 0.400 s", severity="high", cost_ns=400 * MS, process=db)


def test_mapped_files_that_the_threads_did_not_count_fires(scene, one):
    """The fault state knows less than half of the process's faults: what is left over counts, as without it."""
    db = scene.process("db", major_faults=5000, user_ns=100 * MS)
    db.main.compute(100 * MS).away(400 * MS, major_faults=2000)
    one("mapped_files", "neither in calls nor on a CPU", severity="high", cost_ns=400 * MS)


def test_mapped_files_spares_faults_that_cost_nothing(scene, find):
    """2,000 faults take 9 of 1009 ms; the CPU time in the kernel would have been taken for theirs."""
    db = scene.process("db", major_faults=2000, user_ns=500 * MS)
    db.main.compute(1000 * MS).away(9 * MS, major_faults=2000)
    scene.unseen("mapped_file", 640 * MIB, db)
    assert find("mapped_files") == []


def test_mapped_files_spares_what_is_cached(scene, find):
    db = scene.process("db", major_faults=999)
    db.main.compute(MS)
    scene.unseen("mapped_file", 640 * MIB, db)
    assert find("mapped_files") == []


def test_polling_fires(app, one):
    for _ in range(100):
        app.wait("sleep", "sleep", ns=10 * MS).call("stat", "/run/ready", ns=US)
    one(
        "polling",
        "100 sleeps of 10.0 ms between checks of files, most of /run/ready",
        severity="medium",
        ops=100,
        cost_ns=S,
        thread=app,
    )


def test_polling_spares_a_schedule(app, find):
    for _ in range(100):
        app.wait("sleep", "sleep", ns=100 * MS).call("stat", "/run/ready", ns=US)
    assert find("polling") == []
