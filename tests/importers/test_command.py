"""The command: formats guessed, bad input, nothing left behind, ids equal to a recorder's."""

import subprocess
import threading
import time
from pathlib import Path

import pytest

from iotrail.errors import IotrailError, TraceError
from iotrail.importers import command
from iotrail.importers.base import Options
from iotrail.importers.ids import file_id
from iotrail.trail import Trail
from tests.command import run

CSV = "t_s,offset,size,op\n1,0,512,r\n2,512,512,w\n"


def iotrail(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return run(*words, cwd=cwd)


def test_an_import_ends_with_what_comes_next(tmp_path):
    (tmp_path / "disk.csv").write_text(CSV)
    done = iotrail("import", "disk.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "disk.csv: looks like csv" in done.stderr
    assert "2 lines of csv read" in done.stderr
    assert "next: iotrail report disk.trail" in done.stderr
    assert Trail(tmp_path / "disk.trail").rows_of(
        "SELECT reads, writes, threads, unfinished FROM overview"
    ) == [{"reads": 1, "writes": 1, "threads": 1, "unfinished": 0}]
    report = iotrail("report", "disk.trail", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    checked = iotrail("trail", "check", "disk.trail", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr


def test_list_names_each_format(tmp_path):
    done = iotrail("import", "--list", cwd=tmp_path)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == list(command.FORMATS)
    assert {
        "strace",
        "blkparse",
        "blktrace",
        "fio",
        "srt",
        "vscsi",
        "msr",
        "spc",
        "disksim",
        "disksim-validate",
        "mqsim",
        "opencas",
        "csv",
    } <= set(names)


BAD = {
    "no file": (["nowhere.csv"], 1, "nowhere.csv: no such file"),
    "empty": (["empty"], 1, "empty: is empty"),
    "unknown": (["noise"], 1, "noise: its format isn't known"),
    "folder": (["folder"], 1, "folder: is a folder"),
    "no words": ([], 2, "which trace?"),
    "no file after the format": (["strace"], 2, "which file?"),
    "no such format": (["stracee", "noise"], 2, "there is no format 'stracee'"),
    "wrong format": (["strace", "disk.csv"], 1, "none of its 3 lines is an operation of format strace"),
    "wrong format, binary": (["blktrace", "disk.csv"], 1, "no blktrace binary: expected magic"),
    "wrong preset": (["msr", "disk.csv"], 1, "lines have 4 columns, but dur would be column 7"),
    "no folder for the trail": (["disk.csv", "-o", "no/where.trail"], 1, "there is no folder no"),
    "the trail is a file": (["disk.csv", "-o", "noise"], 1, "noise: exists and is no trail"),
    "header only": (["header.csv"], 1, "none of its"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_message_and_leaves_nothing(tmp_path, case):
    words, status, says = BAD[case]
    (tmp_path / "disk.csv").write_text(CSV)
    (tmp_path / "header.csv").write_text(CSV.splitlines()[0] + "\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = iotrail("import", *words, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "iotrail: error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_the_wrong_format_is_told_which_it_looks_like(tmp_path):
    (tmp_path / "disk.csv").write_text(CSV)
    done = iotrail("import", "strace", "disk.csv", cwd=tmp_path)
    assert "it looks like csv: iotrail import csv disk.csv" in done.stderr


def test_no_permission_is_said(bring, tmp_path, monkeypatch):
    """As root sees everything, the system's refusal is played."""
    path = tmp_path / "locked"
    path.write_text(CSV)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceError, match="locked: can't be read: Permission denied"):
        bring(path)


def test_an_existing_trail_is_replaced_by_force_only_and_kept_if_the_import_fails(tmp_path):
    source, trail = tmp_path / "disk.csv", tmp_path / "disk.trail"
    source.write_text(CSV)
    command.run([source], trail, force=False, options=Options())
    with pytest.raises(TraceError, match=r"disk.trail: exists"):
        command.run([source], trail, force=False, options=Options())
    bad = tmp_path / "bad.csv"
    bad.write_text(CSV + "x\n")
    with pytest.raises(TraceError):
        command.run([bad], trail, force=True, options=Options(strict=True))
    assert Trail(trail).query("SELECT count(*) FROM file_op").fetchall() == [(2,)]
    bad.write_text(CSV + "3,0,512,r\n")
    command.run([bad], trail, force=True, options=Options())
    assert Trail(trail).query("SELECT count(*) FROM file_op").fetchall() == [(3,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "disk.csv", "disk.trail"]


def test_the_writers_error_is_ours(tmp_path, monkeypatch):
    """The binary dies: its message, no trail, no wait without end."""
    fake = tmp_path / "fake"
    fake.write_text(
        "#!/bin/sh\necho 'iotrail: error: no space left on the moon' >&2\necho '  hint: fly lower' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("IOTRAIL_NATIVE", str(fake))
    source = tmp_path / "disk.csv"
    source.write_text("t_s,offset,size,op\n" + "1,0,512,r\n" * 300_000)
    with pytest.raises(IotrailError, match="can't be written: no space left on the moon") as error:
        command.run([source], tmp_path / "x.trail", force=False, options=Options())
    assert error.value.hint == "fly lower"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk.csv", "fake"]


def test_several_files_are_one_trail(bring, tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text(CSV)
    got = bring("csv", tmp_path / "a.csv", tmp_path / "b.csv")
    assert got.one("SELECT count(*) FROM file_op") == 4
    assert got.one("SELECT count(*) FROM recording WHERE name LIKE 'source:%'") == 2


def test_lives_cover_calls_and_the_clock_the_trail(bring):
    got = bring(CSV)
    assert got.one(
        """SELECT bool_and(t.start_ts <= o.ts AND o.ts + COALESCE(o.dur, 0) <= t.end_ts AND p.start_ts <= t.start_ts AND t.end_ts <= p.end_ts)
        FROM file_op o JOIN thread t USING (node, thread) JOIN process p USING (node, process)"""
    )
    assert got.rows("SELECT event, ts FROM clock ORDER BY ts") == [
        ("start", got.one("SELECT min(ts) FROM file_op")), ("end", got.one("SELECT max(ts + COALESCE(dur, 0)) FROM file_op")),
    ]  # fmt: skip


def test_ids_of_files_are_the_recorders(tmp_path, native):
    # the constant that crates/format/src/ids.rs holds too
    assert file_id("/etc/passwd") == 2_317_399_646_986_329_491
    data = tmp_path / "dätä"
    data.write_text("x")
    trail = tmp_path / "recorded.trail"
    subprocess.run([native, "record", "-o", trail, "--", "cat", data], check=True, capture_output=True)
    assert Trail(trail).query(f"SELECT file FROM file WHERE path = '{data}'").fetchall() == [
        (file_id(str(data)),)
    ]


def test_times_of_clocks_apart_are_said(bring, native, tmp_path):
    """Within an import and where trails are merged; not within a trace of one clock."""
    early, late = (
        "t_s,offset,size,op\n" + "".join(f"{base + i},0,512,r\n" for i in range(9))
        for base in (15 * 10**8, 17 * 10**8)
    )
    one, other = bring(early, name="early.csv"), bring(late, name="late.csv")
    assert "hold no operation" not in one.said + other.said
    both = bring(early + late.partition("\n")[2])
    assert "2,314.8 days from 2017-07-14 on hold no operation; 9 lie before, 9 after" in both.said
    command = [native, "trail", "merge", one.path, other.path, "-o", tmp_path / "merged.trail"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert f"{other.path} begins 2314.8 days after {one.path} ends" in said


def test_an_interrupt_while_the_writer_starts_leaves_nothing(bring, tmp_path, monkeypatch):
    def interrupt(_: threading.Thread) -> None:
        while not list(tmp_path.glob(".*.importing/snapshots/*")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bring("t_s,offset,size,op\n1,0,512,r\n")
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]
