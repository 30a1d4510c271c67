"""`iotrail model fit --files`: requests of programs to files, each as a device, with what the programs took besides."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..command import iotrail

# Reads of 8 KiB at random, each followed by a write of 512 bytes to a log, which is flushed now and then; some bytes through a
# socket, and computing.
PROGRAM = """
import os, random, socket
draw = random.Random(5)
data, log = os.open("data", os.O_RDONLY), os.open("log", os.O_WRONLY | os.O_CREAT)
here, there = socket.socketpair()
for number in range(3000):
    os.pread(data, 8192, int(draw.random() ** 3 * 1000) * 8192)
    os.write(log, bytes(512))
    if number % 100 == 99:
        os.fsync(log)
        here.send(bytes(4000))
        there.recv(8192)
        sum(range(100_000))
"""


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "data").write_bytes(bytes(1000 * 8192))
    (folder / "p.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "iotrail", "record", "-o", "t.trail", "--", sys.executable, "p.py"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "t.trail"


@pytest.fixture(scope="module")
def model(trail: Path) -> Path:
    """Of its two most used files."""
    made = trail.with_name("m.json")
    iotrail("model", "fit", trail, "-o", made, "--files", "2", "--levels", "2")
    return made


def test_files_are_devices_and_stay_coupled(trail: Path, model: Path, tmp_path: Path) -> None:
    found = json.loads(model.read_text())
    assert found["of"] == "files"
    assert [device["reach_bytes"] for device in found["devices"]] == [1000 * 8192, 3000 * 512]
    # a read, a write, a read …
    assert [row[:3] for row in found["next_device"]["transitions"]] == [[0, 1, 3000], [1, 0, 2999]]
    iotrail("generate", model, "-o", tmp_path / "y.trail")
    counted = iotrail(
        "sql",
        tmp_path / "y.trail",
        "SELECT device, op, COUNT(*) AS n, SUM(length) AS bytes FROM device_request GROUP BY ALL ORDER BY ALL",
        "--format",
        "csv",
    )
    rows = [[int(each) for each in line.split(",")] for line in counted.splitlines()[1:]]
    assert sorted((op, n, size) for _, op, n, size in rows) == [
        (0, 3000, 3000 * 8192),
        (1, 3000, 3000 * 512),
        (2, 30, 0),
    ]
    # mostly a write comes after a read, which in random order half of them do
    [row] = json.loads(
        iotrail(
            "sql",
            tmp_path / "y.trail",
            "SELECT COUNT(*) FILTER (WHERE op = before) AS n FROM "
            "(SELECT op, LAG(op) OVER (ORDER BY ts, trace_row) AS before FROM device_request WHERE op < 2)",
            "--format",
            "json",
        )
    )
    assert row["n"] < 1500


def test_check_takes_the_same_files(trail: Path, model: Path) -> None:
    said = json.loads(iotrail("model", "check", model, "--against", trail, "--json"))
    figures = {each["key"]: each for each in said["figures"]}
    assert figures["requests"]["original"] == figures["requests"]["synthetic"] == 6030
    assert abs(figures["read_share"]["deviation"]) < 0.001
    assert figures["lru"]["deviation"] < 0.05
    assert abs(figures["footprint_bytes"]["deviation"]) < 0.1


def test_what_programs_took_is_kept(trail: Path, model: Path) -> None:
    found = json.loads(model.read_text())
    load = found["load"]
    # the last of them after the last request
    assert load["sent_bytes"] == load["received_bytes"] == 29 * 4000
    # one thread, from the first request to the last, with its sums
    assert 29 * 500_000 < load["cpu_ns"] <= found["rate"]["length_ns"] * 1.02 + 1_000_000
    assert "of CPU time" in iotrail("model", "show", model)
    assert "116,000" in iotrail("model", "show", model, "--reveals")


def test_merged_models_took_what_both_did(model: Path, tmp_path: Path) -> None:
    iotrail("model", "merge", model, model, "-o", tmp_path / "two.json")
    merged, load = (json.loads(path.read_text()) for path in (tmp_path / "two.json", model))
    assert merged["of"] == "files"
    assert merged["load"] == {name: 2 * amount for name, amount in load["load"].items()}


def test_a_run_says_what_it_left_out(model: Path, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / str(number)).write_bytes(bytes(10 << 20))
    targets = [word for number in range(2) for word in ("--target", f"{number}={tmp_path / str(number)}")]
    command = [sys.executable, "-m", "iotrail", "generate", str(model), *targets, "--overwrite"]
    said = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    outcome, load = json.loads(said), json.loads(model.read_text())["load"]
    for name, amount in {
        "cpus": load["cpu_ns"] / 1e9,
        "sent_bytes_per_s": load["sent_bytes"],
        "received_bytes_per_s": load["received_bytes"],
    }.items():
        assert outcome["load"][name] == pytest.approx(amount / 6030 * outcome["iops"])
    ran = tmp_path / "ran.trail"
    shown = subprocess.run([*command, "-o", str(ran)], check=True, capture_output=True, text=True).stdout
    assert "MB/s sent" in shown
    # what ran is fitted as what a program does
    iotrail("model", "fit", ran, "-o", tmp_path / "again.json", "--files", "2", "--levels", "2")
    again = json.loads((tmp_path / "again.json").read_text())
    # which file is the first of the run depends on its threads: the flushed one is the shorter
    [[log, flushes]] = again["flushes"]
    reaches = [device["reach_bytes"] for device in again["devices"]]
    assert (reaches[log], flushes) == (3000 * 512, 30)
    # 3,000 of 1,000 blocks at random: one in twenty draws is without the last, none without the last 20
    assert 980 * 8192 < reaches[1 - log] <= 1000 * 8192
    assert sum(again["rate"]["counts"]) == 6030


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("model", "check", "{model}", "--against", "{trail}", "--on", "hdd-7200"),
            "expected a model of requests to disks",
        ),
        (("whatif", "device", "{model}", "--on", "hdd-7200"), "expected a model of requests to disks"),
        (("model", "merge", "{model}", "{disks}", "-o", "{new}"), "found both: files, disks"),
        (("model", "diff", "{disks}", "{model}"), "found both: disks, files"),
        (
            ("model", "fit", "{empty}", "-o", "{new}", "--files", "3"),
            "no reads or writes of files at a known offset",
        ),
        (("model", "fit", "{trail}", "-o", "{new}"), "no requests of disks"),
        (("model", "fit", "{trail}", "-o", "{new}", "--files", "65"), "--files"),
    ],
)
def test_what_is_no_request_of_a_disk_or_file_is_refused(
    trail: Path, model: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    disks = tmp_path / "disks.json"
    disks.write_text(model.read_text().replace('"of":"files"', '"of":"disks"'))
    (tmp_path / "empty.csv").write_text("ts_us,op,offset,size\n1,D,0,512\n2,D,512,512\n")
    iotrail("import", "csv", tmp_path / "empty.csv", "-o", tmp_path / "empty.trail")
    places = {
        "model": model,
        "trail": trail,
        "disks": disks,
        "new": tmp_path / "new.json",
        "empty": tmp_path / "empty.trail",
    }
    assert said in iotrail(*(word.format(**places) for word in words), fails=True)
