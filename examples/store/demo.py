"""`make demo-store`: a store of three nodes and two replicas, two users' programs on it, and what was recorded.

User `daemon` runs transactions on an SQLite database; user `games` unpacks sources and compiles them. The
trail stays in demo/store.trail at the top of the checkout; the store itself is thrown away.
"""

import io
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Commands are run from the top of the checkout, and so are short.
HERE = Path("examples", "store")
TRAIL = Path("demo", "store.trail")
IOTRAIL = Path(sys.executable).with_name("iotrail")
SOURCES = ROOT / "tests" / "capture" / "programs"

TRANSACTIONS = 300
BANK = """
CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
CREATE TABLE history (account INTEGER, delta INTEGER);
INSERT INTO account SELECT value, 0, hex(randomblob(100)) FROM generate_series(1, 5000);
"""
TRANSFER = """
BEGIN;
UPDATE account SET balance = balance + 1 WHERE id = abs(random()) % 5000 + 1;
INSERT INTO history VALUES (abs(random()) % 5000 + 1, 1);
SELECT balance FROM account WHERE id = abs(random()) % 5000 + 1;
COMMIT;
"""

TABLES = (
    "service_op", "stitch", "buffer_op", "network_transmit", "disk_op", "cpu_slice", "file_op", "sync_op",
)  # fmt: skip

# What is there, who asked for what, where the time of requests went, who owes what.
ANSWERS: list[list[str | Path]] = [
    [
        IOTRAIL,
        "sql",
        TRAIL,
        " UNION ALL ".join(f"SELECT '{table}' AS records, COUNT(*) AS n FROM {table}" for table in TABLES),
    ],
    [
        IOTRAIL,
        "sql",
        TRAIL,
        "SELECT client, op, COUNT(*) AS requests, SUM(length) AS bytes, AVG(dur) / 1e3 AS mean_us "
        "FROM service_op WHERE component = 'head' AND kind = 'server' "
        "GROUP BY ALL ORDER BY client, requests DESC",
    ],
    [
        IOTRAIL,
        "sql",
        TRAIL,
        "SELECT node, op, COUNT(*) AS calls, AVG(dur) / 1e3 AS mean_us FROM service_op "
        "WHERE kind = 'server' AND component <> 'head' GROUP BY ALL ORDER BY node, calls DESC",
    ],
    [IOTRAIL, "path", TRAIL, "--slowest", "1", "--op", "commit", "--client", "daemon"],
    [IOTRAIL, "graph", TRAIL, "--op", "commit", "--client", "daemon"],
    [IOTRAIL, "demand", TRAIL, "--by", "client,resource"],
]


def run(command: list[str | Path]) -> None:
    """Show a command and run it."""
    words = [os.path.relpath(part) if isinstance(part, Path) else part for part in command]
    print("$", shlex.join(words), flush=True)
    subprocess.run(words, check=True)


def database(home: Path) -> subprocess.Popen[bytes]:
    """Transactions of user `daemon`."""
    script = home / "transfers.sql"
    script.write_text(BANK + TRANSFER * TRANSACTIONS)
    with script.open("rb") as text:
        return subprocess.Popen(
            ["sqlite3", "bank.db"], stdin=text, stdout=subprocess.DEVNULL, cwd=home, user="daemon"
        )


def compilation(home: Path) -> subprocess.Popen[bytes]:
    """Sources unpacked and compiled by user `games`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for source in [*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]:
            archive.add(source, source.name)
    (home / "sources.tar").write_bytes(packed.getvalue())
    build = "tar xf sources.tar && for c in allocates.c calls.c life.c stdio.c; do cc -O1 -c $c || exit; done"
    return subprocess.Popen(
        ["sh", "-c", build], cwd=home, user="games", env={**os.environ, "TMPDIR": str(home)}
    )


def main() -> int:
    """Start the store, load it, end it, ask."""
    os.chdir(ROOT)
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        print(
            "demo: error: mounting the store needs root and /dev/fuse\n  hint: sudo make demo-store",
            file=sys.stderr,
        )
        return 1
    folder = Path(tempfile.mkdtemp(prefix="iotrail-store-", dir="/var/tmp"))
    # Two users of this machine reach their homes in it.
    folder.chmod(0o755)
    try:
        run([HERE / "up.sh", "--nodes", "3", "--replicas", "2", str(folder)])
        try:
            users = []
            for user, work in (("daemon", database), ("games", compilation)):
                home = folder / "mnt" / user
                home.mkdir()
                home.chmod(0o777)
                users.append(work(home))
            statuses = [program.wait() for program in users]
        finally:
            run([HERE / "down.sh", str(folder)])
        if any(statuses):
            print(f"demo: error: the users' programs ended with {statuses}, expected 0", file=sys.stderr)
            return 1
        TRAIL.parent.mkdir(exist_ok=True)
        shutil.rmtree(TRAIL, ignore_errors=True)
        shutil.move(folder / "store.trail", TRAIL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for answer in ANSWERS:
        run(answer)
    if shutil.which("dot"):
        run([IOTRAIL, "graph", TRAIL, "--op", "commit", "--svg", TRAIL.with_name("store-graph.svg")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
