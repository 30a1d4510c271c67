"""`iotrail whatif defrag --fiemap`: files that a file system itself scattered, recorded and mapped."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrail.whatif.fiemap import extents

from .recording import IOTRAIL, needs_root

MIB = 1 << 20
HOLES = 40


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system on a loop device that takes direct I/O."""
    image, at = tmp_path / "image", tmp_path / "mounted"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0", image], check=True)
    made = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
    device = made.stdout.strip()
    at.mkdir()
    try:
        subprocess.run(["mount", device, at], check=True)
        yield at
        subprocess.run(["umount", at], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def scatter(folder: Path) -> Path:
    """A file in the holes that others left: the file system is filled, and every other file removed."""
    small = []
    try:
        while True:
            small.append(folder / f"{len(small)}")
            small[-1].write_bytes(b"x" * 65536)
    except OSError:
        small[-1].unlink()
    for each in small[0 : 2 * HOLES : 2]:
        each.unlink()
    subprocess.run(["sync", "-f", folder], check=True)
    file = folder / "scattered"
    file.write_bytes(b"y" * 65536 * HOLES)
    subprocess.run(["sync", "-f", folder], check=True)
    return file


@needs_root
def test_a_file_that_the_kernel_maps_is_put_together(mounted: Path, tmp_path: Path) -> None:
    file = scatter(mounted)
    known = list(extents(file))
    assert sum(each.length for each in known) == 65536 * HOLES
    said = subprocess.run(["filefrag", file], check=True, capture_output=True, text=True).stdout
    fragments = int(said.rsplit(": ", 1)[1].split()[0])
    assert fragments > HOLES / 4
    trail = tmp_path / "x.trail"
    read = ["dd", f"if={file}", "of=/dev/null", "bs=65536", "iflag=direct"]
    # What the program itself needs is in memory then: the recording has the reads of the file.
    subprocess.run(read, check=True, capture_output=True)
    subprocess.run(
        [*IOTRAIL, "record", "--kernel=disk", "-o", trail, "--", *read], check=True, capture_output=True
    )

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*IOTRAIL, "whatif", "defrag", trail, "--on", "hdd-7200", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = ask("--fiemap", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(each["path"], each["fragments"]) for each in found["files"] if each["path"] == str(file)] == [
        (str(file), fragments)
    ]
    assert found["in_files"] >= HOLES
    assert found["after"]["sequential"] >= HOLES - 1 > found["before"]["sequential"]
    # The time that all takes: response times are means with what else the disks did meanwhile, which is chance.
    before, after = (found[each]["arrivals_after_completions"]["elapsed_ns"] for each in ("before", "after"))
    assert before > 1.25 * after
    assert "--fiemap" in ask().stderr
    file.unlink()
    assert "no recorded file can be found on a recorded disk" in ask("--fiemap").stderr
