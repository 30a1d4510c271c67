"""Real programs do the same recorded as alone: what they print, how they end, the files they leave.

Each script runs twice in a directory of the same path, alone and recorded. The trail must have rows
of the programs named, so that a recorder that did nothing could not pass.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

import pytest

POSTGRES = next(iter(sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)), "")


@dataclass(frozen=True)
class Workload:
    """A script of bash, the programs whose I/O must be in the trail, files that may differ between two runs."""

    script: str
    recorded: set[str]
    needs: tuple[str, ...] = ()
    may_differ: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


WORKLOADS = {
    "sqlite": Workload(
        """
        sqlite3 rollback.db <<'SQL'
        CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20000)
          INSERT INTO t SELECT i, i*7919%10007, hex(i)||'-'||i FROM n;
        CREATE INDEX k ON t(k);
        BEGIN; UPDATE t SET v = v||'!' WHERE k < 500; ROLLBACK;
        DELETE FROM t WHERE id % 3 = 0; VACUUM; PRAGMA integrity_check; SELECT count(*), sum(k) FROM t;
        SQL
        sqlite3 wal.db 'PRAGMA journal_mode=wal; CREATE TABLE t(a)' > /dev/null
        for i in 1 2 3 4 5 6 7; do sqlite3 wal.db "INSERT INTO t VALUES($i); PRAGMA wal_checkpoint(TRUNCATE)"; done
        sqlite3 wal.db 'SELECT sum(a) FROM t; PRAGMA integrity_check' && sqlite3 rollback.db .dump | sha256sum
        """,
        {"sqlite3"},
        ("sqlite3",),
    ),
    "git": Workload(
        """
        git init -q -b main a && cd a && git config pack.threads 1
        for i in $(seq 500); do echo "file $i" > "file-$i"; done
        git add . && git commit -qm first && for i in 1 2 3; do seq $i 900 > file-$i; git commit -qam "change $i"; done
        cd .. && git clone -q a b && cd b && git gc -q && git fsck --full && git rev-parse HEAD && git log --oneline
        git -C ../a gc -q --aggressive && git -C ../a fsck --full && git status --short && rm -rf .git ../a/.git
        """,
        {"git"},
        ("git",),
        environment={
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        },
    ),
    "tar and gzip": Workload(
        """
        mkdir tree && for i in $(seq 200); do seq $i > tree/f$i; done
        tar --sort=name --mtime=@0 --owner=0 --group=0 -cf t.tar tree && gzip -nk t.tar && gzip -t t.tar.gz
        mkdir back && tar -xzf t.tar.gz -C back && diff -r tree back/tree && sha256sum t.tar.gz
        """,
        {"tar", "gzip", "diff", "sha256sum"},
        ("tar", "gzip"),
    ),
    "postgresql": Workload(
        f"""
        export PATH={POSTGRES}:$PATH PGHOST=$PWD/pg PGUSER=u PGDATABASE=postgres
        mkdir pg && chown nobody: pg && as='setpriv --reuid=nobody --regid=nogroup --clear-groups'
        $as initdb -D pg/data -U u -A trust --locale=C -E UTF8 > /dev/null
        $as pg_ctl -D pg/data -w -l pg/log -o "-k $PWD/pg -c listen_addresses=" start > /dev/null
        $as pgbench -i -q -s 1 2>/dev/null
        $as pgbench -n --random-seed=7 -t 300 -c 1 > pg/bench 2>&1 && grep processed: pg/bench
        $as pgbench -n -S -t 300 -c 4 -j 2 > pg/bench 2>&1 && grep processed: pg/bench
        $as psql -Atc 'SELECT sum(abalance), count(*) FROM pgbench_accounts' \
            -c 'SELECT sum(delta), count(*) FROM pgbench_history' -c 'CHECKPOINT'
        $as pg_ctl -D pg/data -w -m fast stop > /dev/null
        $as pg_ctl -D pg/data -w -l pg/log -o "-k $PWD/pg -c listen_addresses=" start > /dev/null
        $as psql -Atc 'SELECT md5(string_agg(abalance::text, chr(44) ORDER BY aid)) FROM pgbench_accounts'
        $as pg_ctl -D pg/data -w -m immediate stop > /dev/null
        rm -rf pg
        """,
        {"postgres", "initdb", "pgbench", "psql"},
        ("setpriv", f"{POSTGRES}/initdb", f"{POSTGRES}/pgbench"),
    ),
    "redis": Workload(
        """
        serve() {
            redis-server --port 0 --unixsocket $PWD/s --appendonly yes --appendfsync always --save '' --dir $PWD \
                --enable-debug-command local --daemonize no --logfile log > /dev/null &
            until redis-cli -s s ping > /dev/null 2>&1; do sleep 0.05; done
        }
        serve
        for i in $(seq 500); do echo "SET key:$i value-$i"; echo "LPUSH list $i"; done | redis-cli -s s > /dev/null
        redis-cli -s s DEBUG DIGEST; redis-cli -s s BGREWRITEAOF > /dev/null
        until redis-cli -s s INFO persistence | grep -q aof_rewrite_in_progress:0; do sleep 0.05; done
        redis-cli -s s SET after rewrite; redis-cli -s s SHUTDOWN NOSAVE; wait
        serve
        redis-cli -s s DBSIZE; redis-cli -s s DEBUG DIGEST; redis-cli -s s SHUTDOWN NOSAVE; wait
        """,
        {"redis-check-rdb", "redis-cli"},  # the server's file, by another name
        ("redis-server", "redis-cli"),
        may_differ=("log", "appendonlydir"),
    ),
    "node": Workload(
        """
        cat > script.js <<'JS'
        const fs = require('fs'), crypto = require('crypto'), { execFileSync } = require('child_process');
        fs.mkdirSync('out');
        for (let i = 0; i < 100; i++) fs.writeFileSync(`out/s${i}`, 'x'.repeat(i * 50));
        (async () => {
          await Promise.all([...Array(200).keys()].map(i => fs.promises.writeFile(`out/a${i}`, String(i).repeat(999))));
          const all = await Promise.all(fs.readdirSync('out').sort().map(n => fs.promises.readFile('out/' + n)));
          console.log(all.length, crypto.createHash('sha256').update(Buffer.concat(all)).digest('hex'));
          console.log(execFileSync('cat', ['out/s3']).length);
          await new Promise(done => fs.createReadStream('out/a199').pipe(fs.createWriteStream('copy')).on('close', done));
          try { await fs.promises.readFile('missing') } catch (e) { console.log(e.code) }
        })();
        JS
        node script.js
        """,
        {"node", "cat"},
        ("node",),
    ),
    "python": Workload(
        """
        cat > script.py <<'PY'
        import concurrent.futures, hashlib, mmap, os, pathlib, subprocess, tempfile
        def work(n):
            p = pathlib.Path(f"f{n}"); p.write_bytes(os.urandom(0) + bytes([n % 256]) * (n * 997))
            with p.open("r+b") as f:
                f.seek(n); f.write(b"!"); f.flush(); os.fsync(f.fileno())
            with p.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
                digest = hashlib.sha256(m[:]).hexdigest()
            out = subprocess.run(["wc", "-c", str(p)], capture_output=True, text=True, check=True).stdout
            return digest, out
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for r in pool.map(work, range(1, 60)): print(*r, end="")
        with concurrent.futures.ProcessPoolExecutor(3) as pool:
            print(sum(pool.map(len, [os.listdir("."), [1], [2, 3]])))
        try: open("missing")
        except FileNotFoundError as e: print(e.errno, e.filename)
        PY
        python3 script.py
        """,
        {"python3.11", "wc"},
        ("python3",),
    ),
    "make": Workload(
        """
        for i in $(seq 60); do echo "int f$i(void) { return $i; }" > f$i.c; done
        (for i in $(seq 60); do echo "int f$i(void);"; done; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'
         for i in $(seq 60); do echo "s += f$i();"; done; echo 'printf("%d\\n", s); return 0; }') > main.c
        printf 'O := $(patsubst %%.c,%%.o,$(wildcard *.c))\\nall: prog\\nprog: $(O)\\n\\t$(CC) -o $@ $(sort $(O))\\n' > Makefile
        make -j4 -O > log 2>&1 && ./prog && make -q && rm log
        """,
        {"make", "cc1", "x86_64-linux-gnu-as", "x86_64-linux-gnu-ld.bfd"},
        ("make", "cc"),
    ),
    "dpkg-deb": Workload(
        """
        export SOURCE_DATE_EPOCH=0
        mkdir -p p/DEBIAN p/usr/share/p && for i in $(seq 50); do seq $i > p/usr/share/p/$i; done
        printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: d\\n' > p/DEBIAN/control
        dpkg-deb --root-owner-group -b p p.deb > /dev/null && dpkg-deb -c p.deb | wc -l && dpkg-deb -f p.deb Version
        dpkg-deb -x p.deb out && diff -r p/usr out/usr && sha256sum p.deb
        """,
        {"dpkg-deb", "tar"},
        ("dpkg-deb",),
    ),
    "coreutils, find, perl": Workload(
        """
        dd if=/dev/zero of=zero bs=4k count=100 status=none && dd if=zero of=sync bs=64k oflag=dsync status=none
        cp --reflink=never zero copy && cp -a . ../place.copy && diff -rq . ../place.copy && rm -r ../place.copy
        mkdir -p d/e/f && touch d/{a,b,c} && find . -type f -size +10k -exec sha256sum {} + | sort && mv d/a d/e/f/
        ln -s d link && ln zero hard && stat -c '%n %h %s' zero && sort -R --random-source=zero <(seq 5000) | sort -n | sha256sum
        perl -e 'open my $f, ">", "p"; print $f "line $_\\n" for 1..5000; close $f; open $f, "<", "p"; my $n = 0;
            while (<$f>) { $n += length } print "$n\\n"; system("cat p | wc -l"); truncate("p", 10); print -s "p", "\\n"'
        (ulimit -n 16; cat zero | head -c 5 | wc -c); (exec 5<zero; head -c 3 <&5 | wc -c); cat missing; echo $?
        """,
        {"dd", "cp", "find", "perl", "sort"},
        ("perl",),
    ),
    "java": Workload(
        """
        cat > Hello.java <<'JAVA'
        import java.nio.file.*;
        public class Hello {
            public static void main(String[] a) throws Exception {
                Thread[] threads = new Thread[4];
                for (int i = 0; i < 4; i++) { int n = i; threads[i] = new Thread(() -> {
                    try { Files.writeString(Path.of("java-" + n), "x".repeat(1000 * n)); } catch (Exception e) { System.exit(9); }
                }); threads[i].start(); }
                for (Thread t : threads) t.join();
                System.out.println(Files.size(Path.of("java-3")));
            }
        }
        JAVA
        java -Xshare:auto -XX:TieredStopAtLevel=1 Hello.java && rm -f hs_err*
        """,
        {"java"},
        ("java", "javac"),
    ),
    "chromium": Workload(
        """
        chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile --dump-dom \
            'data:text/html,<p id=x>hello</p><script>document.all.x.textContent += 1 + 1</script>' 2> /dev/null
        rm -rf profile .cache .config .pki .local
        """,
        {"chromium"},
        ("chromium",),
    ),
    "programs that watch or confine themselves": Workload(
        """
        seq 100 > a
        valgrind -q --error-exitcode=5 cat a | wc -l    # no bad memory access in the recorder
        strace -f -qq -o log cat a | wc -l && grep -c '^[0-9]* *read(' log > /dev/null && rm log
        gdb -batch -nx -ex run -ex 'print $_exitcode' --args cat a 2> /dev/null | grep '^.1 = 0'
        file a                                           # under seccomp
        man --version > /dev/null && echo .TH A 1 | MANROFFSEQ= man -l - 2> /dev/null | head -1
        """,
        {"cat", "wc", "file", "gdb"},
        ("valgrind", "strace", "gdb", "file", "man"),
    ),
    "jemalloc": Workload(
        "LD_PRELOAD=$LD_PRELOAD:libjemalloc.so.2 sort -n <(seq 30000 | tac) | sha256sum && "
        "LD_PRELOAD=libjemalloc.so.2:$LD_PRELOAD python3 -c 'print(len(open(\"/etc/passwd\").read()) > 0)'",
        {"sort", "python3.11"},
        ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "python3"),
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_real_programs_do_the_same(record, tmp_path, name):
    """Output, exit status and files are those of the run alone, and the programs' I/O is in the trail."""
    workload = WORKLOADS[name]
    for program in workload.needs:
        if not (shutil.which(program) or Path(program).exists()):
            pytest.skip(f"{program} is not installed")
    if name == "postgresql" and os.geteuid():
        pytest.skip("needs root to run the server as another user")
    script = "set -o pipefail\n" + textwrap.dedent(workload.script)
    # Not under tmp_path: an unprivileged server must reach its socket there, by a short path.
    place = Path("/tmp") / f"capture-{os.getpid()}"
    environment = {**workload.environment, "HOME": str(place)}

    def run(
        how: Callable[[], tuple[int, str, str]],
    ) -> tuple[int, str, str, dict[str, str]]:
        place.mkdir()
        try:
            return *how(), _digests(place, workload.may_differ)
        finally:
            shutil.rmtree(place)

    def alone() -> tuple[int, str, str]:
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=place,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout, done.stderr

    recordings = []

    def recorded() -> tuple[int, str, str]:
        done = record(["/bin/bash", "-c", script], cwd=place, env=environment)
        recordings.append(done)
        return done.status, done.stdout, "".join(_own_lines(done.stderr))

    expected, found = run(alone), run(recorded)
    assert expected[0] == 0, expected[2]
    assert found[:3] == expected[:3]
    assert found[3] == expected[3]
    trail = recordings[0].trail
    names = {
        n
        for (n,) in trail.query(
            "SELECT DISTINCT p.name FROM file_op o JOIN thread USING (thread) JOIN process p USING (process)"
        )
    }
    assert workload.recorded <= names
    assert "dropped" not in trail.unseen()
    # A call that never returned is its thread's last, and another thread ended the process meanwhile (as in test_life,
    # "exit while five threads read"): Chromium's main thread doesn't wait for its workers. Each other with how many calls
    # came after it, how long before the end, and how many threads there were without such a call.
    hanging = trail.query(
        """SELECT * FROM (
            SELECT p.name, call, path, (SELECT count(*) FROM op l WHERE l.thread = o.thread AND l.ts > o.ts) AS later,
                p.end_ts - o.ts AS before_end_ns,
                (SELECT count(*) FROM thread t WHERE t.process = p.process AND t.end_ts >= o.ts
                    AND t.thread NOT IN (SELECT thread FROM op WHERE dur IS NULL)) AS others
            FROM op o JOIN process p USING (process)
            WHERE dur IS NULL AND p.ended = 'exit' AND o.kind IS NULL)
        WHERE later > 0 OR others = 0"""
    )
    assert hanging == []


def _own_lines(stderr: str) -> list[str]:
    """What the program wrote to stderr: all but the recorder's closing lines."""
    return [line for line in stderr.splitlines(keepends=True) if not line.startswith(("iotrail: ", "  "))]


def _digests(place: Path, may_differ: tuple[str, ...]) -> dict[str, str]:
    """Every file below a directory with what is in it."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if name.split("/")[0] in may_differ:
            continue
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "directory"
    return found


@pytest.mark.parametrize("ranks", [4])
def test_mpi(build, record, work, ranks):
    """Every rank's I/O and collectives are recorded exactly; ranks are in the process table."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    program = build("ranks.c", "plain", "mpi")
    mpirun = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        str(ranks),
        program,
        work,
    ]
    run = record(mpirun)
    assert run.status == 0, run.stderr
    assert run.stdout == f"{ranks} ranks, sum {sum(range(ranks))}\n"
    rows = run.trail.query(
        "SELECT rank, count(*) FROM process WHERE rank IS NOT NULL AND ended = 'exit' GROUP BY rank ORDER BY rank"
    )
    assert rows == [(rank, 1) for rank in range(ranks)]
    counts = run.trail.query(
        """SELECT p.rank, count(*) FILTER (WHERE call = 'pwrite'), count(*) FILTER (WHERE call = 'pread'),
            count(*) FILTER (WHERE call = 'MPI_Barrier'), count(*) FILTER (WHERE call = 'MPI_Allreduce'),
            count(*) FILTER (WHERE call = 'MPI_Init'), count(*) FILTER (WHERE call = 'MPI_Finalize')
        FROM op JOIN process p USING (process) WHERE p.rank IS NOT NULL
            AND (parse_filename(path) = 'shared' OR call LIKE 'MPI%') GROUP BY 1 ORDER BY 1"""
    )
    assert counts == [(rank, 13, 11, 13, 7, 1, 1) for rank in range(ranks)]
