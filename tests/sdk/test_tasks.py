"""CPU time and calls are the task's that made them, whichever thread ran it and whatever ran in between."""

import subprocess
import sys
from pathlib import Path

import pytest

from iotrail.trail import Trail

from .conftest import IOTRAIL

# What each client computes, by the thread's own clock: known to the program, and to nobody else.
PRELUDE = """
import asyncio, os, sys, threading, time
{imports}
from iotrail import sdk

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""
TASKS = """
async def task(client, cpu):
    with sdk.request("front", "do", client=client):
        for n in range(10):
            burn(cpu / 10)
            os.pread(zero, n + 1, 0)
            await asyncio.sleep(0.002)

async def in_thread(client):
    with sdk.request("front", "thread", client=client):
        await asyncio.to_thread(burn, 0.05)

async def in_executor(client):
    with sdk.request("front", "executor", client=client):
        await asyncio.get_running_loop().run_in_executor(None, burn, 0.05)

async def in_callback(client):
    loop = asyncio.get_running_loop()
    with sdk.request("front", "callback", client=client):
        done = loop.create_future()
        loop.call_later(0.002, lambda: (burn(0.05), done.set_result(None)))
        await done

async def sleeps(client):
    with sdk.request("front", "sleep", client=client):
        await asyncio.sleep(0.3)

async def main():
    await asyncio.sleep(0)
    await asyncio.gather(
        task("a", 0.1), task("b", 0.2), in_thread("thread"), in_executor("executor"), in_callback("callback"),
        sleeps("sleeps"))
    # all requests are done: this is nobody's
    burn(0.1)
    os.pread(zero, 77, 0)

zero = os.open("/dev/zero", os.O_RDONLY)
{run}(main())
burn(0.1)
os.pread(zero, 77, 0)
"""


def record(tmp_path: Path, program: str, *options: str) -> Trail:
    (tmp_path / "program.py").write_text(program)
    trail = tmp_path / "t.trail"
    subprocess.run(
        [*IOTRAIL, "record", *options, "-o", trail, "--", sys.executable, tmp_path / "program.py"],
        check=True,
    )
    return Trail(trail)


def billed(trail: Trail) -> dict[str | None, float]:
    """CPU seconds of each client."""
    rows = trail.rows_of(
        "SELECT client, SUM(time_ns) AS ns, SUM(unknown) AS unknown FROM demand WHERE resource = 'cpu' GROUP BY client"
    )
    assert all(row["unknown"] == 0 for row in rows)
    return {row["client"]: row["ns"] / 1e9 for row in rows}


@pytest.mark.parametrize("options", [[], ["--no-calls"]])
@pytest.mark.parametrize(
    ("imports", "run"), [("", "asyncio.run"), ("import uvloop", "uvloop.run")], ids=["asyncio", "uvloop"]
)
def test_each_task_has_what_it_computed(tmp_path: Path, imports: str, run: str, options: list[str]) -> None:
    """Two tasks that take turns on one thread, threads of the pool, a callback, and what is for nobody."""
    trail = record(tmp_path, PRELUDE.format(imports=imports) + TASKS.replace("{run}", run), *options)
    cpu = billed(trail)
    known = {"a": 0.1, "b": 0.2, "thread": 0.05, "executor": 0.05, "callback": 0.05, "sleeps": 0.0}
    assert cpu.keys() == known.keys()
    for client, seconds in known.items():
        # what the loop and the recorder did for it is its too
        assert seconds * 0.99 <= cpu[client] <= seconds * 1.1 + 0.01, (client, cpu)
    if not options:
        rows = trail.rows_of("""
            SELECT r.client, COUNT(*) AS n, SUM(f.length) AS bytes FROM file_op AS f
            LEFT JOIN (SELECT DISTINCT crumb, client FROM service_op) AS r ON r.crumb = f.crumb
            WHERE f.call = 'pread' AND f.length < 100 GROUP BY r.client ORDER BY r.client NULLS LAST""")
        assert [tuple(row.values()) for row in rows] == [("a", 10, 55), ("b", 10, 55), (None, 2, 154)]


def test_what_waits_costs_no_cpu(tmp_path: Path) -> None:
    """A request that sleeps, one that computes, and one whose thread ends while it works for it."""
    trail = record(
        tmp_path,
        PRELUDE.format(imports="")
        + """
with sdk.request("front", "sleep", client="sleeps"):
    time.sleep(0.5)
with sdk.request("front", "burn", client="burns"):
    burn(0.2)

def loop():
    for _ in range(3):
        burn(0.03)
        crumb = sdk.fresh()
        with sdk.within(crumb, taken=True), sdk.service("pool", "work", "server", crumb, client="taken"):
            burn(0.02)

def ends():
    sdk._lib.iotrail_crumb_set(sdk.fresh())
    burn(0.1)

for target in (loop, ends):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
crumb = sdk.fresh()
""",
    )
    cpu = billed(trail)
    assert cpu["sleeps"] < 0.02, cpu
    for client, seconds in {"burns": 0.2, "taken": 3 * 0.05}.items():
        assert seconds * 0.99 <= cpu[client] <= seconds * 1.1 + 0.01, (client, cpu)
    # no service_op has it; the thread's CPU time until its end is its breadcrumb's
    [row] = trail.rows_of("""
        SELECT SUM(cpu_ns) AS ns FROM cpu_slice
        WHERE crumb <> 0 AND crumb NOT IN (SELECT crumb FROM service_op)""")
    assert 0.099 <= row["ns"] / 1e9 <= 0.12
    shown = subprocess.run(
        [*IOTRAIL, "path", trail.path, "--slowest", "1"], check=True, capture_output=True, text=True
    ).stdout
    assert "front sleep for sleeps" in shown and "of it on a CPU" in shown and "unknown" not in shown


def test_a_connection_is_not_of_the_request_that_opened_it(tmp_path: Path) -> None:
    """Request a opens it and ends; what then comes for b is not a's, though the callbacks were made in a."""
    trail = record(
        tmp_path,
        PRELUDE.format(imports="")
        + """
class Client(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        burn(0.1)
        self.answered.set_result(None)

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(data)

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    with sdk.request("front", "opens", client="a"):
        _, client = await loop.create_connection(Client, *server.sockets[0].getsockname())
    with sdk.request("front", "asks", client="b"):
        client.answered = loop.create_future()
        client.transport.write(b"x")
        await client.answered
        burn(0.05)
    client.transport.close()
    server.close()

asyncio.run(main())
""",
    )
    cpu = billed(trail)
    assert cpu["a"] < 0.02 and 0.049 <= cpu["b"] <= 0.08, cpu


def test_a_loop_that_is_not_followed_leaves_the_thread_alone(tmp_path: Path) -> None:
    """Nothing is known of when its tasks take turns: the thread's calls and CPU time are for none of them."""
    trail = record(
        tmp_path,
        PRELUDE.format(imports="")
        + """
zero = os.open("/dev/zero", os.O_RDONLY)
asyncio.events._set_running_loop(object())
with sdk.request("front", "do", client="a"):
    burn(0.05)
    os.pread(zero, 77, 0)
asyncio.events._set_running_loop(None)
""",
    )
    assert trail.rows_of("SELECT client FROM service_op") == [{"client": "a"}]
    assert trail.rows["cpu_slice"] == 0
    assert trail.rows_of("SELECT DISTINCT crumb FROM file_op WHERE length = 77") == [{"crumb": 0}]


def test_a_forked_child_goes_on_for_its_parents_request(tmp_path: Path) -> None:
    trail = record(
        tmp_path,
        PRELUDE.format(imports="")
        + """
zero = os.open("/dev/zero", os.O_RDONLY)
with sdk.request("front", "fork", client="a"):
    child = os.fork()
    if not child:
        burn(0.1)
        os.pread(zero, 77, 0)
        os._exit(0)
    os.waitpid(child, 0)
""",
    )
    assert 0.099 <= billed(trail)["a"] <= 0.13
    rows = trail.rows_of(
        "SELECT s.client FROM file_op AS f JOIN service_op AS s USING (crumb) WHERE f.length = 77"
    )
    assert rows == [{"client": "a"}]


def test_a_program_that_is_started_for_a_request_works_for_it(tmp_path: Path) -> None:
    """What its environment names; another tracing system's context there is the program's business."""
    trail = record(
        tmp_path,
        PRELUDE.format(imports="import subprocess")
        + """
copy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=77", "count=5", "status=none"]
foreign = {"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "TRACESTATE": "x=y"}
with sdk.request("front", "copies", client="a") as request:
    for said in (request.environment(), foreign, {}):
        subprocess.run(copy, env=os.environ | said, check=True)
""",
    )
    rows = trail.rows_of("""
        SELECT p.client, COUNT(*) AS n FROM file_op AS f
        LEFT JOIN stitch AS s ON s.node = f.node AND s.crumb = f.crumb
        LEFT JOIN service_op AS p ON p.node = s.parent_node AND p.crumb = s.parent_crumb
        WHERE f.call = 'read' AND f.length = 77 GROUP BY ALL ORDER BY ALL""")
    assert rows == [{"client": "a", "n": 5}, {"client": None, "n": 10}]
    assert [client for client, cpu in billed(trail).items() if cpu] == ["a"]
