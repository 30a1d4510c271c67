"""Servers of many processes, which no test of ours made: nearly all their waiting is explained, by one recording and without the kernel."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

import pytest

from iotrail.trail import Trail

from ..kernel.recording import needs_root
from .conftest import HERE, IOTRAIL, ask

TABLE = HERE.parent.parent / "examples" / "causal" / "table.py"
POSTGRES = next(iter(sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)), "")

# Clients that change tables, each transaction durable: backends wait for clients, for each other and for who writes the log.
DATABASE = f"""
export PATH={POSTGRES}:$PATH PGHOST=$PWD/pg PGUSER=u PGDATABASE=postgres
as='setpriv --reuid=nobody --regid=nogroup --clear-groups'
case $1 in
create)
    mkdir pg && chown nobody: pg
    $as initdb -D pg/data -U u -A trust --locale=C -E UTF8 > /dev/null
    $as pg_ctl -D pg/data -w -l pg/log -o "-k $PWD/pg -c listen_addresses=" start > /dev/null
    $as pgbench -i -q -s 2 2> /dev/null
    $as pg_ctl -D pg/data -w -m fast stop > /dev/null;;
run)
    $as postgres -D pg/data -k $PWD/pg -c listen_addresses= -c deadlock_timeout=20ms > pg/log 2>&1 &
    for _ in $(seq 600); do $as psql -Atc 'SELECT 1' > /dev/null 2>&1 && break; sleep 0.05; done
    $as pgbench -n -t 300 -c 4 -j 2 > pg/bench 2>&1
    kill -INT $!
    wait $!;;
esac
"""


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that other users may enter: PostgreSQL refuses root."""
    with tempfile.TemporaryDirectory(prefix="iotrail-test-") as name:
        Path(name).chmod(0o755)
        monkeypatch.chdir(name)
        yield Path(name)


# One thread that serves all clients, and writes what they change to a file.
STORE = """
redis-server --port 0 --unixsocket $PWD/s --appendonly yes --appendfsync always --save '' --dir $PWD > /dev/null &
for _ in $(seq 600); do redis-cli -s s ping > /dev/null 2>&1 && break; sleep 0.05; done
redis-benchmark -s s -t set -n 2000 -c 4 -q > /dev/null
redis-cli -s s SHUTDOWN NOSAVE
wait $!
"""


def unexplained(trail: Trail) -> float:
    """Share of the time that threads waited for others."""
    blocked = dict(
        trail.query(
            "SELECT state, SUM(blocked_ns) FROM wait_state WHERE state <> 'timer' GROUP BY state"
        ).fetchall()
    )
    return float(blocked.get("unexplained") or 0) / sum(each or 0 for each in blocked.values())


def edges(trail: Trail) -> dict[str, int]:
    """Waits with an edge, by kind."""
    query = "SELECT kind, COUNT(*) AS n FROM wait WHERE edge IS NOT NULL GROUP BY kind"
    return dict(trail.query(query).fetchall())


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs redis-server")
def test_a_store_is_explained(record: Callable[..., Trail], open_folder: Path) -> None:
    trail = record("bash", "-c", STORE)
    # 1 to 4 % in six runs: a client is told that its connection has ended, and calls that find something at once, which is no wait, have no CPU
    # meanwhile. What clients and server write to each other is a quarter of all waiting.
    assert unexplained(trail) <= 0.1
    assert edges(trail)["stream"] > 2000


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_processes_that_try_for_a_lock_are_explained(
    journal: str, record: Callable[..., Trail], open_folder: Path, tmp_path: Path
) -> None:
    trail = record(sys.executable, TABLE, open_folder, journal, 30)
    assert unexplained(trail) <= 0.01
    [[waited]] = trail.query("SELECT COUNT(*) FROM wait WHERE kind = 'lock'").fetchall()
    assert waited > 0
    # whoever has the lock first now, nobody waits for ever
    answer = ask(trail.path, "--io", "0.1,10", "--by", "lock")
    assert len(answer["cases"]) == 3
    assert journal == "DELETE" or "byte 120" in answer["curves"][0]["name"]
    words = [
        "replay",
        trail.path,
        "--root",
        tmp_path / "again",
        "--mode",
        "causal",
        "-o",
        tmp_path / "again.trail",
    ]
    done = subprocess.run(
        [*IOTRAIL, *words, "--json"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["threads_b"], found["not_reached"], found["out_of_order"]) == (5, 0, 0)


@needs_root
@pytest.mark.skipif(not POSTGRES, reason="needs postgresql")
def test_a_database_is_explained(record: Callable[..., Trail], open_folder: Path) -> None:
    bash = ["bash", "-c", DATABASE, "bash"]
    subprocess.run([*bash, "create"], check=True, cwd=open_folder)
    trail = record(*bash, "run")
    assert unexplained(trail) <= 0.005
    found = edges(trail)
    # the protocol, the latches and the locks of the server; its processes
    assert all(found[kind] > 20 for kind in ("stream", "signal", "semaphore"))
    assert found["end"] >= 3
    # Who waits long for a row looks for a deadlock then: an alarm interrupts the wait, which goes on after that.
    alarms = trail.query(
        "SELECT COUNT(*), COUNT(w.until_edge) FROM wait AS w INNER JOIN sync_op AS s ON s.thread = w.thread AND s.ts = w.ts "
        "WHERE w.kind = 'timer' AND s.errno = 4"
    )
    [[interrupted, go_on]] = alarms.fetchall()
    assert 0 < interrupted <= 2 * go_on
    # Who writes the log or checkpoints waits in vain until the server ends. When it is told so between two waits, no wait ended before its time, and what
    # would have ended the earlier ones isn't known.
    timeouts = trail.query(
        "SELECT COUNT(w.until_edge) AS known, COUNT(f.thread) AS ended, COUNT(*) AS n FROM wait AS w "
        "INNER JOIN sync_op AS s ON s.thread = w.thread AND s.ts = w.ts "
        "LEFT JOIN (SELECT thread, object, MAX(ts) AS last FROM sync_op WHERE call = 'epoll_wait' AND result <> 0 GROUP BY thread, object) AS f "
        "ON f.thread = s.thread AND f.object = s.object AND f.last > s.ts WHERE w.kind = 'timer' AND s.call = 'epoll_wait' AND s.result = 0"
    )
    [[known, ended_earlier, waited]] = timeouts.fetchall()
    assert waited > 0
    assert known == ended_earlier
