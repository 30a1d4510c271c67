"""The agent at its edges: begun anew, killed, without space, with a collector that is away."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from iotrail.trail import Trail

from .conftest import NATIVE, Agent, Collector, certified, until

# Each sample of the machine's own is one of these.
TWICE = """SELECT COUNT(*) AS n FROM (
    SELECT node, member, metric, name, ts FROM node_sample GROUP BY ALL HAVING COUNT(*) > 1)"""
IOTRAIL = [sys.executable, "-m", "iotrail"]


def taken(collector: Collector, table: str = "node_sample") -> float:
    """Rows of a table that the collector has."""
    return collector.metric("iotrail_collector_rows_total", f'table="{table}"')


def waiting(agent: Agent) -> int:
    """Bytes of the file in which messages wait."""
    spool = agent.state / "spool"
    return spool.stat().st_blocks * 512 if spool.exists() else 0


def test_a_signal_begins_it_anew_from_the_file_that_is_there_now(
    collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """The same process with the same words runs a newer file; each row comes once."""
    program = tmp_path / "installed"
    shutil.copy(NATIVE, program)
    collector.start()
    agent.start(program=program)
    until("rows", lambda: taken(collector) > 100)
    words = Path(f"/proc/{agent.pid}/cmdline").read_bytes()
    # As packages are installed: a new file takes the name of the old one.
    shutil.copy(NATIVE, tmp_path / "newer")
    (tmp_path / "newer").rename(program)
    os.kill(agent.pid, signal.SIGHUP)
    exe = Path(f"/proc/{agent.pid}/exe")
    until("the newer file runs", lambda: os.readlink(exe) == str(program))
    assert os.stat(exe).st_ino == program.stat().st_ino
    assert Path(f"/proc/{agent.pid}/cmdline").read_bytes() == words
    before = taken(collector)
    until("rows of the new one", lambda: taken(collector) > before + 100)
    agent.end()
    trail = collector.sealed()
    assert trail.rows_of(TWICE) == [{"n": 0}]
    assert trail.rows_of("SELECT COUNT(DISTINCT node) AS n FROM node_sample") == [{"n": 1}]
    assert agent.said.read_text() == ""


def test_what_a_recorder_writes_arrives_once(collector: Collector, agent: Agent, tmp_path: Path) -> None:
    """While the recorder runs, and although the agent is killed twice."""
    program = tmp_path / "program.py"
    program.write_text("""
import os, sys, time
for turn in range(40):
    with open(sys.argv[1], "r+b", buffering=0) as file:
        for n in range(53):
            file.write(bytes(64 + n))
            file.seek(0)
            file.read(32)
    time.sleep(0.1)
""")
    (tmp_path / "data").write_bytes(b"")
    collector.start()
    trails = tmp_path / "trails"
    trails.mkdir()
    agent.start("--trails", trails)
    record = [*IOTRAIL, "record", "--node", "here", "-o", trails / "a.trail", "--"]
    with subprocess.Popen([*record, sys.executable, program, tmp_path / "data"]) as recorder:
        for _ in range(2):
            rows = taken(collector)
            until("rows", lambda rows=rows: taken(collector) > rows + 200)
            agent.end(signal.SIGKILL)
            agent.start("--trails", trails)
    assert recorder.returncode == 0
    recorded = Trail(trails / "a.trail")
    calls = recorded.rows["file_op"]
    assert calls >= 40 * 53 * 3
    until("all calls", lambda: taken(collector, "file_op") >= calls)
    agent.end()
    arrived = collector.sealed()
    for table in ("file_op", "thread", "file"):
        rows = f"SELECT * FROM {table} ORDER BY ALL"
        assert arrived.rows_of(rows) == recorded.rows_of(rows), table
    assert arrived.rows_of(TWICE) == [{"n": 0}]


def away(collector: Collector) -> None:
    """Nobody listens, on a port that is the collector's later."""
    collector.start()
    collector.end()


def test_without_space_it_lives_counts_what_it_drops_and_goes_on(
    collector: Collector, agent: Agent, small: Path
) -> None:
    away(collector)
    filler = small / "filler"
    filler.write_bytes(bytes(900 << 10))
    agent.state = small / "agent"
    agent.start()
    until("it says so", lambda: "they are dropped: No space left" in agent.said.read_text())
    time.sleep(2)
    filler.unlink()
    before = waiting(agent)
    until("it keeps again", lambda: waiting(agent) > before)
    assert agent.said.read_text().count("cannot keep records") == 1
    collector.start()
    ticks = "SELECT COUNT(*) AS n FROM node_sample WHERE metric = 'dropped' AND value > 0"
    until("its count", lambda: collector.sealed().rows_of(ticks)[0]["n"])
    agent.end()
    trail = collector.sealed()
    (row,) = trail.rows_of("""
        WITH tick AS (SELECT ts, LEAD(ts) OVER (ORDER BY ts) - ts AS pause FROM node_sample WHERE metric = 'load'),
        dropped AS (SELECT value, ts, ts + dur AS until_ts FROM node_sample WHERE metric = 'dropped' AND value > 0)
        SELECT MAX(pause) AS pause, arg_max(ts, pause) AS ts, (SELECT SUM(value) FROM dropped) AS dropped,
            (SELECT MIN(ts) FROM dropped) AS from_ts, (SELECT MAX(until_ts) FROM dropped) AS until_ts,
            (SELECT COUNT(*) FROM node_sample) / COUNT(*) AS rows_a_tick
        FROM tick""")
    # All that the pause would have had, one or two ticks of chance apart; and the count says when.
    assert row["pause"] > 1.5e9
    assert 10 < row["dropped"] / row["rows_a_tick"] < row["pause"] / 100e6 + 2
    assert row["from_ts"] <= row["ts"] and row["ts"] + row["pause"] <= row["until_ts"]
    assert trail.rows_of(TWICE) == [{"n": 0}]


# Stretches of time that sums are over follow each other without a gap, as long as one agent runs and none is lost.
GAPS = """
SELECT COUNT(*) FILTER (WHERE after > ts + dur) AS gaps, COUNT(*) AS ticks, MIN(ts) AS first FROM (
    SELECT ts, dur, LEAD(ts) OVER (ORDER BY ts) AS after FROM node_sample WHERE metric = 'cpu' AND name = 'user')"""


def test_a_full_file_drops_the_oldest_and_the_rest_comes_in_order(collector: Collector, agent: Agent) -> None:
    away(collector)
    began = time.time_ns()
    agent.start("--spool", "64K")
    time.sleep(5)
    # The file grows by doubling.
    assert waiting(agent) <= 128 << 10
    collector.start()
    dropped = "SELECT SUM(value) AS n FROM node_sample WHERE metric = 'dropped'"
    until("its count", lambda: collector.sealed().rows_of(dropped)[0]["n"])
    agent.end()
    trail = collector.sealed()
    (row,) = trail.rows_of(GAPS)
    assert row["gaps"] == 0, "only the oldest are missing"
    assert row["first"] - began > 1e9
    assert trail.rows_of(dropped)[0]["n"] > 100
    # One out of order would have been taken for one that came before.
    assert collector.metric("iotrail_collector_repeated_messages_total") == 0
    assert trail.rows_of(TWICE) == [{"n": 0}]


def test_killed_while_its_file_is_sent_it_loses_nothing(collector: Collector, agent: Agent) -> None:
    away(collector)
    agent.start()
    time.sleep(3)
    agent.end()
    kept = waiting(agent)
    assert kept > 0
    # A collector that takes what is sent and doesn't answer.
    collector.start()
    assert collector.process is not None
    collector.process.send_signal(signal.SIGSTOP)
    agent.start()
    time.sleep(1.5)
    agent.end(signal.SIGKILL)
    collector.process.send_signal(signal.SIGCONT)
    agent.start()
    before = taken(collector)
    until("rows", lambda: taken(collector) > before + 200)
    # Some of its own, too.
    time.sleep(1)
    agent.end()
    trail = collector.sealed()
    (row,) = trail.rows_of(GAPS)
    assert row["ticks"] > 30
    assert row["gaps"] == 2, "one between each two agents"
    assert trail.rows_of(TWICE) == [{"n": 0}]
    assert trail.rows_of("SELECT SUM(value) AS n FROM node_sample WHERE metric = 'dropped'") == [{"n": 0}]


def test_no_token_goes_unencrypted_to_another_machine(tmp_path: Path) -> None:
    """It is refused before anything is connected to."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o600)
    command = [NATIVE, "agent", "--collector", "192.0.2.1:4317", "--token-file", secret]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "would go there unencrypted" in done.stderr) == (1, True), done.stderr


def test_tls_that_fits_badly_is_said(collector: Collector, agent: Agent, tmp_path: Path) -> None:
    """Without it against a collector that has it, the other way round, and with a certificate that is none of a server."""
    secret, (cert, key) = tmp_path / "secret", certified(tmp_path)
    secret.write_text("0123456789abcdef")
    secret.chmod(0o600)
    guarded = ["--token-file", secret, "--tls-cert", cert, "--tls-key", key]

    def says(text: str, *more: str | Path) -> None:
        agent.start("--token-file", secret, *more)
        until(text, lambda: text in agent.said.read_text())
        agent.end()

    collector.start(*guarded)
    says("if the collector speaks TLS, give --tls-ca")
    collector.end()
    certified(tmp_path, authority=True)
    collector.start(*guarded)
    says("it needs one with basicConstraints CA:FALSE", "--tls-ca", cert)
    collector.end()
    collector.start()
    says("the collector speaks no TLS", "--tls-ca", cert)
