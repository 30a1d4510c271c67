"""The SDK from C and Python: both post into one trail, and a request's records join."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from iotrail import sdk
from iotrail.trail import Trail

from .conftest import EXAMPLE, IOTRAIL, PUTS


def test_a_request_goes_from_python_to_c(recorded: Path) -> None:
    """Each put: a request of the front, a call split off it, and its serving in the back."""
    trail = Trail(recorded)
    (row,) = trail.rows_of("""
        SELECT COUNT(*) AS n, COUNT(DISTINCT put.crumb) AS requests, COUNT(DISTINCT served.thread) AS backs,
            MIN(served.ts - call.ts) AS late, MIN(call.ts + call.dur - served.ts - served.dur) AS early,
            SUM(served.length) AS bytes, SUM(io.length) AS written, SUM(op.result) AS moved
        FROM service_op AS put
        JOIN stitch AS part ON part.parent_crumb = put.crumb AND part.kind = 'split'
        JOIN service_op AS call ON call.crumb = part.crumb AND call.kind = 'client'
        JOIN stitch AS rpc ON rpc.parent_crumb = call.crumb AND rpc.parent_node = call.node AND rpc.kind = 'rpc'
        JOIN service_op AS served ON served.crumb = rpc.crumb AND served.kind = 'server'
        JOIN disk_op AS io ON io.crumb = served.crumb
        JOIN file_op AS op ON op.crumb = served.crumb AND op.call = 'write' AND op.file = served.file
        WHERE put.op = 'put' AND put.client IS NOT NULL""")
    assert (row["n"], row["requests"], row["backs"]) == (PUTS, PUTS, 1)
    # one machine, one clock: what is served lies inside the call for it
    assert row["late"] > 0 and row["early"] > 0
    written = sum(512 * (1 + number % 8) for number in range(PUTS))
    assert row["bytes"] == row["written"] == row["moved"] == written
    roles = trail.rows_of("SELECT role FROM process WHERE role IS NOT NULL ORDER BY role")
    assert roles == [{"role": "back"}, {"role": "front"}]


def test_a_declared_type_is_a_table_with_its_description(recorded: Path) -> None:
    trail = Trail(recorded)
    (row,) = trail.rows_of("SELECT COUNT(*) AS n, MAX(fill) AS fill, SUM(bytes) AS bytes FROM append_queue")
    assert row == {"n": PUTS, "fill": 1.0, "bytes": sum(512 * (1 + n % 8) for n in range(PUTS))}
    meaning, columns = trail.describe("append_queue")
    assert meaning == "Requests waiting when one was taken."
    assert [column.name for column in columns][5:] == ["bytes", "fill"]


def test_types_are_switched_from_outside(back: Path, tmp_path: Path) -> None:
    """Off and on again while the program runs, known types and its own; wrong names and pids are said."""
    trail = tmp_path / "t.trail"
    command = [*IOTRAIL, "record", "-o", trail, "--", back, tmp_path / "data"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdin is not None and recorder.stdout is not None

        def appends(count: int) -> None:
            for _ in range(count):
                recorder.stdin.write("100\n")  # type: ignore[union-attr]
                recorder.stdin.flush()  # type: ignore[union-attr]
                assert recorder.stdout.readline() == "ok\n"  # type: ignore[union-attr]

        appends(3)
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        assert len(children) == 1

        def types(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*IOTRAIL, "types", children[0], *arguments], check=False, capture_output=True, text=True
            )

        off = types("--off", "append_queue,disk_op", "--json")
        listed = {entry["type"]: entry["on"] for entry in json.loads(off.stdout)["types"]}
        assert listed.keys() == {
            "service_op", "stitch", "buffer_op", "network_transmit", "disk_op", "cpu_slice", "append_queue",
        }  # fmt: skip
        assert [name for name, on in listed.items() if not on] == ["disk_op", "append_queue"]
        appends(5)
        assert types("--on", "all").stdout.count("on ") == 7
        appends(7)
        wrong = types("--off", "buffer")
        assert wrong.returncode == 1
        assert "no record type" in wrong.stderr and "buffer_op" in wrong.stderr
        recorder.stdin.close()
    assert recorder.returncode == 0
    found = Trail(trail)
    for table, rows in {"append_queue": 10, "disk_op": 10, "service_op": 15}.items():
        assert found.rows[table] == rows
    nobody = subprocess.run([*IOTRAIL, "types", "1"], check=False, capture_output=True, text=True)
    assert nobody.returncode == 1 and "process 1 is not being recorded" in nobody.stderr


def test_python_programs_declare_and_coalesce(tmp_path: Path) -> None:
    """What examples/sdk doesn't use: several parents, values of each type, tasks, refusals."""
    program = tmp_path / "program.py"
    program.write_text("""
import asyncio
from iotrail import sdk

kind = sdk.RecordType("kept", "What was kept.", [
    ("n", "BIGINT", "", "x"), ("part", "DOUBLE", "share", "x"), ("what", "VARCHAR", "", "x")])
for wrong in ("file_op", "Upper"):
    try:
        sdk.RecordType(wrong, "x", [])
        raise SystemExit("not refused")
    except sdk.DeclarationError as error:
        assert wrong in error.message
try:
    sdk.RecordType("kept", "Something else.", [])
    raise SystemExit("not refused")
except sdk.DeclarationError:
    pass
writes = {sdk.fresh(): 100 * n for n in (1, 2, 3)}
flush = sdk.coalesce(writes)
with sdk.service("cache", "flush", "internal", flush):
    kind.post(7, -0.0, "dirty")
    kind.post(None, 0.5)

async def task(n):
    with sdk.request("cache", "read", client=f"client-{n}"):
        await asyncio.sleep(0)
        kind.post(n, 1.0, None, crumb=None)

async def main():
    await asyncio.gather(task(1), task(2))

asyncio.run(main())
try:
    with sdk.request("cache", "fails"):
        raise FileNotFoundError(2, "gone")
except FileNotFoundError:
    pass
""")
    trail = tmp_path / "p.trail"
    subprocess.run([*IOTRAIL, "record", "-o", trail, "--", sys.executable, program], check=True)
    found = Trail(trail)
    stitches = found.rows_of(
        "SELECT COUNT(DISTINCT parent_crumb) AS n, COUNT(DISTINCT crumb) AS into, SUM(weight) AS w FROM stitch"
    )
    assert stitches == [{"n": 3, "into": 1, "w": 600}]
    rows = found.rows_of("""
        SELECT k.n, k.part, k.what, s.op, s.client FROM kept AS k JOIN service_op AS s USING (node, crumb)
        ORDER BY k.n NULLS FIRST""")
    assert [tuple(row.values()) for row in rows] == [
        (None, 0.5, None, "flush", None),
        (1, 1.0, None, "read", "client-1"),
        (2, 1.0, None, "read", "client-2"),
        (7, 0.0, "dirty", "flush", None),
    ]
    assert found.rows_of("SELECT status FROM service_op WHERE op = 'fails'") == [{"status": 2}]


def test_without_a_recording_nothing_happens(back: Path, tmp_path: Path) -> None:
    assert sdk.init() is False
    with sdk.request("a", "b", client="c") as request:
        assert request.crumb == 0 and request.headers() == {}
    front = [sys.executable, EXAMPLE / "front.py", back, tmp_path / "data", "3"]
    subprocess.run(front, check=True, cwd=tmp_path)
    assert (tmp_path / "data").stat().st_size == 512 + 1024 + 1536


@pytest.mark.parametrize(
    "headers", [{}, {"traceparent": "garbage"}, {"traceparent": "00-" + "0" * 32 + "-1-01"}]
)
def test_a_message_without_context_begins_a_request(headers: dict[str, str]) -> None:
    assert sdk.extract(headers) == 0  # nothing is recorded here


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_what_finds_no_room_is_counted(tmp_path: Path) -> None:
    """/dev/shm is too small for what a burst posts: the program goes on, and each record is a row or counted as lost."""
    program = tmp_path / "burst.py"
    program.write_text("""
import os
import signal
from iotrail import sdk
crumb = sdk.fresh()
sdk.transmit("here", "there", 100, crumb=crumb)
# the recorder, so that nothing is taken away meanwhile
os.kill(os.getppid(), signal.SIGSTOP)
for n in range(100_002):
    sdk.transmit("here", "there", 100, crumb=crumb)
os.kill(os.getppid(), signal.SIGCONT)
print("unharmed")
""")
    trail = tmp_path / "t.trail"
    record = [*IOTRAIL, "record", "-o", str(trail), "--", sys.executable, str(program)]
    line = f"mount -t tmpfs -o size=600k none /dev/shm; exec {shlex.join(record)}"
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-ec", line], check=True, capture_output=True, text=True
    )
    assert "unharmed" in done.stdout
    found = Trail(trail)
    [lost] = found.rows_of("SELECT SUM(amount) AS n FROM unseen WHERE kind = 'dropped'")
    assert lost["n"] > 0, done.stderr
    # of the interpreter's own calls at its end a few may be among those without room
    assert 0 <= found.rows["network_transmit"] + lost["n"] - 100_003 < 100


def test_what_is_posted_is_recorded_without_the_calls(back: Path, recorded: Path, tmp_path: Path) -> None:
    """`--no-calls` puts no recorder into the programs: their SDK posts the same records into segments of its own."""
    trail = tmp_path / "posted.trail"
    front = [sys.executable, EXAMPLE / "front.py", back, tmp_path / "data", str(PUTS)]
    record = [*IOTRAIL, "record", "--no-calls", "--node", "here", "-o", trail, "--", *front]
    done = subprocess.run(record, check=True, capture_output=True, text=True)
    assert "warning" not in done.stderr
    posted, whole = Trail(trail).rows, Trail(recorded).rows
    assert posted["file_op"] == posted["sync_op"] == 0 < whole["file_op"]
    for table in ("service_op", "stitch", "buffer_op", "disk_op", "network_transmit"):
        assert posted[table] == whole[table], table
    # one path through both parts, as with the calls
    joined = Trail(trail).rows_of("SELECT COUNT(*) AS n FROM stitch WHERE kind = 'rpc'")
    assert joined[0]["n"] >= PUTS
