"""What a trail costs: bytes an operation at rest, sealing and reading rate, memory of a long recording.

Rates and sizes come from `cargo bench -p iotrail-trail`, which needs no Python. Memory is sampled while
fio reads cached blocks as fast as it can, the fastest stream of records there is.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

from measure import ROOT, console, keep, scratch, table
from recorders import NATIVE

SECONDS = (5, 20)


def bench() -> None:
    """Measure and print."""
    rates = subprocess.run(
        [
            "cargo",
            "bench",
            "--quiet",
            "--locked",
            "-p",
            "iotrail-trail",
            "--bench",
            "seal",
            "--bench",
            "trail",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    console.print("[bold]Sealing, size and reading of one core[/] (median, least–most)")
    print(rates)
    memory = [recording(seconds) for seconds in SECONDS] if shutil.which("fio") else []
    if memory:
        shape = table(
            "Recording cached 4 KiB reads of fio as fast as they come",
            [
                "seconds",
                "operations",
                "operations/s",
                "recorder's memory",
                "segments",
                "trail",
                "bytes/op",
                "lost",
            ],
        )
        for run in memory:
            shape.add_row(
                f"{run['seconds']:.0f}",
                f"{run['operations']:,.0f}",
                f"{run['operations'] / run['seconds']:,.0f}",
                f"{run['recorder_bytes'] / 1e6:,.0f} MB",
                f"{run['segment_bytes'] / 1e6:,.0f} MB",
                f"{run['trail_bytes'] / 1e6:,.0f} MB",
                f"{run['trail_bytes'] / run['operations']:.2f}",
                f"{run['lost']:,.0f}",
            )
        console.print(shape)
    else:
        console.print("[dim]fio is not installed: memory of a long recording is left out[/]")
    keep("trail", rates=rates, memory=memory)


def recording(seconds: int) -> dict[str, float]:
    """Record fio for some seconds; the largest memory seen, and what came of it."""
    with scratch() as folder:
        data, trail = folder / "data", folder / "long.trail"
        data.write_bytes(bytes(64 << 20))
        command = [
            *("fio", "--name=read", "--ioengine=psync", "--rw=randread", "--bs=4k", f"--filename={data}"),
            *("--size=64m", "--invalidate=0", "--readonly", "--time_based", f"--runtime={seconds}"),
        ]
        process = subprocess.Popen(
            [str(NATIVE), "record", "-o", str(trail), "--", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        recorder = segments = 0
        while process.poll() is None:
            recorder = max(recorder, private_memory(process.pid))
            segments = max(segments, session_bytes(trail))
            time.sleep(0.1)
        if process.returncode != 0:
            raise SystemExit(f"bench: error: recording fio ended with status {process.returncode}")
        subprocess.run([str(NATIVE), "trail", "compact", str(trail)], check=True, stdout=subprocess.DEVNULL)
        newest = max((trail / "snapshots").glob("*.json"))
        tables = json.loads(newest.read_text())["tables"]
        files = tables["file_op"]["files"]
        return {
            "seconds": seconds,
            "operations": sum(file["rows"] for file in files),
            "recorder_bytes": recorder,
            "segment_bytes": segments,
            "trail_bytes": sum(file["bytes"] for file in files),
            "lost": lost(trail),
        }


def private_memory(pid: int) -> int:
    """Memory of a process that is its own: not mapped files, which segments are."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")), 0
    )


def session_bytes(trail: Path) -> int:
    """Memory that the segments of a running recording take on tmpfs."""
    try:
        folder = Path(json.loads((trail / "session.json").read_text())["session_dir"])
        return sum(path.stat().st_blocks * 512 for path in folder.parent.rglob("*") if path.is_file())
    except OSError:
        return 0


def lost(trail: Path) -> int:
    """Operations that were dropped and counted."""
    from iotrail.trail import Trail

    counted = Trail(trail).query("SELECT coalesce(sum(amount), 0) FROM unseen WHERE kind = 'dropped'")
    return int(counted.fetchall()[0][0])
