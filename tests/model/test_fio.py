"""`iotrail model export fio`: a job that fio takes, with the shares and rates of the model's requests."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from ..command import iotrail

MIB = 1 << 20


def fit(folder: Path, lines: list[str]) -> Path:
    """The model of a trace: time in µs, device, operation, offset and bytes a line."""
    trace = folder / "t.csv"
    trace.write_text("ts_us,device,op,offset,size\n" + "".join(f"{line}\n" for line in lines))
    iotrail("import", "csv", trace, "-o", folder / "t.trail")
    iotrail("model", "fit", folder / "t.trail", "-o", folder / "m.json", "--levels", "2")
    return folder / "m.json"


def mixed(flushes: bool) -> list[str]:
    """4,000 requests in 20 s: 3 of 4 are random reads in the first 16 MiB, of 4 and 16 KiB; writes of 8 KiB are sequential."""
    random, lines = Random(1), []
    for number in range(4000):
        at, log = number * 5000, 48 * MIB + number // 4 * 8192
        if number % 4:
            size = 4096 if number % 2 else 16384
            lines.append(f"{at},sda,R,{random.randrange(1024) * 16384},{size}")
        else:
            lines.append(f"{at},sda,W,{log},8192")
            lines += [f"{at + 1},sda,F,0,0"] * (flushes and number % 8 == 0)
    return lines


def options(job: Path) -> dict[str, str]:
    """What is set in a job of one device."""
    return dict(line.split("=", 1) for line in job.read_text().splitlines() if "=" in line and line[0] != ";")


def parse(job: Path, target: Path) -> None:
    """fio takes the job."""
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    words = ["fio", "--parse-only", str(job)]
    done = subprocess.run(
        words, capture_output=True, text=True, env=os.environ | {"TARGET": str(target)}, check=False
    )
    assert done.returncode == 0 and "dropped" not in done.stderr, done.stderr


def percents(split: str) -> dict[int, int]:
    return {int(size): int(percent) for size, percent in (each.split("/") for each in split.split(":"))}


def test_a_job_has_the_aggregates(tmp_path: Path) -> None:
    model, job = fit(tmp_path, mixed(False)), tmp_path / "job.fio"
    iotrail("model", "export", "fio", model, "-o", job)
    found = options(job)
    assert abs(int(found["rwmixread"]) - 75) <= 1
    reads, writes = (int(each) for each in found["rate_iops"].split(","))
    assert abs(reads - 150) <= 3 and abs(writes - 50) <= 3
    read_sizes, write_sizes = map(percents, found["bssplit"].split(","))
    assert read_sizes.keys() == {4096, 16384} and sum(read_sizes.values()) == 100
    assert write_sizes == {8192: 100}
    random_reads, random_writes = (int(each) for each in found["percentage_random"].split(","))
    assert random_reads > 90 and random_writes < 10
    assert int(found["size"]) == 48 * MIB + 1000 * 8192
    assert found["direct"] == "1" and found["rate_process"] == "poisson"
    text = job.read_text()
    assert all(f"; - {each}" in text for each in ("bursts", "reuse", "order"))
    parse(job, tmp_path / "disk")


def test_zones_hold_the_shares_of_states(tmp_path: Path) -> None:
    model, job = fit(tmp_path, mixed(False)), tmp_path / "job.fio"
    iotrail("model", "export", "fio", model, "-o", job, "--zoned")
    found = options(job)
    zones = re.fullmatch(r"zoned_abs:(.*)", found["random_distribution"])
    assert zones
    shares = [tuple(map(int, each.split("/"))) for each in zones[1].split(":")]
    assert sum(percent for percent, _ in shares) == 100
    assert sum(length for _, length in shares) == int(found["size"])
    # reads lie in the first 16 MiB: a range of a model may reach a little beyond
    at, inside = 0, 0
    for percent, length in shares:
        inside += percent if at < 18 * MIB else 0
        at += length
    assert abs(inside - 75) <= 2
    assert any(percent == 0 for percent, _ in shares)
    parse(job, tmp_path / "disk")


def test_flushes_keep_their_share_and_fio_runs_them(tmp_path: Path) -> None:
    model, job = fit(tmp_path, mixed(True)), tmp_path / "job.fio"
    iotrail("model", "export", "fio", model, "-o", job)
    found = options(job)
    assert found["fdatasync"] == "2"
    assert "rate_process" not in found and "rate_iops" not in found
    reads, writes = (int(each) for each in found["rate"].split(","))
    assert abs(reads / (150 * (4096 * 2 / 3 + 16384 / 3)) - 1) < 0.03
    assert abs(writes / (50 * 8192) - 1) < 0.03
    parse(job, tmp_path / "disk")
    # for a second, on a file: the crash of fio that is avoided comes at once
    job.write_text(re.sub("runtime=.*", "runtime=1", job.read_text()).replace("direct=1", "direct=0"))
    target = tmp_path / "disk"
    with target.open("wb") as file:
        file.truncate(64 * MIB)
    words = ["fio", "--output=/dev/null", str(job)]
    subprocess.run(words, check=True, env=os.environ | {"TARGET": str(target)}, cwd=tmp_path)


def test_each_device_has_a_job(tmp_path: Path) -> None:
    lines = [f"{n * 1000},{'ab'[n % 2]},R,{n * 8192},4096" for n in range(2000)]
    job = tmp_path / "job.fio"
    iotrail("model", "export", "fio", fit(tmp_path, lines), "-o", job)
    text = job.read_text()
    assert "filename=${TARGET0}" in text and "filename=${TARGET1}" in text
    assert "TARGET0=PATH TARGET1=PATH fio" in text


def test_what_is_no_job_is_refused(tmp_path: Path) -> None:
    model, job = fit(tmp_path, mixed(False)), tmp_path / "job.fio"
    job.write_text("mine")
    assert "exists already" in iotrail("model", "export", "fio", model, "-o", job, fails=True)
    assert job.read_text() == "mine"
    nowhere = tmp_path / "none" / "job.fio"
    assert "there is no folder" in iotrail("model", "export", "fio", model, "-o", nowhere, fails=True)
    assert "no format 'csv'" in iotrail("model", "export", "csv", model, "-o", nowhere, fails=True)
    broken = tmp_path / "b.json"
    broken.write_text("{}")
    assert "not a model" in iotrail("model", "export", "fio", broken, "-o", tmp_path / "x", fails=True)
