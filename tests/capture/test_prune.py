"""`iotrail record --prune`: pruning beside a recording. It runs at a low priority, so these tests run by themselves."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from iotrail.requests.find import Chosen
from iotrail.requests.graph import collect
from iotrail.trail import Trail

POSTING = """
import pathlib, sys, time
from iotrail import sdk

def post(count):
    for number in range(count):
        with sdk.request("front", "put", client=("alice", "bob")[number % 2], length=512):
            sdk.transmit("front", "back", 100)

post(501)
while not all(map(pathlib.Path.exists, map(pathlib.Path, sys.argv[1:]))):
    time.sleep(0.05)
post(502)
"""


def record(
    native: Path, trail: Path, rule: str, *waits: Path, python: str = sys.executable
) -> tuple[int, str]:
    """Record posts, which go on once these files are there; the exit status and what the recorder said."""
    words = [native, "record", "--prune", rule, "--python", python, "-o", trail, "--"]
    program = [sys.executable, "-c", POSTING, *waits]
    done = subprocess.run([*words, *program], check=False, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


def test_while_recording(native: Path, tmp_path: Path) -> None:
    """A recording gets smaller while it goes on, and its requests are all there, as sums or as they were."""
    trail = tmp_path / "live.trail"
    status, said = record(native, trail, "every=1s,older=1s", trail / "data/pruned")
    assert status == 0
    assert "--prune failed" not in said
    opened = Trail(trail)
    assert opened.rows["pruned"]
    assert 502 <= opened.rows["service_op"] < 1003
    rows = opened.rows_of("SELECT client, SUM(n) AS n FROM served GROUP BY ALL ORDER BY client")
    assert [(r["client"], r["n"]) for r in rows] == [("alice", 502), ("bob", 501)]
    assert collect(Trail(trail), Chosen(client="bob")).requests == 501
    subprocess.run([native, "trail", "check", trail], check=True, stdout=subprocess.DEVNULL)


def test_failing_while_recording(native: Path, tmp_path: Path) -> None:
    """A pruning that fails costs the recording nothing, and is said."""
    trail, first, second = (tmp_path / name for name in ("live.trail", "first", "second"))
    false = tmp_path / "python"
    # once it runs again, the first failure was seen
    false.write_text(
        f"#!/bin/sh\n[ -e {first} ] && touch {second}\ntouch {first}\necho 'iotrail: error: no room' >&2\nexit 1\n"
    )
    false.chmod(0o755)
    status, said = record(native, trail, "every=1s", second, python=str(false))
    assert status == 0
    assert "--prune failed" in said
    assert "the last time: no room" in said
    assert Trail(trail).rows["service_op"] == 1003
    # a native recorder without Python's side says so before it begins
    done = subprocess.run(
        [native, "record", "--prune", "every=1s", "-o", tmp_path / "none.trail", "--", "/bin/true"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert (done.returncode, "--prune needs the command iotrail" in done.stderr) == (1, True)
    assert not (tmp_path / "none.trail").exists()


def test_recorder_killed(native: Path, tmp_path: Path) -> None:
    """A recorder that pruned and whose dead files are gone is killed: each request is there once after recovery."""
    trail, go = tmp_path / "live.trail", tmp_path / "go"
    words = [native, "record", "--prune", "every=1s,older=1s", "--python", sys.executable, "-o", trail, "--"]
    program = [sys.executable, "-c", POSTING, trail / "data/pruned", go]
    recorder = subprocess.Popen([*words, *program], stderr=subprocess.DEVNULL, process_group=0)
    try:
        deadline = time.monotonic() + 200
        while not (trail / "data/pruned").exists():
            assert time.monotonic() < deadline, "nothing was pruned"
            time.sleep(0.05)
        compact = [native, "trail", "compact", "--grace", "0s", trail]
        subprocess.run(compact, check=True, stdout=subprocess.DEVNULL)
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        [posting] = [
            int(pid) for pid in children if str(go).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        ended = os.pidfd_open(posting)
        recorder.kill()
        recorder.wait()
        go.touch()
        # readable when the program has ended
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)
    finally:
        # Whatever failed, neither of them stays.
        with suppress(ProcessLookupError):
            os.killpg(recorder.pid, signal.SIGKILL)
        recorder.wait()
    subprocess.run([native, "trail", "check", trail], check=True, stdout=subprocess.DEVNULL)
    rows = Trail(trail).rows_of("SELECT client, SUM(n) AS n FROM served GROUP BY ALL ORDER BY client")
    assert [(r["client"], r["n"]) for r in rows] == [("alice", 502), ("bob", 501)]
