"""`make demo`: record a real database under load, print the summary, write the report, replay it elsewhere.

    demo.py [postgresql|sqlite]

PostgreSQL if it is installed, else SQLite. Trails and report stay in demo/ at the top of the checkout;
the database itself is thrown away.
"""

import os
import pwd
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Commands are run from the top of the checkout, and so are short.
HERE = Path("examples", "demo")
OUTPUT = Path("demo")
IOTRAIL = Path(sys.executable).with_name("iotrail")
PRELOAD = ROOT / "python" / "iotrail" / "_native" / "libiotrail_preload.so"


def postgresql(folder: Path) -> list[str] | None:
    """Make a cluster in the folder; the command that runs it under load. None if it can't be run here."""
    # Debian's own binaries: what is on PATH may be a wrapper that changes user.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [path for path in found if (path / "initdb").exists() and (path / "pgbench").exists()]
    if not found:
        return None
    prefix = not_root(folder)
    if prefix is None:
        return None
    script = str(HERE / "postgresql.sh")
    subprocess.run([*prefix, script, "create", str(found[-1]), str(folder)], check=True)
    return [*prefix, script, "run", str(found[-1]), str(folder)]


def not_root(folder: Path) -> Sequence[str] | None:
    """What runs a command as somebody PostgreSQL accepts: it refuses root.

    First a user namespace, in which root's files belong to another user's number: the checkout and the
    recording stay readable wherever they are. Where those are forbidden, the user `postgres`, if it can
    read the preload library. None if neither works.
    """
    if os.geteuid() != 0:
        return ()
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        return None
    uid, gid = str(user.pw_uid), str(user.pw_gid)
    namespace = ["unshare", "--user", f"--map-user={uid}", f"--map-group={gid}", "--"]
    drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]
    for prefix, owner in ((namespace, 0), (drop, user.pw_uid)):
        os.chown(folder, owner, -1)
        works = 'test "$(id -u)" != 0 && test -r "$0" && test -w "$1"'
        check = [*prefix, "sh", "-c", works, str(PRELOAD), str(folder)]
        if subprocess.run(check, stderr=subprocess.DEVNULL).returncode == 0:
            return prefix
    os.chown(folder, 0, -1)
    return None


def main(arguments: list[str]) -> int:
    """Record, summarise, report."""
    os.chdir(ROOT)
    wanted = arguments[0] if arguments else None
    if wanted not in (None, "postgresql", "sqlite"):
        print("usage: demo.py [postgresql|sqlite]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="iotrail-demo-") as name:
        folder = Path(name)
        command = postgresql(folder) if wanted != "sqlite" else None
        if command is None and wanted == "postgresql":
            print(
                "demo: error: PostgreSQL is not installed, or nothing but root can run here", file=sys.stderr
            )
            return 1
        database = "postgresql" if command else "sqlite"
        command = command or [sys.executable, str(HERE / "sqlite.py"), name]
        OUTPUT.mkdir(exist_ok=True)
        trail = OUTPUT / f"{database}.trail"
        report = OUTPUT / f"{database}.html"
        again = OUTPUT / f"{database}.replay.trail"
        steps: list[list[str | Path]] = [
            [IOTRAIL, "record", "--force", "--summary", "-o", trail, "--", *command],
            [IOTRAIL, "report", trail, "-o", report, "--force"],
            [IOTRAIL, "replay", trail, "--root", OUTPUT / "replay", "-o", again, "--force"],
        ]
        for step in steps:
            words = [os.path.relpath(part) if isinstance(part, Path) else part for part in step]
            print("$", shlex.join(words), flush=True)
            done = subprocess.run(words)
            if done.returncode != 0:
                return done.returncode
    print(f"\nThe report: {report.resolve()}\nAsk more:   {os.path.relpath(IOTRAIL)} sql {trail}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
