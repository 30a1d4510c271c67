"""A causal replay in parts, in network namespaces as machines: in the program's order, and what becomes of the others if one is gone."""

import itertools
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrail.trail import Trail

from .conftest import HERE, IOTRAIL

WRITES = 40
NUMBERS = itertools.count(os.getpid() * 10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_root() -> bool:
    return os.geteuid() == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks that write a block each and meet, again and again."""
    folder = tmp_path_factory.mktemp("parts")
    ranks, data, trail = folder / "ranks", folder / "data", folder / "x.trail"
    data.mkdir()
    source = HERE.parent.parent / "examples" / "causal" / "ranks.c"
    subprocess.run(["mpicc.openmpi", "-O1", "-o", ranks, source], check=True)
    program = [
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "4",
        ranks,
        "sync",
        str(WRITES),
        "4096",
        data,
    ]
    subprocess.run(
        [*IOTRAIL, "record", "--causal", "-o", trail, "--", *program], check=True, capture_output=True
    )
    return trail


@pytest.fixture
def machines() -> Iterator[list[tuple[str, str]]]:
    """Names and addresses of two network namespaces that reach each other."""
    names = [f"iot{next(NUMBERS)}" for _ in range(2)]
    made = []
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.append(name)
        subprocess.run(
            [
                "ip",
                "link",
                "add",
                "e",
                "netns",
                names[0],
                "type",
                "veth",
                "peer",
                "name",
                "e",
                "netns",
                names[1],
            ],
            check=True,
        )
        for name, address in zip(names, ("10.77.0.1", "10.77.0.2"), strict=True):
            subprocess.run(["ip", "-n", name, "address", "add", f"{address}/24", "dev", "e"], check=True)
            for link in ("lo", "e"):
                subprocess.run(["ip", "-n", name, "link", "set", link, "up"], check=True)
        yield [(names[0], "10.77.0.1"), (names[1], "10.77.0.2")]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True)


def start(where: list[str], recorded: Path, part: str, root: Path, *words: str) -> subprocess.Popen[str]:
    output = root.parent / f"{part.replace('/', '-')}.trail"
    command = [
        *where,
        *IOTRAIL,
        "replay",
        recorded,
        "--root",
        root,
        "--mode",
        "causal",
        "--part",
        part,
        "-o",
        output,
        "--force",
        "--json",
        *words,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def writes(trails: list[Path]) -> dict[str, list[tuple[int, int]]]:
    """Starts and ends of the writes of the ranks, by recorded thread."""
    found: dict[str, list[tuple[int, int]]] = {}
    for trail in trails:
        rows = Trail(trail).query(
            "SELECT t.name, o.ts, o.ts + o.dur FROM file_op AS o INNER JOIN thread AS t ON t.thread = o.thread "
            "INNER JOIN file AS f ON f.file = o.file WHERE o.call = 'pwrite' AND f.path LIKE '%/data/%' ORDER BY o.ts"
        )
        for name, begin, end in rows.fetchall():
            found.setdefault(name, []).append((begin, end))
    return found


@pytest.mark.skipif(not is_root(), reason="network namespaces need root")
@pytest.mark.parametrize("is_shared", [True, False])
def test_parts_wait_for_each_other(
    is_shared: bool, recorded: Path, machines: list[tuple[str, str]], tmp_path: Path
) -> None:
    meet = ["--meet", f"{machines[0][1]}:7433"]
    running = []
    for number, (name, _) in enumerate(machines):
        folder = tmp_path / f"machine{number}"
        folder.mkdir()
        root = (tmp_path if is_shared else folder) / "root"
        part = start(["ip", "netns", "exec", name], recorded, f"{number + 1}/2", root, *meet)
        running.append((part, root.parent / f"{number + 1}-2.trail"))
    for part, _ in running:
        said, problems = part.communicate(timeout=120)
        assert part.returncode == 0, (said, problems)
    found = writes([trail for _, trail in running])
    # rank 0 fills the file before
    assert sorted(map(len, found.values())) == [WRITES] * 3 + [5 * WRITES]
    filled = max(times[-WRITES - 1][1] for times in found.values() if len(times) > WRITES)
    found = {name: times[-WRITES:] for name, times in found.items()}
    assert all(times[0][0] >= filled for times in found.values())
    assert all(len(writes([trail])) in (1, 2, 3) for _, trail in running), "each part has ranks"
    for (before, one), (after, other) in itertools.permutations(found.items(), 2):
        assert before != after
        assert all(done[1] <= begun[0] for done, begun in zip(one, other[1:], strict=False)), (before, after)
    made = [path.parent for path in tmp_path.glob("**/.iotrail-replay")]
    assert len(made) == (1 if is_shared else 2)


def test_a_part_that_is_gone_ends_the_others(recorded: Path, tmp_path: Path) -> None:
    slow = ["--scale-compute", "1000", "--meet", f"127.0.0.1:{free_port()}"]
    first, second = (
        start([], recorded, f"{number}/2", tmp_path / str(number) / "root", *slow) for number in (1, 2)
    )
    until = time.monotonic() + 60
    workers: list[int] = []
    while not workers and time.monotonic() < until:
        time.sleep(0.2)
        workers = [pid for pid in children(second.pid) if "--worker" in words_of(pid)]
    time.sleep(0.5)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    said, problems = first.communicate(timeout=120)
    assert first.returncode == 1 and "part 2 is gone" in problems, (said, problems)
    assert second.wait(timeout=120) != 0
    second.communicate()


def children(pid: int) -> list[int]:
    """All that descend from it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = re.search(
                r"^PPid:\s*(\d+)", (entry / "status").read_text() if (entry / "status").exists() else "", re.M
            )
            if parent and int(parent[1]) == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_what_does_not_fit_is_refused(recorded: Path, make_causal: Path, tmp_path: Path) -> None:
    meet = ["--meet", f"127.0.0.1:{free_port()}"]
    first = start([], recorded, "1/3", tmp_path / "1" / "root", *meet)
    try:
        second = start([], recorded, "2/3", tmp_path / "2" / "root", *meet)
        assert first.stderr is not None
        waited = [first.stderr.readline() for _ in range(2)]
        assert "waiting for part 2 of 3" in waited[0] and "waiting for part 3 of 3" in waited[1]
        for part, trail, said in (
            ("2/3", recorded, "there is a part 2 already"),
            ("2/2", make_causal, "part 1 replays another trail"),
        ):
            other = start([], trail, part, tmp_path / "other" / "root", *meet)
            _, problems = other.communicate(timeout=60)
            assert other.returncode == 1 and said in problems, problems
        # whoever waits can be interrupted, as by a terminal
        os.killpg(first.pid, signal.SIGINT)
        _, problems = first.communicate(timeout=60)
        assert first.returncode == 130, problems
        _, problems = second.communicate(timeout=60)
        assert second.returncode == 1 and "it ended" in problems, problems
    finally:
        for part in (first, second):
            if part.poll() is None:
                os.killpg(part.pid, signal.SIGKILL)
                part.wait()
    assert not list(tmp_path.rglob("?-3.trail"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--part", "3/2", "--meet", "127.0.0.1:7436"], "expected K/N"),
        (["--part", "1/2"], "--meet"),
        (["--meet", "127.0.0.1:7436"], "--part"),
        (["--part", "1/2", "--meet", "127.0.0.1:7436", "--mode", "think"], "--part needs --mode causal"),
        (["--part", "1/99", "--meet", "127.0.0.1:7436"], "can't be shared out to 99 parts"),
        (["--part", "1/2", "--meet", "nowhere.invalid:1"], "cannot listen at nowhere.invalid:1"),
        (["--part", "2/2", "--meet", "127.0.0.1"], "cannot use 127.0.0.1"),
    ],
)
def test_wrong_input(words: list[str], said: str, recorded: Path, tmp_path: Path) -> None:
    command = [*IOTRAIL, "replay", recorded, "--root", tmp_path / "root", "-o", tmp_path / "y.trail"]
    command += [*words] if "--mode" in words else ["--mode", "causal", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and said in done.stderr, done.stderr
    assert not (tmp_path / "y.trail").exists() and not (tmp_path / "root").exists()
