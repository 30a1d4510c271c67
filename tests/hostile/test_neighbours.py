"""Other users beside, and inside, a recording that root makes: what they plant is refused and counted."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.recording import new_book, until

from .test_rings import assert_bounded, assert_kept

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv of util-linux"),
]


def test_a_program_of_another_user_inside_the_recording(build, record, native, work, tmp_path):
    """It plants links, pipes and a segment of its neighbour: the neighbour's calls are all there, nothing is lost."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    insider = work / "insider.py"
    shutil.copy(Path(__file__).with_name("insider.py"), insider)
    script = f"""
        {build("hostile.c")} {work} book 503 &
        victim=$!
        {" ".join(AS_NOBODY)} {sys.executable} -S {insider} $victim {precious}
        wait $victim
    """
    run = record(["/bin/sh", "-c", script])
    assert run.status == 0, run.stderr
    assert run.stdout == "planted\n", "it was allowed more than to add files"
    assert_kept(run)
    assert_bounded(native, run)
    assert precious.read_text() == "precious"
    assert run.trail.unseen().get("refused_segment") == 5, run.stderr
    assert "5 files that no program of the recording can have made" in run.stderr
    # What it did itself is recorded: it is a program of the recording.
    uids = run.trail.value(
        "SELECT count(*) FROM process WHERE cmd LIKE '%insider.py%' AND exe LIKE '%python%'"
    )
    assert uids == 1


def test_a_program_of_another_user_outside_the_recording(build, record, work, tmp_path):
    """It neither sees nor reaches the folder that programs record into."""
    out, said = tmp_path / "t.trail", []

    def during(_: subprocess.Popen) -> None:
        until(lambda: (work / "kept").exists())
        session = Path(json.loads((out / "session.json").read_text())["session_dir"])
        home = session.parent
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in (home, session)] == [0o711, 0o1733]
        attempts = f"ls {home}; ls {home}/*/; touch {home}/seg-1; ln -s /etc/passwd {home}/carry; cat {home}/journal-0"
        done = subprocess.run([*AS_NOBODY, "/bin/sh", "-c", attempts], capture_output=True, text=True)
        said.append(done.stdout)
        assert not (home / "seg-1").exists() and not (home / "carry").is_symlink()

    run = record([build("hostile.c"), work, "book", "503"], out=out, during=during)
    assert run.status == 0, run.stderr
    assert said == [""]
    assert_kept(run)
    assert run.trail.unseen() == {}


def test_a_program_that_drops_its_privileges_is_recorded(build, record, work):
    """What a folder for others is there for."""
    book = work / "book"  # pytest's own folder is root's alone
    new_book(book, 10_000)
    run = record([*AS_NOBODY, build("hostile.c"), work, "book", "503"], env={"WITNESS": str(book)})
    assert run.status == 0, run.stderr
    run.book = book
    assert_kept(run)
    assert run.trail.unseen() == {}


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder in which setuid programs may lie and that all users reach: neither is true of pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="iotrail-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_program_that_gained_privileges_ignores_the_session(native, record, public):
    """Who starts a setuid program chooses its environment: it must not make files where that says."""
    program = public / "privileged"
    include = Path(__file__).parents[2] / "crates/capi/include"
    source = Path(__file__).parents[1] / "capture/programs/privileged.c"
    shutil.copy(native.with_name("libiotrail.so"), public)
    link = [f"-L{public}", "-liotrail", f"-Wl,-rpath,{public}"]
    subprocess.run(["cc", "-o", program, source, f"-I{include}", *link], check=True)
    shell = ["/bin/sh", "-c", f"{program}; true"]
    assert record(shell).stdout == "plain recorded\n"
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o6755)
    run = record(shell)
    assert run.stdout == "privileged ignored\n"
    assert run.trail.unseen() == {"setuid_program": 1}
