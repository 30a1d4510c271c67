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


def test_a_trail_is_its_owners_alone(native, record, build, work):
    """Whatever the umask: it tells names of files."""
    run = record(["/bin/sh", "-c", f"umask; {build('hostile.c')} {work} book 503"], umask=0)
    assert run.stdout.startswith("0000"), "the program has the umask that it was given"
    subprocess.run([native, "trail", "compact", run.path], check=True, capture_output=True)
    for path in [run.path, *run.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_program_that_drops_its_privileges_is_recorded(build, record, work):
    """What a folder for others is there for."""
    book = work / "book"  # pytest's own folder is root's alone
    new_book(book, 10_000)
    run = record([*AS_NOBODY, build("hostile.c"), work, "book", "503"], env={"WITNESS": str(book)})
    assert run.status == 0, run.stderr
    run.book = book
    assert_kept(run)
    assert run.trail.unseen() == {}


def test_programs_of_another_user_share_the_memory(record, work):
    """They may only read how much of it is taken: it is taken for them, and each is recorded or counted."""
    begun, go, processes = work / "begun", work / "go", 400
    begun.touch()
    os.mkfifo(go)
    for shared in (begun, go):
        shared.chmod(0o666)
    # a pause after each 40, in which the recorder takes note of what they took
    fork = f"(echo >> {begun}; read line < {go}) & [ $((i % 40)) != 0 ] || sleep 0.1"
    script = f"i={processes}; while [ $i != 0 ]; do {fork}; i=$((i - 1)); done; wait"
    gate = os.open(go, os.O_RDWR)

    def during(_: subprocess.Popen) -> None:
        until(lambda: len(begun.read_text()) == processes)
        os.write(gate, b"\n" * processes)

    run = record([*AS_NOBODY, "/bin/sh", "-c", script], "--memory=8M", during=during)
    os.close(gate)
    assert run.status == 0, run.stderr
    refused = run.trail.unseen()["refused_process"]
    assert f"{refused} processes that got no memory to record into (--memory gives more)" in run.stderr
    # and setpriv, the shell, the pauses
    others = 2 + processes // 40
    assert run.trail.value("SELECT count(*) FROM process") + refused == processes + others


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder in which setuid programs may lie and that all users reach: neither is true of pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="iotrail-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_breadcrumbs_of_another_users_programs_differ(native, record, public):
    """Where leases of them are can only be read by these: forks, and images of one pid one after the other."""
    shutil.copy(native.with_name("libiotrail.so"), public)
    program = public / "crumbs.py"
    program.write_text(f"""
import ctypes, os, sys
library = ctypes.CDLL("{public}/libiotrail.so")
assert library.iotrail_init()
new = library.iotrail_crumb_new
new.restype = ctypes.c_int64
for child in range(10):
    if os.fork() == 0:
        print("".join(f"{{new()}}\\n" for _ in range(2_000)), end="", flush=True)
        os._exit(0)
    os.wait()
left = int(sys.argv[1])
print(new(), flush=True)
if left:
    os.execv("/proc/self/exe", ["python3", "-S", __file__, str(left - 1)])
""")
    run = record([*AS_NOBODY, sys.executable, "-S", program, "2"])
    assert run.status == 0, run.stderr
    crumbs = run.stdout.split()
    assert len(crumbs) == 3 * (10 * 2_000 + 1) == len(set(crumbs))
    assert all(int(crumb) > 0 for crumb in crumbs)


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
