"""Storage that fails at each call a run makes, and a power cut at each: tests/faultfs under trails, a recording
and the collector's log."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from ..collector.conftest import Collector, gone, until
from ..collector.test_collector import Sender
from .storage import Storage, build_faultfs

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "python/iotrail/_native/iotrail-native"
CHANGES = ["write", "fsync", "create", "link", "rename", "mkdir", "unlink", "truncate"]
READS = ["open", "read", "opendir", "readdir"]
# Most points of one kind of run at which a fault is tried.
POINTS = int(os.environ.get("IOTRAIL_FAULT_POINTS", "4"))


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        pytest.skip("mounting needs root and /dev/fuse")
    storage = Storage(build_faultfs(), tmp_path_factory.mktemp("storage") / "mount")
    yield storage
    storage.end()


def points(calls: int) -> list[int]:
    """Calls at which a fault is tried: all, or some spread evenly."""
    if calls <= POINTS:
        return list(range(1, calls + 1))
    step = calls / POINTS
    chosen = random.Random(calls)
    return [1 + int(step * (i + chosen.random())) for i in range(POINTS)]


def ingest(trail: Path, first: int, rows: int = 5) -> subprocess.CompletedProcess[bytes]:
    """A trail of samples at `first`, `first` + 1 …"""
    n = range(first, first + rows)
    columns = {"ts": list(n), "dur": [0] * rows, "node": ["n"] * rows, "member": ["n"] * rows}
    table = pa.table(columns | {"metric": ["load"] * rows, "value": [1.0] * rows})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    command = [NATIVE, "ingest", "-o", trail, "--table", "node_sample"]
    return subprocess.run(command, input=sink.getvalue().to_pybytes(), capture_output=True, timeout=60)


def trail_command(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([NATIVE, "trail", *words], capture_output=True, timeout=60)


def times(trail: Path) -> list[int]:
    """The samples of the newest snapshot, read as the format says; fails if one of its files isn't whole."""
    newest = max((trail / "snapshots").glob("*.json"), key=lambda path: int(path.stem))
    files = json.loads(newest.read_text())["tables"]["node_sample"]["files"]
    rows = [duckdb.sql(f"SELECT ts FROM read_parquet('{trail / file['path']}')").fetchall() for file in files]
    return sorted(ts for part in rows for (ts,) in part)


def check(trail: Path) -> None:
    checked = trail_command("check", trail)
    assert checked.returncode == 0, checked.stdout + checked.stderr


OLD = [10 * part + i for part in range(3) for i in range(5)]
NEW = list(range(100, 105))


@pytest.fixture(scope="module")
def trails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a.trail` of three files and `b.trail` of one."""
    folder = tmp_path_factory.mktemp("trails")
    parts = [folder / f"{part}.trail" for part in range(3)]
    for part, trail in enumerate(parts):
        assert ingest(trail, 10 * part).returncode == 0
    assert trail_command("merge", *parts, "-o", folder / "a.trail").returncode == 0
    assert ingest(folder / "b.trail", 100).returncode == 0
    for part in parts:
        shutil.rmtree(part)
    return folder


def run(name: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """The change of trails that is tried."""
    match name:
        case "compact":
            return trail_command("compact", folder / "a.trail", "--grace", "0s")
        case "merge":
            return trail_command(
                "merge", folder / "a.trail", folder / "b.trail", "-o", folder / "c.trail", "--force"
            )
        case _:
            return ingest(folder / "c.trail", 100)


def hold(name: str, folder: Path, done: bool) -> None:
    """The old trails are whole, and the new one is there if the command said so; else the command may be repeated."""
    check(folder / "a.trail")
    assert times(folder / "a.trail") == OLD
    check(folder / "b.trail")
    if not done and name != "compact":
        shutil.rmtree(folder / "c.trail", ignore_errors=True)
    if not done:
        again = run(name, folder)
        assert again.returncode == 0, again.stderr
    if name == "compact":
        assert times(folder / "a.trail") == OLD
    else:
        check(folder / "c.trail")
        assert times(folder / "c.trail") == (OLD + NEW if name == "merge" else NEW)


@pytest.mark.parametrize("name", ["compact", "merge", "ingest"])
def test_a_trail_survives_a_fault_and_a_power_cut_at_each_call(
    storage: Storage, trails: Path, name: str
) -> None:
    """The old snapshot stays whole, and what a command said it did is there after a power cut."""
    kinds = ",".join(CHANGES)
    tried = 0

    def anew() -> Path:
        storage.ask("clear")
        folder = storage.path / "x"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(trails, folder)
        storage.ask("sync")
        storage.ask("clear")
        return folder

    def try_one(fault: str | None, seed: int | None) -> None:
        nonlocal tried
        folder = anew()
        if fault:
            storage.ask(f"fail {fault}")
        ran = run(name, folder)
        where = f"{fault} {storage.ask('failed')} cut {seed}: {ran.returncode} {ran.stderr.decode()}"
        assert ran.returncode >= 0 and b"panicked" not in ran.stderr, where
        storage.ask("clear" if seed is None else f"cut {seed}")
        try:
            hold(name, folder, ran.returncode == 0)
        except Exception as error:
            raise AssertionError(where) from error
        tried += 1

    assert run(name, anew()).returncode == 0
    counts = storage.counts()
    for seed in (0, 1, 2):
        try_one(None, seed)
    for n in points(sum(counts[kind] for kind in CHANGES)):
        for error, how in [("EIO", "once"), ("ENOSPC", "on")]:
            try_one(f"{kinds} {n} {error} {how}", None)
        try_one(f"{kinds} {n} EIO dead", n)
        try_one(f"{kinds} {n} EIO dead", 0)
    for n in points(sum(counts[kind] for kind in READS)):
        try_one(f"{','.join(READS)} {n} EIO once", None)
    print(f"{name}: {dict(counts)}, {tried} runs")


def test_a_recording_ends_whole_or_says_so(storage: Storage, tmp_path: Path) -> None:
    """At each call: the program runs as it would, and status 0 means that all of it is in the trail. With 125 `trail
    check` adds what is missing, once the storage is well again; and with 1 the program was not run."""
    out, trail, calls = tmp_path / "out", storage.path / "r.trail", 3000
    program = ["dd", "if=/dev/zero", f"of={out}", "bs=64", f"count={calls}"]
    seen: Counter[int] = Counter()

    def try_one(fault: str | None) -> None:
        storage.ask("clear")
        shutil.rmtree(trail, ignore_errors=True)
        out.unlink(missing_ok=True)
        storage.ask("clear" if fault is None else f"fail {fault}")
        command = [NATIVE, "record", "-o", trail, "--", *program]
        ran = subprocess.run(command, capture_output=True, timeout=60)
        where = f"{fault} {storage.ask('failed')}: {ran.returncode} {ran.stderr.decode()}"
        seen[ran.returncode] += 1
        assert b"panicked" not in ran.stderr, where
        if ran.returncode == 1:
            assert not out.exists(), where
            return
        assert ran.returncode in (0, 125), where
        assert out.stat().st_size == 64 * calls, where
        # A recording that read less often than the first one leaves the fault for what is read here.
        storage.ask("clear")
        if ran.returncode == 125:
            check(trail)
        newest = max((trail / "snapshots").glob("*.json"), key=lambda path: int(path.stem))
        files = [
            str(trail / file["path"]) for file in json.loads(newest.read_text())["tables"]["file_op"]["files"]
        ]
        ask = "SELECT count(*) FROM read_parquet($files) WHERE call = 'write' AND length = 64"
        [[rows]] = duckdb.execute(ask, {"files": files}).fetchall()
        assert rows == calls, where

    try_one(None)
    counts = storage.counts()
    assert seen == {0: 1}
    for n in points(sum(counts[kind] for kind in CHANGES)):
        for how in ("EIO once", "EIO on", "ENOSPC on"):
            try_one(f"{','.join(CHANGES)} {n} {how}")
    for n in points(sum(counts[kind] for kind in READS)):
        try_one(f"{','.join(READS)} {n} EIO once")
    print(f"record: {dict(counts)}, {dict(seen)} runs by status")
    storage.ask("clear")


class Rounds:
    """A collector on the storage, and a sender that sends what was refused again, as an agent does."""

    def __init__(self, folder: Path) -> None:
        self.collector = Collector(folder)
        self.collector.said = folder.parent.with_name("collect.err")
        self.collector.start()
        self.sent = self.taken = 0

    def send(self) -> None:
        """One more message, unless one still has to be taken."""
        sender = Sender(self.collector, "here")
        sender.number = self.taken
        self.sent = self.taken + 1
        with contextlib.suppress(pa.ArrowException):
            sender.samples(self.sent, ["load"], 1.0)
            self.taken = self.sent

    def seal(self) -> bool:
        """Whether all that was taken is in the trail."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.collector.ask("/seal?all=true", b"")
            return True
        return False

    def run(self) -> None:
        for _ in range(3):
            self.send()
            self.send()
            self.seal()

    def end(self) -> None:
        """Killed, as by a power cut."""
        if self.collector.process is not None:
            self.collector.end(signal.SIGKILL)


def test_what_the_collector_took_is_in_the_trail_once(storage: Storage) -> None:
    """After a fault and after a power cut at each call; it goes on by itself."""
    tried = 0

    def try_one(fault: str | None, seed: int | None) -> Counter[str]:
        nonlocal tried
        storage.ask("clear")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        storage.ask("sync")
        rounds = Rounds(folder)
        try:
            rounds.run()
            storage.ask("clear" if fault is None else f"fail {fault}")
            rounds.run()
            counts = storage.counts()
            where = f"{fault} {storage.ask('failed')} cut {seed}: "
            assert rounds.collector.process is not None and rounds.collector.process.poll() is None, where
            where += rounds.collector.said.read_text() if seed is None else ""
            if seed is None:
                storage.ask("clear")
            else:
                rounds.end()
                storage.ask(f"cut {seed}")
                folder.mkdir(exist_ok=True)
                rounds.collector.start()
            rounds.send()
            taken = rounds.taken
            assert taken == rounds.sent, where
            # A seal that was under way when the storage failed is tried again.
            until("it seals again", rounds.seal)
            assert times(folder / "x.trail") == list(range(1, taken + 1)), where
            check(folder / "x.trail")
        finally:
            gone(rounds.collector.process)
        tried += 1
        return counts

    folder = storage.path / "y"
    try_one(None, 0)
    try_one(None, 1)
    counts = try_one(None, None)
    for kinds in (CHANGES, READS):
        for n in points(sum(counts[kind] for kind in kinds)):
            try_one(f"{','.join(kinds)} {n} EIO once", None)
            try_one(f"{','.join(kinds)} {n} EIO once", 0)
    # the last ones: one makes the snapshot of the last seal durable, which is there to be seen before
    for n in range(counts["fsync"] - 5, counts["fsync"] + 1):
        try_one(f"fsync {n} EIO once", 0)
    for n in points(sum(counts[kind] for kind in CHANGES)):
        try_one(f"{','.join(CHANGES)} {n} ENOSPC on", None)
        try_one(f"{','.join(CHANGES)} {n} EIO dead", 0)
        try_one(f"{','.join(CHANGES)} {n} EIO dead", n)
    print(f"collector: {dict(counts)}, {tried} runs")
