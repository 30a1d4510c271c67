"""`iotrail whatif device`: answers that can be worked out by hand, and what it refuses."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iotrail import native
from tests.emudisk.conftest import device_file

from .. import command
from .conftest import UNBROKEN

MS = 1_000_000
START = 1_700_000_000_000_000_000


def trail_of(folder: Path, rows: list[dict[str, Any]], flushes: Sequence[tuple[float, float]] = ()) -> Path:
    """A trail of requests that the kernel saw of one disk. `ts` is in ms from the start, `dur` in ms.

    `flushes`: when calls of fdatasync began, and how long they took, in ms too.
    """
    full = [
        {
            "node": "n",
            "thread": 1,
            "crumb": 0,
            "kind": "kernel",
            "dev": "sda",
            "merged": 0,
            "length": 4096,
            "pos": 0,
            "flags": None,
            **row,
            "ts": START + int(row["ts"] * MS),
            "dur": None if row["dur"] is None else int(row["dur"] * MS),
        }
        for row in rows
    ]
    table = pa.Table.from_pylist(full)
    nullable = [
        name for name in ("dur", "flags", "pos", "length") if table.schema.field(name).type == pa.null()
    ]
    for name in nullable:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    calls = [
        {
            "node": "n",
            "thread": 1,
            "crumb": 0,
            "call": "fdatasync",
            "file": 1,
            "result": 0,
            "errno": 0,
            "calls": 1,
            "ts": START + int(ts * MS),
            "dur": int(dur * MS),
        }
        for ts, dur in flushes
    ]
    tables = {"disk_op": table} | ({"file_op": pa.Table.from_pylist(calls)} if calls else {})
    given = []
    for name, each in tables.items():
        given.append(f"{name}={folder / name}.arrow")
        with pa.ipc.new_stream(folder / f"{name}.arrow", each.schema) as writer:
            writer.write_table(each)
    trail = folder / "x.trail"
    subprocess.run([native.binary(), "ingest", "--force", "-o", trail, *given], check=True)
    return trail


def ask(trail: Path, *words: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs the verb."""
    done = command.run("whatif", "device", trail, *words, env=UNBROKEN)
    assert (done.returncode != 0) == fails, done.stderr
    return done


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A device of which each request takes a known time."""
    times = {"read": "10 ms", "write": "20 ms", "flush": "100 ms"}
    return device_file(tmp_path, "ten milliseconds", capacity="1 GB", rate="9000000000 GB/s", **times)


def test_a_program_that_waits_keeps_its_think_time(tmp_path: Path, device: Path) -> None:
    # 1 ms each, 4 ms apart: read, write, flush
    rows = [
        {"ts": 0, "dur": 1, "op": "read"},
        {"ts": 5, "dur": 1, "op": "write", "pos": 8192},
        {"ts": 10, "dur": 1, "op": "flush", "pos": None, "length": None},
    ]
    found = json.loads(ask(trail_of(tmp_path, rows), "--on", device, "--json").stdout)
    assert found["recorded"]["elapsed_ns"] == 11 * MS
    [simulated] = found["simulated"]
    waits, nobody = simulated["arrivals_after_completions"], simulated["arrivals_recorded"]
    # 10 + 4 + 20 + 4 + 100
    assert waits["elapsed_ns"] == 138 * MS
    # read to 10, write to 30, flush to 130
    assert nobody["elapsed_ns"] == 130 * MS
    assert {each["op"]: each["mean_ns"] for each in waits["times"]} == {
        "read": 10 * MS,
        "write": 20 * MS,
        "flush": 100 * MS,
    }
    assert {each["op"]: each["mean_ns"] for each in nobody["times"]} == {
        "read": 10 * MS,
        "write": 25 * MS,
        "flush": 120 * MS,
    }
    # idle while the program thinks
    assert waits["utilisation"] == pytest.approx(130 / 138)
    assert nobody["utilisation"] == 1
    assert found["recorded"]["utilisation"] is None
    assert waits["energy_j"] is None and found["left_out"] == 0


def test_flushes_that_writes_ask_for_are_made(tmp_path: Path, device: Path) -> None:
    # 8: a flush before; 4: durable when complete
    rows = [{"ts": 0, "dur": 1, "op": "write", "flags": 12}, {"ts": 2, "dur": 1, "op": "read", "flags": 0}]
    found = json.loads(ask(trail_of(tmp_path, rows), "--on", device, "--json").stdout)
    times = {each["op"]: each for each in found["simulated"][0]["arrivals_after_completions"]["times"]}
    assert times["write"]["mean_ns"] == (100 + 20 + 100) * MS
    assert found["simulated"][0]["arrivals_after_completions"]["elapsed_ns"] == (220 + 1 + 10) * MS


def test_requests_without_an_end_hold_up_nobody(tmp_path: Path, device: Path) -> None:
    rows = [{"ts": 0, "dur": None, "op": "read"}, {"ts": 50, "dur": 1, "op": "read"}]
    done = ask(trail_of(tmp_path, rows), "--on", device, "--json")
    found = json.loads(done.stdout)
    assert found["without_end"] == 1
    assert found["simulated"][0]["arrivals_after_completions"]["elapsed_ns"] == 60 * MS
    assert "1 requests never completed" in ask(tmp_path / "x.trail", "--on", device).stdout


def test_the_table_has_each_device(tmp_path: Path, device: Path) -> None:
    rows = [{"ts": at * 10, "dur": 1, "op": "read", "pos": at * 4096} for at in range(20)]
    shown = ask(trail_of(tmp_path, rows), "--on", device, "--on", "hdd-7200", "--on", "sata-ssd").stdout
    assert "20 requests of 1 device" in shown
    for name in ("recorded", "ten milliseconds", "Hitachi Deskstar", "SATA SSD"):
        assert name in shown
    assert " J" in shown


def test_offsets_beyond_the_device(tmp_path: Path, device: Path) -> None:
    trail = trail_of(tmp_path, [{"ts": 0, "dur": 1, "op": "read", "pos": 1 << 40}])
    done = ask(trail, "--on", device, fails=True)
    assert "expected requests below 1000000000 bytes, its capacity, found one at 1099511627776" in done.stderr
    assert "--fold wraps offsets" in done.stderr
    assert json.loads(ask(trail, "--on", device, "--fold", "--json").stdout)["requests"] == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"ts": 0, "dur": 1, "op": "read", "pos": None}], "no requests of disks with a known place"),
        (
            [{"ts": 0, "dur": 1, "op": "read"}, {"ts": 0, "dur": 1, "op": "read"}],
            "all 2 requests have the same time",
        ),
    ],
)
def test_trails_that_say_nothing(
    tmp_path: Path, device: Path, rows: list[dict[str, Any]], message: str
) -> None:
    assert message in ask(trail_of(tmp_path, rows), "--on", device, fails=True).stderr


@pytest.mark.parametrize("count", [1, 7])
def test_one_request_and_one_address(tmp_path: Path, device: Path, count: int) -> None:
    rows = [{"ts": 50 * at, "dur": 1, "op": "read", "pos": 8192} for at in range(count)]
    found = json.loads(ask(trail_of(tmp_path, rows), "--on", device, "--json").stdout)
    assert found["requests"] == count
    for kind in ("arrivals_recorded", "arrivals_after_completions"):
        assert found["simulated"][0][kind]["times"][0]["max_ns"] == 10 * MS


def test_a_trail_without_response_times(without_dur: Path, device: Path) -> None:
    found = json.loads(ask(without_dur, "--on", device, "--json").stdout)
    assert (found["recorded"]["elapsed_ns"], found["recorded"]["times"]) == (None, [])
    [simulated] = found["simulated"]
    # what waits for what isn't known; if nobody waits, one is served after the other from the first arrival on
    assert simulated["arrivals_after_completions"] is None
    assert simulated["arrivals_recorded"]["elapsed_ns"] == 30 * MS
    shown = ask(without_dur, "--on", device).stdout
    assert (
        "The record has no response times" in shown and "30.0 ms" in shown and "never completed" not in shown
    )


def test_a_trail_without_times(without_times: Path, device: Path) -> None:
    assert "the trace has no times" in ask(without_times, "--on", device, fails=True).stderr


def test_device_files_that_are_wrong(tmp_path: Path, device: Path) -> None:
    trail = trail_of(tmp_path, [{"ts": 0, "dur": 1, "op": "read"}])
    device.write_text(device.read_text().replace("value = 10, unit = 'ms', ", "value = 10, "))
    assert (
        "device.toml: fixed.read.unit: expected a unit, found nothing"
        in ask(trail, "--on", device, fails=True).stderr
    )
    assert "cannot read nowhere" in ask(trail, "--on", "nowhere", fails=True).stderr


def test_flushes_without_requests_are_said(tmp_path: Path, device: Path) -> None:
    """What a journal's thread queued isn't among a program's requests."""
    # two overlap, one is over half a flush, one before all
    rows: list[dict[str, Any]] = [
        {"ts": 0, "dur": 1, "op": "write"},
        {"ts": 11, "dur": 3, "op": "write"},
        {"ts": 12, "dur": 4, "op": "write"},
        {"ts": 25, "dur": 10, "op": "write"},
    ]
    trail = trail_of(tmp_path, rows, [(10, 10), (30, 10)])
    found = json.loads(ask(trail, "--on", device, "--json").stdout)
    assert (found["flushing_ns"], found["flushing_with_requests_ns"]) == (20 * MS, 10 * MS)
    assert "flush files took 20.0 ms" in (said := ask(trail, "--on", device).stdout) and "--system" in said
    covered = trail_of(tmp_path, rows, [(11, 5), (25, 12)])
    assert "--system" not in ask(covered, "--on", device).stdout
    none = json.loads(ask(trail_of(tmp_path, rows), "--on", device, "--json").stdout)
    assert none["flushing_ns"] == 0
