"""`iotrail record --kernel`: calls of programs that no recorder is in, io_uring's requests, and no call twice."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from iotrail.trail import Trail

from ..capture.recording import Note, new_book, read_book
from .recording import IOTRAIL, needs_root, recordings
from .test_kernel import REQUESTS

PROGRAMS = Path(__file__).parent / "programs"

OPS = """
    SELECT p.name, p.cmd, o.call, coalesce(f.path, '') AS path, o.pos, o.length, o.result, o.errno, o.ts, o.dur
    FROM file_op AS o JOIN thread AS t USING (node, thread) JOIN process AS p USING (node, process)
    LEFT JOIN file AS f USING (node, file)"""


def build(source: str, to: Path, *flags: str) -> Path:
    subprocess.run(["cc", "-O1", "-Wall", *flags, "-o", to, PROGRAMS / source], check=True)
    return to


def right(
    command: Sequence[str | Path],
    tmp_path: Path,
    rows: Callable[[Trail], object],
    expected: object,
    **popen: object,
) -> Trail:
    """The trail of a program in which these rows are as expected."""
    for trail, last in recordings(command, tmp_path, **popen):
        found = rows(trail)
        if found == expected or last:
            break
    assert found == expected
    return trail


def of_file(trail: Trail, where: str = "true") -> dict[tuple[str, str], list[tuple]]:
    """Position, length, result and errno of each call, in order, by call and path."""
    found: dict[tuple[str, str], list[tuple]] = {}
    for row in trail.rows_of(f"SELECT * FROM ({OPS}) WHERE {where} ORDER BY ts"):
        key = (row["call"], row["path"])
        found.setdefault(key, []).append((row["pos"], row["length"], row["result"], row["errno"]))
    return found


@needs_root
def test_calls_of_a_static_program(tmp_path: Path) -> None:
    """However a descriptor came: each call is a row with its path, position, length, result and errno."""
    program = build("moves.c", tmp_path / "moves", "-static")
    work = tmp_path / "work"
    work.mkdir()
    (work / "input").write_bytes(b"x" * 100)
    steps = {
        ("pwrite", "positions"): [(i * 13, 13, 13, 0) for i in range(101)],
        ("pread", "positions"): [*((i * 7, 7, 7, 0) for i in range(97)), (0, 10, -1, 14)],
        ("read", "positions"): [
            *((5 + i * 17, 17, 17, 0) for i in range(11)),
            *((287 + i * 23, 23, 23, 0) for i in range(3)),
            (356, 31, 31, 0),
        ],
        ("readv", "positions"): [(192 + i * 19, 19, 19, 0) for i in range(3)],
        ("preadv", "positions"): [(249 + i * 19, 19, 19, 0) for i in range(2)],
        ("pwritev", "positions"): [(100 + i, 19, 19, 0) for i in range(5)],
        ("write", "appended"): [
            *((i * 11, 11, 11, 0) for i in range(7)),
            *((77 + i * 43, 43, 43, 0) for i in range(3)),
        ],
        ("write", "below/own"): [(0, 19, 19, 0)],
        ("read", "below/own"): [(0, 37, 19, 0)],
        ("write", "below/other"): [(0, 41, 41, 0)],
        ("rename", "below/other"): [(None, None, 0, 0)],
        ("unlink", "renamed"): [(None, None, 0, 0)],
        ("mkdir", "below"): [(None, None, 0, 0)],
        ("read", "input"): [(0, 47, 47, 0)],
        ("fsync", "positions"): [(None, None, 0, 0)],
        ("dup", "positions"): [(None, None, 4, 0)],
        ("open", "missing"): [(None, None, -1, 2)],
    }
    expected = {(call, f"{work}/{name}"): rows for (call, name), rows in steps.items()}

    def rows(trail: Trail) -> dict[tuple[str, str], list[tuple]]:
        found = of_file(trail)
        return {key: found.get(key, []) for key in expected}

    def fresh() -> None:
        for name in ("positions", "appended", "below"):
            path = work / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    with (work / "input").open("rb") as stdin:

        def rows_and_ready(trail: Trail) -> dict[tuple[str, str], list[tuple]]:
            # Should it have to be recorded again.
            os.lseek(stdin.fileno(), 0, os.SEEK_SET)
            fresh()
            return rows(trail)

        trail = right([program, work], tmp_path, rows_and_ready, expected, stdin=stdin)

    calls = trail.rows_of(f"SELECT count(*) AS n FROM ({OPS}) WHERE dur IS NULL OR name <> 'moves'")
    assert calls == [{"n": 0}], "each ended, and none is anybody else's"
    waits = trail.rows_of("SELECT call, kind, length, result FROM sync_op WHERE call <> 'wait' ORDER BY ts")
    assert sorted(tuple(row.values()) for row in waits) == [
        ("read", "pipe", 4096, 29),
        ("recv", "socket", None, 1),
        ("send", "socket", None, 1),
        ("write", "pipe", 29, 29),
    ]
    processes = trail.rows_of("""
        SELECT p.name, p.exe, p.ended, p.status, q.pid = p.pid AS same, q.name AS parent
        FROM process AS p LEFT JOIN process AS q ON q.node = p.node AND q.process = p.parent
        WHERE p.name = 'moves' ORDER BY p.start_ts""")
    image = {"name": "moves", "exe": str(program), "ended": "exit", "status": 0}
    assert processes == [
        image | {"same": None, "parent": None},
        image | {"same": False, "parent": "moves"},
    ]
    assert not trail.rows_of("SELECT * FROM unseen WHERE kind <> 'kernel_dropped'")


# Calls that the C library makes as they are, and that the program makes in no other way.
ALIKE = [
    "access", "chmod", "chown", "copy_file_range", "creat", "dup", "fadvise", "fallocate", "fdatasync",
    "fsync", "link", "mkdir", "pread", "preadv", "pwrite", "pwritev", "read", "readv", "rename", "rmdir",
    "sendfile", "statfs", "symlink", "sync_file_range", "truncate", "utimes", "write", "writev",
    "xattr",
]  # fmt: skip


@needs_root
@pytest.mark.parametrize("flags", [["-static"], []])
def test_calls_are_those_of_the_programs_own_book(tmp_path: Path, flags: list[str]) -> None:
    """All forms of calls, as often and with what the program noted of each, recorded in it or by the kernel."""
    program = tmp_path / "calls"
    source = PROGRAMS.parents[1] / "capture" / "programs" / "calls.c"
    subprocess.run(["cc", "-O1", "-pthread", *flags, "-o", program, source, "-ldl"], check=True)
    book, work = tmp_path / "book", tmp_path / "work"
    environment = {**os.environ, "WITNESS": str(book)}

    def prepare() -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        book.unlink(missing_ok=True)
        new_book(book, 200_000)

    prepare()
    for trail, last in recordings([program, work], tmp_path, env=environment):
        rows = trail.rows_of(f"SELECT * FROM ({OPS}) WHERE path <> '{book}' ORDER BY ts + dur")
        wrong = []
        notes = read_book(book)
        for call in ALIKE:
            made = [note for note in notes if note.call == call]
            found = [row for row in rows if row["call"] == call]
            if len(made) != len(found) or not made:
                wrong.append(f"{call}: the program made {len(made)}, the trail has {len(found)}")
            wrong += [
                f"{note} -> {row}" for note, row in zip(made, found, strict=False) if not same(note, row)
            ]
        if not wrong or last:
            break
        prepare()
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:20]])


def same(note: Note, row: dict) -> bool:
    """Whether a row says what the program noted."""
    return (
        (row["result"], row["errno"]) == (note.result, note.errno)
        and note.pos in (None, row["pos"])
        and note.length in (None, row["length"])
        and note.path in ("", Path(row["path"]).name)
        and row["dur"] <= (note.ended - note.began) * 1.001 + 200
    )


@needs_root
def test_programs_with_and_without_a_recorder_take_turns(tmp_path: Path) -> None:
    """Each image's calls are recorded once: by the recorder in it, or where none is, by the kernel's."""
    fixed = build("hop.c", tmp_path / "fixed", "-static")
    loaded = build("hop.c", tmp_path / "loaded")
    turns = [(fixed, 7), (loaded, 11), (fixed, 13), (fixed, 17), (loaded, 19), (loaded, 23), (fixed, 29)]
    command = [str(word) for turn in turns for word in turn]
    images = [" ".join(command[at:]) for at in range(0, len(command), 2)]
    expected = [
        {"name": program.name, "cmd": image, "path": f"{tmp_path}/hop-{n}", "n": n, "bytes": 3 * n}
        for (program, n), image in zip(turns, images, strict=True)
    ]

    def rows(trail: Trail) -> list[dict]:
        return trail.rows_of(f"""
            SELECT name, cmd, path, count(*) AS n, CAST(sum(result) AS BIGINT) AS bytes FROM ({OPS})
            WHERE call = 'pwrite' GROUP BY ALL ORDER BY min(ts)""")

    trail = right(command, tmp_path, rows, expected, cwd=tmp_path)
    # One process became all these, each by exec of the one before.
    chain = trail.rows_of("""
        SELECT p.cmd, q.cmd AS parent, p.ended FROM process AS p
        LEFT JOIN process AS q ON q.node = p.node AND q.process = p.parent
        WHERE p.cmd IS NOT NULL ORDER BY p.start_ts""")
    assert [row["cmd"] for row in chain] == images
    assert [row["ended"] for row in chain] == ["exec"] * 6 + ["exit"]
    # A recorder in a program knows its parent only if that one had a recorder too.
    parents = [row["parent"] for row in chain]
    assert [parents[at] for at in (0, 2, 3, 6)] == [None, *(images[at] for at in (1, 2, 5))]
    # What the loader of a recorded program does is not the program's.
    assert not trail.rows_of(f"SELECT * FROM ({OPS}) WHERE path LIKE '%.so%'")


@needs_root
def test_a_request_on_io_uring_is_a_row(tmp_path: Path) -> None:
    """Of a program with a recorder in it, which can't see it; reads that it can see aren't there twice."""
    data = tmp_path / "data"
    data.write_bytes(bytes(8 << 20))
    fio = ["fio", "--name=x", f"--filename={data}", "--rw=randread", "--bs=4k", f"--number_ios={REQUESTS}",
           "--size=8M", "--minimal", "--iodepth=8"]  # fmt: skip
    query = f"""
        SELECT name, count(*) AS n, CAST(sum(length) AS BIGINT) AS asked, CAST(sum(result) AS BIGINT) AS bytes,
            count(DISTINCT pos) AS places, count(*) FILTER (WHERE pos % 4096 = 0 AND pos < 8388608 AND dur > 0) AS inside
        FROM ({OPS}) WHERE call = 'pread' AND path = '{data}' GROUP BY ALL"""
    n, size = REQUESTS, REQUESTS * 4096
    expected = [{"name": "fio", "n": n, "asked": size, "bytes": size, "places": n, "inside": n}]
    for engine in ("io_uring", "psync"):
        (tmp_path / engine).mkdir()
        trail = right(
            [*fio, f"--ioengine={engine}"], tmp_path / engine, lambda trail: trail.rows_of(query), expected,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert not trail.rows_of("SELECT * FROM unseen WHERE kind LIKE 'io_uring%'")


@needs_root
@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
@pytest.mark.parametrize("cgo", [False, True])
def test_a_go_program_makes_its_calls_itself(tmp_path: Path, cgo: bool) -> None:
    """Statically linked, or loaded with a recorder that its calls don't pass."""
    source = (PROGRAMS / "moves.go").read_text()
    (tmp_path / "moves.go").write_text(
        source.replace("import (", 'import "C"\n\nimport (') if cgo else source
    )
    environment = {**os.environ, "CGO_ENABLED": str(int(cgo)), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", "moves", "moves.go"], cwd=tmp_path, env=environment, check=True)

    def rows(trail: Trail) -> list[dict]:
        return trail.rows_of(f"""
            SELECT name, call, count(*) AS n, CAST(sum(result) AS BIGINT) AS bytes, count(DISTINCT pos) AS places
            FROM ({OPS}) WHERE path = '{tmp_path}/from-go' AND call <> 'fcntl' GROUP BY ALL ORDER BY call""")

    moved = {"n": 1004, "bytes": 1004 * 17, "places": 1004}
    expected = [
        {"name": "moves", "call": "close", "n": 1, "bytes": 0, "places": 0},
        {"name": "moves", "call": "fsync", "n": 1, "bytes": 0, "places": 0},
        {"name": "moves", "call": "pwrite", **moved},
        {"name": "moves", "call": "read", **moved},
    ]

    def without_open(trail: Trail) -> list[dict]:
        return [row for row in rows(trail) if row["call"] != "open"]

    right([tmp_path / "moves"], tmp_path, without_open, expected, cwd=tmp_path)


@needs_root
@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
def test_computing_of_a_go_program_is_its_cpu_time(tmp_path: Path) -> None:
    """Not the time in which its threads made no call."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"}
    subprocess.run(
        ["go", "build", "-o", tmp_path / "works", PROGRAMS / "works.go"], env=environment, check=True
    )
    path = tmp_path / "t.trail"
    recorder = [*IOTRAIL, "record", "--kernel", "-o", path, "--", tmp_path / "works", tmp_path / "lines"]
    run = subprocess.run(recorder, check=True, stdout=subprocess.PIPE, text=True)
    (row,) = Trail(path).rows_of(
        "SELECT CAST(sum(compute_ns) AS BIGINT) AS compute FROM time_split WHERE process_name = 'works'"
    )
    assert row["compute"] == pytest.approx(int(run.stdout), rel=0.1, abs=50_000_000), row


@needs_root
def test_what_is_not_seen_without_ebpf_is_said(tmp_path: Path) -> None:
    program = build("hop.c", tmp_path / "fixed", "-static")
    record = [*IOTRAIL, "record", "-o", tmp_path / "t.trail"]
    refused = subprocess.run(
        [*record, "--", program, "7"], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert refused.returncode == 1 and "is statically linked" in refused.stderr
    assert "--kernel" in refused.stderr and not (tmp_path / "t.trail").exists()
    done = subprocess.run(
        [*record, "--kernel", "--kernel-via", "tracefs", "--", program, "7"],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert f"{program} is statically linked: its calls are not recorded" in done.stderr
    trail = Trail(tmp_path / "t.trail")
    assert trail.rows_of("SELECT kind, amount, path FROM unseen JOIN file USING (node, file)") == [
        {"kind": "static_program", "amount": 1, "path": str(program)}
    ]
    assert not trail.rows_of("SELECT * FROM file_op")


@needs_root
def test_summary_and_report_of_a_static_program(tmp_path: Path) -> None:
    program = build("hop.c", tmp_path / "fixed", "-static")
    for trail, last in recordings([program, "1009"], tmp_path, cwd=tmp_path):
        (found,) = trail.rows_of("SELECT count(*) AS n FROM file_op WHERE call = 'pwrite'")
        if found["n"] == 1009 or last:
            break
    summary = subprocess.run(
        [*IOTRAIL, "summary", trail.path], check=True, capture_output=True, text=True
    ).stdout
    assert "fixed" in summary and "pwrite" in summary and "hop-1009" in summary
    page = tmp_path / "report.html"
    subprocess.run([*IOTRAIL, "report", trail.path, "-o", page], check=True)
    assert page.stat().st_size > 0
    drawn = subprocess.run(
        [*IOTRAIL, "report", trail.path, "--json"], check=True, capture_output=True, text=True
    ).stdout
    assert "hop-1009" in drawn
