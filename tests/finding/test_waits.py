"""Findings about waiting for other processes: file locks with their holder, peers of sockets and pipes."""

from .scene import EAGAIN, START

US, MS = 1_000, 1_000_000


def test_file_lock_fires(scene, one):
    holder, other, app = scene.process("holder"), scene.process("other"), scene.process("app")
    lock = scene.file("/run/lock")
    other.main.wait("flock", "file_lock", ns=US, object=lock)
    holder.main.until(2 * MS).wait("flock", "file_lock", ns=US, object=lock).until(400 * MS)
    holder.main.wait("flock", "file_lock", ns=US, object=lock)  # unlocks
    app.main.until(100 * MS).wait("flock", "file_lock", ns=300 * MS, object=lock)
    one(
        "file_lock",
        f"app: waits 0.300 s for the lock of /run/lock, held by holder (pid {holder.id})",
        "1 waits (in the lock call, or asleep after it was refused), the longest 300.0 ms",
        severity="high",
        cost_ns=300 * MS,
        file="/run/lock",
        process=app,
        program="app",
    )


def test_file_lock_that_is_tried_with_sleeps_fires(scene, one):
    """SQLite's busy handler: fcntl(F_SETLK) that is refused, and a sleep."""
    holder, app = scene.process("holder"), scene.process("app")
    holder.main.call("fcntl", "/db", flags=6)
    app.main.until(MS)
    for _ in range(10):
        app.main.call("fcntl", "/db", flags=6, errno=EAGAIN, result=-1).wait("sleep", "sleep", ns=20 * MS)
    app.main.call("fcntl", "/db", flags=6).wait("sleep", "sleep", ns=900 * MS)
    one("file_lock", "waits 0.200 s for the lock of /db, held by holder", cost_ns=200 * MS, file="/db")


def test_file_lock_of_somebody_unseen_fires(scene, one):
    app = scene.process("app").main
    app.until(MS).wait("flock", "file_lock", ns=300 * MS, object=scene.file("/run/lock"))
    one("file_lock", "held by a process that the recording doesn’t show", cost_ns=300 * MS)


def test_file_lock_spares_short_waits(scene, find):
    scene.process("holder").main.wait("flock", "file_lock", ns=US, object=scene.file("/run/lock"))
    scene.process("app").main.until(MS).wait("flock", "file_lock", ns=49 * MS, object=scene.file("/run/lock"))
    assert find("file_lock") == []


def talk(scene, *, busy):
    """A client that asks a server 20 times; the server sleeps, or works, 10 ms for each answer."""
    server, client = scene.process("server"), scene.process("client")
    server.main.wait("accept", "socket", ns=MS, object=scene.file("socket:[2]"))
    client.main.wait("connect", "socket", ns=MS, object=scene.file("socket:[1]"))
    for _ in range(20):
        client.main.wait("recv", "socket", ns=10 * MS, object=scene.file("socket:[1]"))
        if busy:
            server.main.compute(10 * MS)
        else:
            server.main.wait("sleep", "sleep", ns=10 * MS)
    return server, client


def queued(scene, process, ns):
    """What the scheduler says of a process's first thread: how long it could run and had no CPU, in calls too."""
    row = {"source": "scheduler", "cpu_ns": 0, "queued_ns": ns}
    scene.rows["thread_time"].append(
        row | {"ts": START, "dur": process.main.now, "node": "n", "thread": process.main.id}
    )


def test_slow_peer_fires(scene, one):
    server, client = talk(scene, busy=False)
    client.main.compute(10 * MS)
    one(
        "slow_peer",
        f"client: waits 0.201 s for server (pid {server.id}) at the other end of a socket, while nobody works",
        severity="high",
        cost_ns=201 * MS,
        process=client,
        program="client",
    )


def test_slow_peer_of_a_pipe_fires(scene, one):
    slow, app = scene.process("slow"), scene.process("app")
    pipe = scene.file("pipe:[7]")
    for _ in range(20):
        slow.main.wait("sleep", "sleep", ns=10 * MS).wait("write", "pipe", ns=US, object=pipe)
        app.main.wait("read", "pipe", ns=10 * MS, object=pipe)
    one(
        "slow_peer", f"app: waits 0.200 s for slow (pid {slow.id}) at the other end of a pipe", "for pipe:[7]"
    )


def test_slow_peer_spares_a_peer_that_works(scene, find):
    talk(scene, busy=True)
    assert find("slow_peer") == []


def test_slow_peer_on_a_machine_short_of_cpus_fires(scene, one):
    """Of the 211 ms 10 are work and 41 waiting for a CPU at the end of a wait: 160 ms are left for the peer."""
    server, client = talk(scene, busy=False)
    client.main.compute(10 * MS)
    queued(scene, client, 41 * MS)
    one("slow_peer", f"server (pid {server.id})", cost_ns=160 * MS)


def test_slow_peer_spares_who_waits_for_a_cpu(scene, find):
    """Awake again, but no CPU is free: 120 of 211 ms."""
    _, client = talk(scene, busy=False)
    client.main.compute(10 * MS)
    queued(scene, client, 110 * MS)
    assert find("slow_peer") == []


def test_slow_peer_spares_an_idle_server(scene, find):
    server = scene.process("server").main
    server.wait("accept", "socket", ns=MS, object=scene.file("socket:[2]"))
    server.wait("recv", "socket", ns=500 * MS, object=scene.file("socket:[3]")).wait(
        "epoll_wait", "poll", ns=500 * MS
    )
    assert find("slow_peer") == []


def test_slow_peer_spares_what_is_short(scene, find):
    app = scene.process("app").main
    app.wait("connect", "socket", ns=US, object=1).wait("recv", "socket", ns=10 * MS, times=9, object=1)
    assert find("slow_peer") == []


def test_slow_peer_spares_many_quick_answers(scene, find):
    app = scene.process("app").main
    app.wait("connect", "socket", ns=US, object=1).wait("recv", "socket", ns=900 * US, times=500, object=1)
    assert find("slow_peer") == []


def test_lock_waits_spares_freeing(scene, find):
    """With --causal it has rows too, and may be long where who waits gets the CPU at once."""
    app = scene.process("app").main.compute(MS)
    for _ in range(100):
        app.wait("pthread_mutex_unlock", "lock", ns=MS, object=5)
    assert find("lock_waits") == []
