"""`iotrail record --kernel`: each request to a disk, once, with whose it was; each stretch on a CPU."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .recording import IOTRAIL, needs_root, recordings

REQUESTS = 1009  # a prime, so that no factor of it looks right


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A loop device of 64 MiB that takes direct I/O: path and name."""
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    made = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
    device = made.stdout.strip()
    yield device, Path(device).name
    subprocess.run(["losetup", "-d", device], check=True)


def fio(device: str, engine: str, rw: str) -> list[str]:
    size = ["--bs=4k", f"--number_ios={REQUESTS}", "--size=64M"]
    return ["fio", "--name=x", f"--filename={device}", f"--rw={rw}", "--direct=1", *size, f"--ioengine={engine}",
            "--minimal", "--iodepth=8"]  # fmt: skip


@needs_root
@pytest.mark.parametrize("via", ["ebpf", "tracefs"])
@pytest.mark.parametrize(
    ("engine", "rw"), [("psync", "randread"), ("psync", "randwrite"), ("io_uring", "randread")]
)
def test_each_request_to_a_disk_is_a_row_with_its_process(
    loop: tuple[str, str], tmp_path: Path, via: str, engine: str, rw: str
) -> None:
    device, name = loop
    op, n = rw.removeprefix("rand"), REQUESTS
    for trail, last in recordings(fio(device, engine, rw), tmp_path, "--kernel-via", via):
        # fio looks at the device before it begins, in other sizes
        rows = trail.rows_of(f"""
            SELECT p.name, d.kind, COUNT(*) AS n, SUM(d.length) AS bytes,
                COUNT(*) FILTER (WHERE d.ts <= d.issued AND d.issued <= d.ts + d.dur) AS in_order,
                COUNT(*) FILTER (WHERE d.pos % 4096 = 0 AND d.pos < 67108864) AS inside
            FROM disk_op AS d JOIN thread AS t USING (node, thread) JOIN process AS p USING (node, process)
            WHERE d.dev = '{name}' AND d.op = '{op}' AND d.length = 4096 AND p.pid = d.pid GROUP BY ALL""")
        expected = {"name": "fio", "kind": "kernel", "n": n, "bytes": n * 4096, "in_order": n, "inside": n}
        if rows == [expected] or last:
            break
    assert rows == [expected]
    facts = {row["name"]: row["value"] for row in trail.rows_of("SELECT name, value FROM recording")}
    assert facts["kernel_via"] == via


@needs_root
@pytest.mark.parametrize("via", ["ebpf", "tracefs"])
@pytest.mark.parametrize("system", [False, True])
def test_the_disk_io_of_others_is_recorded_only_for_the_whole_machine(
    loop: tuple[str, str], tmp_path: Path, via: str, system: bool
) -> None:
    """Beside the program another one writes to the same disk: its requests and its threads are the machine's."""
    device, name = loop
    # Of other sizes, so that each row tells whose it is: 1 MiB by the other, 8 KiB by the program's child.
    other = subprocess.Popen(
        ["sh", "-c", f"while dd if=/dev/zero of={device} bs=1M count=1 seek=32 oflag=direct conv=notrunc status=none;"
         " do sleep 0.02; done"], stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        command = f"dd if=/dev/zero of={device} bs=8k count=41 oflag=direct conv=notrunc status=none; sleep 0.5; true"
        options = ["--kernel-via", via, *(["--system"] if system else [])]
        for trail, last in recordings(["sh", "-c", command], tmp_path, *options):
            rows = trail.rows_of(f"""
                SELECT COUNT(*) FILTER (WHERE length = 8192) AS own, COUNT(*) FILTER (WHERE length > 8192) AS others
                FROM disk_op WHERE dev = '{name}' AND op = 'write'""")
            strangers = trail.rows_of("SELECT DISTINCT name FROM process WHERE exe IS NULL AND cmd IS NULL")
            if (rows[0]["own"] == 41 and (rows[0]["others"] > 0) == system) or last:
                break
    finally:
        other.kill()
        other.wait()
    assert rows[0]["own"] == 41
    assert (rows[0]["others"] > 0) == system
    if not system:
        assert strangers == []


@needs_root
def test_cpu_time_goes_to_the_request_a_thread_worked_for(tmp_path: Path) -> None:
    """Two requests burn CPU, one three times as long as the other: slices are cut where the thread changed hands."""
    program = tmp_path / "burn.py"
    program.write_text("""
import time
from iotrail import sdk

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

sdk.init()
for client, seconds in (("short", 0.1), ("long", 0.3)) * 2:
    with sdk.request("burner", "burn", client=client):
        burn(seconds)
    burn(0.05)
""")
    for trail, last in recordings([sys.executable, str(program)], tmp_path):
        rows = trail.rows_of("""
            SELECT s.client, SUM(c.dur) AS cpu FROM cpu_slice AS c
            LEFT JOIN service_op AS s ON s.node = c.node AND s.crumb = c.crumb
            WHERE c.kind = 'kernel' GROUP BY ALL""")
        cpu = {row["client"]: row["cpu"] / 1e9 for row in rows}
        right = cpu.get("short") == pytest.approx(0.2, rel=0.05) and cpu["long"] == pytest.approx(
            0.6, rel=0.05
        )
        if right or last:
            break
    assert right, cpu
    (of_all,) = trail.rows_of("""
        SELECT SUM(c.dur) AS cpu, MAX(p.user_ns + p.system_ns) AS used FROM cpu_slice AS c
        JOIN thread AS t USING (node, thread) JOIN process AS p USING (node, process)
        WHERE c.kind = 'kernel' AND p.ended = 'exit'""")
    assert of_all["cpu"] == pytest.approx(of_all["used"], rel=0.05)
    # rows of one thread never overlap
    (overlaps,) = trail.rows_of("""
        SELECT COUNT(*) AS n FROM (
            SELECT ts, LAG(ts + dur) OVER (PARTITION BY node, thread ORDER BY ts) AS before
            FROM cpu_slice WHERE kind = 'kernel') WHERE before > ts""")
    assert overlaps["n"] == 0


@needs_root
def test_cpu_time_of_getting_work_is_for_the_work_that_was_taken(tmp_path: Path) -> None:
    """A loop burns CPU before each request: it is the request's that took it, and nobody's that was only entered."""
    program = tmp_path / "loop.py"
    program.write_text("""
import time
from iotrail import sdk

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

sdk.init()
for taken in (True, False) * 5:
    burn(0.04)
    crumb = sdk.fresh()
    with sdk.within(crumb, taken=taken), sdk.service("burner", "burn", "server", crumb, client="taken" if taken else "entered"):
        burn(0.02)
""")
    for trail, last in recordings([sys.executable, str(program)], tmp_path):
        rows = trail.rows_of("""
            SELECT s.client, SUM(c.dur) / 1e9 AS cpu FROM cpu_slice AS c
            JOIN service_op AS s ON s.node = c.node AND s.crumb = c.crumb
            WHERE c.kind = 'kernel' GROUP BY ALL""")
        cpu = {row["client"]: row["cpu"] for row in rows}
        # the first one has the program's start besides
        right = cpu.get("entered") == pytest.approx(0.1, rel=0.05) and cpu.get("taken", 0) >= 0.3 * 0.95
        if right or last:
            break
    assert right, cpu


@needs_root
def test_where_the_kernel_may_not_be_recorded_it_is_said(tmp_path: Path) -> None:
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    trail = tmp_path / "t.trail"
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    done = subprocess.run(
        [*user, *IOTRAIL, "record", "--kernel", "-o", trail, "--", "true"],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode != 0 and "the kernel's events can't be recorded" in done.stderr
    assert "hint: run as root" in done.stderr
    assert not trail.exists()
