"""`iotrail generate --target`: what is drawn from a model is what storage gets, at its times or one after the other."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iotrail.trail import Trail

from ..command import iotrail, run

Model = Callable[..., Path]
MIB = 1 << 20


def ran(*words: object) -> dict[str, Any]:
    """The summary of a run."""
    found: dict[str, Any] = json.loads(iotrail("generate", *words, "--json"))
    return found


def refused(words: list[object], *parts: str) -> None:
    said = iotrail("generate", *words, fails=True)
    assert "rror:" in said and "Traceback" not in said
    # the messages of options are wrapped
    flat = " ".join(said.replace("│", " ").split())
    for part in parts:
        assert part in flat, said


def blank(path: Path, size: int = 64 * MIB) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """`model(n, devices, gap, ops)`: of n requests in the first 32 MiB, `gap` microseconds apart in the mean."""
    folder = tmp_path_factory.mktemp("models")

    @functools.cache
    def make(n: int = 2000, devices: int = 1, gap: int = 500, ops: str = "RRW") -> Path:
        random, lines, at = Random(1), [], 0
        for _ in range(n):
            at += random.randrange(1, 2 * gap)
            size = random.choice([4096, 8192, 65536])
            place = random.randrange((32 * MIB - size) // 4096) * 4096
            lines.append(f"{at},{random.randrange(devices)},{random.choice(ops)},{place},{size}\n")
        name = f"{n}-{devices}-{gap}-{ops}"
        trace, trail, made = (folder / f"{name}.{kind}" for kind in ("csv", "trail", "json"))
        trace.write_text("ts_us,device,op,offset,size\n" + "".join(lines))
        iotrail("import", "csv", trace, "-o", trail)
        iotrail("model", "fit", trail, "-o", made, "--levels", "2")
        return made

    return make


def requests(trail: Path) -> Counter[tuple[str, int, int]]:
    """Calls, offsets and sizes in a trail."""
    rows = Trail(trail).rows_of("SELECT call, pos, length FROM file_op")
    return Counter((row["call"], row["pos"], row["length"]) for row in rows)


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_what_is_drawn_is_run(model: Model, tmp_path: Path, engine: str, loop: str) -> None:
    app, target = model(), blank(tmp_path / "disk")
    iotrail("generate", app, "--dry", "-o", tmp_path / "dry.trail", "--seed", 7)
    said = ran(
        app, "--target", target, "--seed", 7, "--engine", engine, "--loop", loop, "-o", tmp_path / "y.trail"
    )
    drawn = requests(tmp_path / "dry.trail")
    assert sum(drawn.values()) == said["requests"] == 2000
    assert requests(tmp_path / "y.trail") == drawn
    assert said["bytes"] == sum(size * count for (_, _, size), count in drawn.items())
    assert said["errors"] == [] and said["skipped"] == {} and not said["is_interrupted"]
    assert (said["iops_asked"] is None) == (said["lateness"] is None) == (loop == "closed")
    # The target holds what was written, and is no longer than before.
    content = target.read_bytes()
    assert len(content) == 64 * MIB
    written = {
        page
        for call, pos, size in drawn
        if call == "pwrite"
        for page in range(pos // 512, -(-(pos + size) // 512))
    }
    zeros = bytes(512)
    assert written == {
        page for page in range(64 * MIB // 512) if content[page * 512 : page * 512 + 512] != zeros
    }
    # All have a response time, and the trail says what it is of.
    trail = Trail(tmp_path / "y.trail")
    assert (
        trail.rows_of("SELECT COUNT(*) AS n FROM file_op WHERE dur > 0 AND result = length")[0]["n"] == 2000
    )
    assert trail.rows_of("SELECT DISTINCT path FROM file")[0]["path"] == str(target)
    facts = {row["name"]: row["value"] for row in trail.rows_of("SELECT name, value FROM recording")}
    assert facts["model"] == str(app) and json.loads(facts["generate"])["requests"] == 2000


def test_devices_have_targets_of_their_own(model: Model, tmp_path: Path) -> None:
    app = model(devices=2)
    targets = [blank(tmp_path / f"disk{number}") for number in range(2)]
    each = [word for number in range(2) for word in ("--target", f"{number}={targets[number]}")]
    for loop in ("open", "closed"):
        said = ran(app, *each, "--loop", loop, "-o", tmp_path / "y.trail", "--force", "--overwrite")
        assert said["requests"] == 2000
        counts = {
            row["path"]: row["n"]
            for row in Trail(tmp_path / "y.trail").rows_of(
                "SELECT path, COUNT(*) AS n FROM file_op JOIN file USING (node, file) GROUP BY path"
            )
        }
        assert set(counts) == set(map(str, targets)) and all(count > 800 for count in counts.values())
    refused([app, "--target", targets[0]], "the model is of 2 devices", "--target 0=FILE for each of 0, 1")
    each.append("--overwrite")
    refused([app, *each[:2], "--overwrite"], "no target for 1", "add --target 1=FILE")
    refused([app, *each, "--target", f"2={targets[0]}"], "the model has no device 2", "it has 0, 1")
    refused(
        [app, *each[:2], "--overwrite", "--target", f"0={targets[1]}"], "0 has two targets", "one --target"
    )
    refused([app, *each[:2], "--target", f"1={targets[0]}", each[-1]], "is the target of two devices")


def test_twice_the_intensity_takes_half_the_time(model: Model, tmp_path: Path) -> None:
    app, target = model(ops="R"), blank(tmp_path / "disk")
    once = ran(app, "--target", target)
    twice = ran(app, "--target", target, "--intensity", 2)
    assert 1.5 < once["took_ns"] / twice["took_ns"] < 2.5
    assert 1.9 < twice["iops_asked"] / once["iops_asked"] < 2.1
    assert once["intensity"] == 1 and twice["intensity"] == 2


def test_more_than_storage_can_do_is_said(model: Model, tmp_path: Path) -> None:
    said = ran(model(ops="R"), "--target", blank(tmp_path / "disk"), "--intensity", 1e9)
    assert said["requests"] == 2000
    assert said["iops_asked"] > 1e9 > said["iops"] > 0
    assert said["lateness"]["max_ns"] > 0


def test_a_closed_loop_has_so_many_in_flight(model: Model, tmp_path: Path) -> None:
    app, target = model(ops="R"), blank(tmp_path / "disk")
    for depth in (1, 4):
        said = ran(
            app,
            "--target",
            target,
            "--loop",
            "closed",
            "--depth",
            depth,
            "-o",
            tmp_path / "y.trail",
            "--force",
        )
        assert said["depth"] == depth and said["requests"] == 2000
        rows = Trail(tmp_path / "y.trail").rows_of("SELECT ts, dur, thread FROM file_op")
        assert len({row["thread"] for row in rows}) <= depth
        changes = sorted(change for row in rows for change in ((row["ts"], 1), (row["ts"] + row["dur"], -1)))
        flying = most = 0
        for _, change in changes:
            flying += change
            most = max(most, flying)
        assert most <= depth


def test_a_model_repeats_for_a_time(model: Model, tmp_path: Path) -> None:
    app, target = model(n=200, gap=50, ops="R"), blank(tmp_path / "disk")
    for loop in ("open", "closed"):
        said = ran(app, "--target", target, "--for", "1s", "--loop", loop)
        assert said["requests"] > 1000 and said["for_ns"] == 1_000_000_000 <= said["took_ns"]
    slow = model(n=200, gap=1_000_000, ops="R")
    # 200 s, cut off
    assert ran(slow, "--target", target, "--for", "1s")["requests"] < 20
    said = ran(app, "--target", target, "--for", "1s", "--warm-up", "500ms", "--intensity", 100)
    assert said["warm_up_requests"] > 20 and said["took_ns"] >= 500_000_000


def test_places_are_refused_as_a_replay_refuses_them(model: Model, tmp_path: Path) -> None:
    app, output = model(), tmp_path / "y.trail"
    data = tmp_path / "data"
    data.write_bytes(b"precious" * (4 * MIB))
    refused([app, "--target", data, "-o", output], "holds data (at byte 0)", "the model", "--overwrite")
    assert data.read_bytes() == b"precious" * (4 * MIB) and not output.exists()
    small = blank(tmp_path / "small", MIB)
    refused(
        [app, "--target", small, "-o", output], "has 1048576 bytes, the model reaches up to byte", "--fold"
    )
    assert ran(app, "--target", small, "--fold")["requests"] == 2000 and small.stat().st_size == MIB
    refused([app, "--target", tmp_path / "none"], "No such file", "truncate -s")
    refused([app, "--target", tmp_path], "neither a file nor a block device")
    closed = blank(tmp_path / "closed")
    closed.chmod(0o444)
    if os.geteuid() != 0:
        refused([app, "--target", closed], "is read-only, and the model writes", "chmod")
    output.mkdir()
    (output / "mine").touch()
    refused([app, "--target", small, "--fold", "--overwrite", "-o", output], str(output))
    assert (output / "mine").exists()
    # What only reads may have data.
    assert ran(model(ops="R"), "--target", data)["requests"] == 2000


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """A loop device of 64 MiB of zeros."""
    name = subprocess.run(
        ["losetup", "--find", "--show", blank(tmp_path / "image")], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for loop devices")
@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_a_device_gets_reads_writes_and_flushes(
    model: Model, device: str, tmp_path: Path, engine: str
) -> None:
    app = model(ops="RWF")
    said = ran(app, "--target", device, "--engine", engine, "--intensity", 10)
    assert set(said["by_op"]) == {"read", "write", "flush"} and said["errors"] == []
    assert said["requests"] == 2000
    assert ran(model(ops="R"), "--target", device, "--direct", "--engine", engine)["requests"] == 2000
    refused([app, "--target", device], "holds data")
    subprocess.run(["blockdev", "--setro", device], check=True)
    refused(
        [app, "--target", device, "--overwrite"], "is read-only, and the model writes", "blockdev --setrw"
    )
    subprocess.run(["blockdev", "--setrw", device], check=True)
    held = os.open(device, os.O_RDONLY | os.O_EXCL)
    refused([app, "--target", device, "--overwrite"], "is in use by the system")
    os.close(held)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_run_with_failed_requests_fails(model: Model, tmp_path: Path) -> None:
    """A file with holes on a file system that gets full."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], check=True)
    try:
        words = ("generate", model(), "--target", blank(tmp_path / "disk"), "--intensity", 10, "--json")
        done = run(*words)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    said = json.loads(done.stdout)
    assert done.returncode == 1
    # and one that wrote the last bytes there was room for
    counts = {(error["op"], error["errno"]): error["count"] for error in said["errors"]}
    assert counts.pop(("write", "ENOSPC")) > 100
    assert set(counts) <= {("write", "short")}
    assert said["requests"] == 2000 and not said["is_interrupted"]


def test_what_makes_no_sense_is_refused(model: Model, tmp_path: Path) -> None:
    app, target = model(), blank(tmp_path / "disk")
    run = [app, "--target", target]
    for wrong in ("0", "-1", "nan", "inf", "1e300", "1e-300"):
        refused([*run, f"--intensity={wrong}"], "--intensity", "expected 1e-12 to 1e+12")
    for wrong in ("0s", "-5s", "soon"):
        refused([*run, f"--for={wrong}"], "--for", "expected a time above 0")
    refused([*run, "--depth", "0"], "--depth", "1..=1024")
    refused([*run, "--loop", "ajar"], "--loop", "open, closed")
    refused([*run, "--engine", "diesel"], "--engine", "psync, io_uring")
    refused([*run, "--warm-up", "2s", "--for", "1s"], "--warm-up 2s leaves nothing of --for 1s")
    refused(
        [*run, "--loop", "closed", "--intensity", "2"], "--intensity can't be combined with --loop closed"
    )
    refused([*run, "--dry"], "--target can't be combined with --dry")
    refused([app, "-o", tmp_path / "y.trail", "--for", "1s"], "--for", "expected --target PATH")
    refused([app], "neither --target nor -o")
    refused([tmp_path / "none.json", "--target", target], "none.json", "No such file")
    refused([target, "--target", target], "not a model")
    assert not any(target.read_bytes())


@pytest.mark.parametrize("engine", ["psync", "io_uring"])
def test_a_benchmark_is_as_asked(tmp_path: Path, engine: str) -> None:
    target, trail = blank(tmp_path / "disk"), tmp_path / "y.trail"
    bench = "threads=4,size=16KiB,random=25%,read=70%,think=1ms"
    said = ran("--bench", bench, "--target", target, "--for", "1s", "--engine", engine, "-o", trail)
    assert (said["loop"], said["depth"], said["model"]) == ("closed", 4, None)
    assert said["bench"] == {
        "threads": 4, "size": 16384, "stride": 16384, "random": 0.25, "read": 0.7, "think_ns": 1_000_000,
    }  # fmt: skip
    # Each of four thinks a millisecond after a request.
    assert 100 < said["requests"] <= 4 * 1010 and said["by_op"]["read"]["response"]["mean_ns"] > 0
    rows = Trail(trail).rows_of("SELECT call, pos, length FROM file_op")
    assert len(rows) == said["requests"]
    assert all(row["length"] == 16384 and row["pos"] % 16384 == 0 for row in rows)
    assert 0.6 < sum(row["call"] == "pread" for row in rows) / len(rows) < 0.8
    # A closed loop that only reads may be on data.
    assert ran("--bench", "threads=1", "--target", target, "--for", "100ms")["by_op"].keys() == {"read"}
    refused(
        ["--bench", bench, "--target", target, "--for", "1s"],
        "which the writes of the benchmark would replace",
    )


def test_a_benchmark_that_makes_no_sense_is_refused(model: Model, tmp_path: Path) -> None:
    target = blank(tmp_path / "disk")
    run = ["--target", target, "--for", "1s"]
    for wrong, expected in {
        "threads=0": "threads: expected 1 to 1024",
        "size=1GiB": "size: expected 1 byte to 16MiB",
        "read=101%": "read: expected 0% to 100%",
        "think=soon": "think: expected a time above 0",
        "speed=11": "expected threads=8",
    }.items():
        refused([*run, "--bench", wrong], "--bench", expected, wrong.split("=")[1])
    refused(["--bench", "threads=1", "--target", target], "--for")
    refused([*run, model(), "--bench", "threads=1"], "cannot be used with '[MODEL]'")
    refused([*run, "--bench", "threads=1", "--depth", "2"], "--depth", "cannot be used with")
    refused(["--bench", "threads=1"], "--bench", "expected --target PATH")
    refused(["-o", tmp_path / "y.trail"], "no MODEL")
    refused([*run, "--bench", "size=16MiB", "--target", f"1={target}"], "the benchmark has no device 1")
    refused(
        [*["--target", blank(tmp_path / "small", 4096), "--for", "1s"], "--bench", "size=8K"],
        "has 4096 bytes",
    )


def test_the_summary_is_for_people_too(model: Model, tmp_path: Path) -> None:
    text = iotrail(
        "generate",
        model(),
        "--target",
        blank(tmp_path / "disk"),
        "--intensity",
        10,
        "-o",
        tmp_path / "y.trail",
    )
    assert re.search(r"^requests +2,000 in .* per second, asked ", text, re.MULTILINE)
    assert re.search(r"^lateness +mean .*, p50 .*, p99 .*% over 1 ms$", text, re.MULTILINE)
    assert re.search(r"^read( +[^ ]+){3}( +[^ ]+ (ns|µs|ms|s)){4}$", text, re.MULTILINE)
    assert f"iotrail report {tmp_path / 'y.trail'}" in text


@pytest.mark.parametrize("recorded", [False, True])
def test_interrupted_it_says_what_was_done(model: Model, tmp_path: Path, recorded: bool) -> None:
    app, target = model(ops="R"), blank(tmp_path / "disk")
    output = ["-o", tmp_path / "y.trail"] if recorded else []
    command = [
        sys.executable,
        "-m",
        "iotrail",
        "generate",
        app,
        "--target",
        target,
        "--for",
        "10min",
        "--json",
    ]
    running = subprocess.Popen(
        list(map(str, [*command, *output])), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    group = running.pid
    # Signals wait for the summary once a second thread does.
    while not any(threads(pid) > 2 for pid in processes(group)):
        assert running.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    os.killpg(group, signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    found = json.loads(out)
    assert found["is_interrupted"] and 0 < found["requests"] < 600_000_000
    if recorded:
        assert Trail(tmp_path / "y.trail").rows["file_op"] == found["requests"]


def processes(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                found.append(int(stat.parent.name))
        except OSError:
            pass
    return found


def threads(pid: int) -> int:
    """Threads of a process that issues requests; 0 of any other."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        is_host = b"--worker" not in words and any(word.startswith(b"--output") for word in words)
        is_python = words[0].endswith(b"python") or b"-m" in words
        return 0 if is_host or is_python else len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0
