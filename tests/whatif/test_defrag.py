"""`iotrail whatif defrag`: fragmentation planted with a known answer, trails without any, and what it refuses."""

import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iotrail.importers.base import RELATIVE_START
from iotrail.trail import Trail
from iotrail.whatif import defrag
from iotrail.whatif.simulator import simulate

from .. import command
from .conftest import UNBROKEN

KIB = 1 << 10
MIB = 1 << 20
MS = 1_000_000
BLOCK = 64 * KIB
FILES, BLOCKS = 12, 20
# time in µs, device, r or w, byte, bytes, response time in µs, inode, offset in the file
MAP = "ts=1,unit=us,dev=2,op=3,pos=4,length=5,dur=6,dur_unit=us,inode=7,file_pos=8,header=no,sep=comma"


@dataclass(frozen=True)
class Part:
    """A block of a file on the device."""

    file: int
    number: int
    pos: int


def line(
    at: int, op: str, pos: int, inode: int | str = "", file_pos: int | str = "", length: int = BLOCK
) -> str:
    """A request as MAP has it, of 200 µs."""
    return f"{at},sda,{op},{pos},{length},200,{inode},{file_pos}\n"


@pytest.fixture
def make(tmp_path: Path, bring: Callable[..., Path]) -> Callable[..., Path]:
    """`make(name, lines)` imports requests; the trail."""

    def make(name: str, lines: list[str]) -> Path:
        path = tmp_path / f"{name}.csv"
        path.write_text("".join(lines))
        return bring(path, "csv", map=MAP)

    return make


def run(*words: object, verb: str = "defrag", fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs the verb."""
    done = command.run("whatif", verb, *words, env=UNBROKEN)
    assert (done.returncode != 0) == fails, done.stderr
    return done


def ask(*words: object, verb: str = "defrag") -> dict[str, Any]:
    """What the verb answers as JSON."""
    found: dict[str, Any] = json.loads(run(*words, "--json", verb=verb).stdout)
    return found


def scattered(seed: int) -> tuple[list[Part], list[Part]]:
    """Blocks of files at random places, none behind another, and the order in which they are read: file by file."""
    chance = random.Random(seed)
    slots = chance.sample(range(0, 4000, 2), FILES * BLOCKS)
    parts = [Part(number // BLOCKS, number % BLOCKS, slot * MIB) for number, slot in enumerate(slots)]
    order = list(range(FILES))
    chance.shuffle(order)
    return parts, [part for file in order for part in parts if part.file == file]


def together(parts: list[Part]) -> dict[Part, int]:
    """New places, worked out file by file: each at its first place, or behind the file before."""
    first = {file: min(part.pos for part in parts if part.file == file) for file in range(FILES)}
    end, places = 0, {}
    for file in sorted(first, key=lambda file: first[file]):
        start = max(end, first[file])
        for part in parts:
            if part.file == file:
                places[part] = start + part.number * BLOCK
        end = start + BLOCKS * BLOCK
    return places


@pytest.mark.parametrize("seed", range(3))
def test_scattered_blocks_are_put_together(make: Callable[..., Path], seed: int) -> None:
    parts, reads = scattered(seed)
    places = together(parts)
    gap = 30_000  # µs: a disk is done before the next comes
    fragmented = make(
        "fragmented",
        [line(at * gap, "r", part.pos, part.file, part.number * BLOCK) for at, part in enumerate(reads)],
    )
    by_hand = make("by_hand", [line(at * gap, "r", places[part]) for at, part in enumerate(reads)])
    found = ask(fragmented, "--on", "hdd-7200")
    assert {(each["fragments"], each["bytes"]) for each in found["files"]} == {(BLOCKS, BLOCKS * BLOCK)}
    assert {each["path"] for each in found["files"]} == {f"[/dev/sda inode {file}]" for file in range(FILES)}
    assert found["in_files"] == found["reads_and_writes"] == FILES * BLOCKS
    assert (found["before"]["sequential"], found["before"]["requests"]) == (0, FILES * BLOCKS)
    assert (found["after"]["sequential"], found["after"]["requests"]) == (
        FILES * (BLOCKS - 1),
        FILES * BLOCKS,
    )
    moved = [part for part in parts if places[part] != part.pos]
    assert found["rearranging"]["bytes"] == len(moved) * BLOCK
    # the same requests, placed by hand, on the same device
    for side, trail in (("before", fragmented), ("after", by_hand)):
        [simulated] = ask(trail, "--on", "hdd-7200", verb="device")["simulated"]
        for kind in ("arrivals_recorded", "arrivals_after_completions"):
            assert found[side][kind] == simulated[kind]
    before, after = (
        next(each["mean_ns"] for each in found[side]["arrivals_recorded"]["times"])
        for side in ("before", "after")
    )
    # a seek of 0.4 % of the disk or less and half a revolution, against what read-ahead has
    assert 5 * MS < before < 8 * MS and after < before / 2
    assert found["speed_up"]["arrivals_recorded"] == pytest.approx(before / after)
    saved = (before - after) * FILES * BLOCKS / found["span_ns"]
    assert found["pays_after_ns"]["arrivals_recorded"] == pytest.approx(
        found["rearranging"]["elapsed_ns"] / saved
    )
    # the disk is no faster than a seek for each block that lies scattered, and no slower than one and a revolution each
    assert len(moved) * 2 * MS < found["rearranging"]["elapsed_ns"] < 2 * len(moved) * 11 * MS
    said = run(fragmented, "--on", "hdd-7200").stdout
    assert f"{FILES} of them fragmented; 20.0 fragments a file, at most 20" in said
    assert "It has paid after" in said


def test_nothing_is_gained_where_nothing_is_fragmented(make: Callable[..., Path]) -> None:
    chance = random.Random(5)
    lines = []
    for at in range(300):
        file, block = chance.randrange(10), chance.randrange(BLOCKS)
        lines.append(
            line(at * 9000, chance.choice("rw"), file * 50 * MIB + block * BLOCK, file, block * BLOCK)
        )
    # what belongs to no file, between the files
    lines.append(line(301 * 9000, "w", 40 * MIB))
    trail = make("whole", lines)
    found = ask(trail, "--on", "hdd-7200")
    assert found["before"] == found["after"]
    assert found["rearranging"] == {"bytes": 0, "reads": 0, "writes": 0, "elapsed_ns": 0}
    assert {each["fragments"] for each in found["files"]} == {1}
    assert (found["in_files"], found["reads_and_writes"]) == (300, 301)
    assert set(found["speed_up"].values()) == {1.0}
    assert set(found["pays_after_ns"].values()) == {None}
    said = run(trail, "--on", "hdd-7200").stdout
    assert "none of them is fragmented" in said
    assert "There is nothing to rearrange, and nothing to gain." in said


def test_nobody_knows_who_waits_without_response_times(make: Callable[..., Path]) -> None:
    _, reads = scattered(3)
    lines = [line(at * 9000, "r", part.pos, part.file, part.number * BLOCK) for at, part in enumerate(reads)]
    trail = make("x", [text.replace(",200,", ",,") for text in lines])
    found = ask(trail, "--on", "hdd-7200")
    assert found["without_end"] == FILES * BLOCKS
    assert found["speed_up"]["arrivals_recorded"] > 2
    assert found["speed_up"]["arrivals_after_completions"] is None
    assert found["pays_after_ns"]["arrivals_after_completions"] is None
    said = run(trail, "--on", "hdd-7200").stdout
    assert "if each waits  " not in said and "240 requests have no known response time" in said


@pytest.fixture
def simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same question to the simulator the second answer is the first: a drive of flash takes it seconds."""
    known: dict[tuple[object, ...], str] = {}

    def ask_once(trail: Trail, query: str, arguments: list[str]) -> dict[str, Any]:
        extents = Path(arguments[arguments.index("--extents") + 1])
        words = [word for word in arguments if word != str(extents)]
        question = (trail.path, query, extents.read_bytes(), *words)
        if question not in known:
            known[question] = json.dumps(simulate(trail, query, arguments))
        found: dict[str, Any] = json.loads(known[question])
        return found

    monkeypatch.setattr(defrag, "simulate", ask_once)


@pytest.mark.usefixtures("simulated_once")
@pytest.mark.parametrize("device", ["sata-ssd", "nvme-ssd"])
def test_it_brings_nothing_on_flash(make: Callable[..., Path], device: str) -> None:
    _, reads = scattered(1)
    trail = make(
        "flash",
        [line(at * 1000, "r", part.pos, part.file, part.number * BLOCK) for at, part in enumerate(reads)],
    )
    found = ask(trail, "--on", device)
    assert found["after"]["sequential"] == FILES * (BLOCKS - 1)
    assert found["speed_up"]["arrivals_recorded"] == pytest.approx(1, abs=0.02)
    assert set(found["pays_after_ns"].values()) == {None}
    assert "It brings nothing on this device" in run(trail, "--on", device).stdout


def test_the_rearranged_trail_is_what_was_simulated(make: Callable[..., Path], tmp_path: Path) -> None:
    parts, reads = scattered(7)
    places = together(parts)
    lines = [line(at * 9000, "r", part.pos, part.file, part.number * BLOCK) for at, part in enumerate(reads)]
    lines.append("99000000,sda,flush,0,0,200,,\n")
    trail, written = make("x", lines), tmp_path / "y.trail"
    found = ask(trail, "--on", "hdd-7200", "-o", written)
    rows = Trail(written).rows_of("SELECT ts, call, pos, length FROM file_op ORDER BY trace_row")
    start = RELATIVE_START
    assert [(row["ts"] - start, row["pos"], row["length"]) for row in rows[:-1]] == [
        (at * 9 * MS, places[part], BLOCK) for at, part in enumerate(reads)
    ]
    assert (rows[-1]["call"], rows[-1]["pos"]) == ("fdatasync", None)
    # sequential as the modules have it
    for side, path in (("before", trail), ("after", written)):
        [[n, sequential]] = (
            Trail(path).query("SELECT SUM(n), SUM(sequential) FROM block_sequential").fetchall()
        )
        assert (found[side]["requests"], found[side]["sequential"]) == (n, sequential)
    assert f"{written}: exists" in run(trail, "--on", "hdd-7200", "-o", written, fails=True).stderr
    run(trail, "--on", "hdd-7200", "-o", written, "--force")


def test_requests_over_files_are_cut_and_joined(make: Callable[..., Path], tmp_path: Path) -> None:
    # blocks of 1 and 2 alternate, then nobody's; both files are read twice without a word of which
    lines = [line(at * 9000, "w", at * BLOCK, at % 2 + 1, at // 2 * BLOCK) for at in range(4)]
    lines += [line(90_000, "r", 0, length=4 * BLOCK), line(99_000, "r", 4 * BLOCK)]
    written = tmp_path / "y.trail"
    found = ask(make("x", lines), "--on", "hdd-7200", "-o", written)
    rows = (
        Trail(written)
        .query("SELECT pos, length FROM file_op WHERE call = 'pread' ORDER BY trace_row")
        .fetchall()
    )
    # 1 at 0 and 2 behind it: first, third, second, fourth block
    assert rows == [(at * BLOCK, BLOCK) for at in (0, 2, 1, 3)] + [(4 * BLOCK, BLOCK)]
    assert (found["before"]["requests"], found["after"]["requests"]) == (6, 9)
    reads = next(each for each in found["after"]["arrivals_recorded"]["times"] if each["op"] == "read")
    assert reads["count"] == 2


def test_order_of_first_use_is_taken_on_request(make: Callable[..., Path]) -> None:
    # written from front to end, in two places by turns, then read again in reverse
    places = [0, 500 * MIB, BLOCK, 700 * MIB]
    lines = [line(at * 9000, "w", pos, 8) for at, pos in enumerate(places)]
    lines += [line((at + 9) * 9000, "r", pos, 8) for at, pos in enumerate(reversed(places))]
    trail = make("x", lines)
    error = run(trail, "--on", "hdd-7200", fails=True).stderr
    assert "8 of 8 requests of known files don't say at which offset" in error and "--by-first-use" in error
    found = ask(trail, "--on", "hdd-7200", "--by-first-use")
    assert [(each["fragments"], each["bytes"]) for each in found["files"]] == [(4, 4 * BLOCK)]
    assert (found["before"]["sequential"], found["after"]["sequential"]) == (1, 3)
    assert "first use" in found["basis"]


def test_what_cannot_be_known_is_refused(make: Callable[..., Path], tmp_path: Path) -> None:
    nobody = make("nobody", [line(at * 9000, "r", at * BLOCK) for at in range(5)])
    error = run(nobody, "--on", "hdd-7200", fails=True).stderr
    assert "don't say which files they are for" in error
    assert "inode=COLUMN,file_pos=COLUMN" in error and "--fiemap" in error
    error = run(nobody, "--on", "hdd-7200", "--fiemap", fails=True).stderr
    assert "needs requests that the kernel of this machine" in error and "found none" in error
    known = make("known", [line(at * 9000, "r", at * BLOCK, 1, at * BLOCK) for at in range(5)])
    error = run(known, "--on", "hdd-7200", "--fiemap", "--by-first-use", fails=True).stderr
    assert "--fiemap can't be combined with --by-first-use" in error
    assert "cannot read none" in run(known, "--on", "none", fails=True).stderr
    far = make("far", [line(at * 9000, "r", at << 41, 1, at * BLOCK) for at in range(2)])
    assert "its capacity" in run(far, "--on", "hdd-7200", fails=True).stderr
    sparse = make("sparse", [line(at * 9000, "r", at * MIB, 1, at << 41) for at in range(2)])
    error = run(sparse, "--on", "hdd-7200", fails=True).stderr
    assert "reach over 2199023321088 bytes, of 1000204886016" in error and "--fiemap" in error


def test_a_real_trace_without_offsets(bring: Callable[..., Path], shared: Callable[[str], Path]) -> None:
    # RocksDB writes its files from front to end
    trail = bring(shared("block/ycsb-a-rocksdb-xfs-optane.csv.gz"))
    assert "don't say at which offset" in run(trail, "--on", "nvme-ssd", fails=True).stderr
    found = ask(trail, "--on", "nvme-ssd", "--by-first-use")
    # 64,020 requests carry an inode; some of those are no reads and writes of disks' data
    assert found["reads_and_writes"] == 64_189
    assert 64_000 <= found["in_files"] <= 64_189
    assert len(found["files"]) == 27
