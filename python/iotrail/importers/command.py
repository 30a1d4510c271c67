"""`iotrail import`: which format files have, and the trail they make."""

import itertools
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from iotrail.errors import TraceError, UsageError
from iotrail.importers import (
    biosnoop,
    blkparse,
    blktrace,
    csv,
    darshan,
    dftracer,
    fio,
    fio_log,
    oracle_general,
    perf_script,
    recorder,
    srt,
    strace,
    vscsi,
)
from iotrail.importers.base import Job, Options, Output, Skipped
from iotrail.importers.source import Source, opened, without_compression
from iotrail.terminal import Console
from iotrail.trail import Trail
from iotrail.units import counted, size

_HOUR = 3600 * 10**9


@dataclass(frozen=True)
class Format:
    """A format that can be imported."""

    name: str
    # One line for --list.
    meaning: str
    read: Callable[[Job], None]
    # Whether a file that begins with these bytes may be one.
    looks_like: Callable[[bytes], bool]


def _formats() -> Iterable[Format]:
    yield Format("strace", "strace -f -t|-tt|-ttt -T -y, in any combination", strace.read, strace.looks_like)
    yield Format("blkparse", "blkparse's text, in its default format", blkparse.read, blkparse.looks_like)
    yield Format(
        "blktrace",
        "blktrace's per-CPU binaries: their folder or any of them",
        blktrace.read,
        blktrace.looks_like,
    )
    yield Format("fio", "fio's iologs, versions 2 and 3 (write_iolog)", fio.read, fio.looks_like)
    yield Format(
        "fio-log",
        "fio's latency logs (write_lat_log): NAME_lat.N.log, NAME_clat.N.log",
        fio_log.read,
        fio_log.looks_like,
    )
    yield Format("biosnoop", "biosnoop's text, of BCC and libbpf-tools", biosnoop.read, biosnoop.looks_like)
    yield Format(
        "perf-script",
        "perf script's text of block events (perf record -e 'block:*')",
        perf_script.read,
        perf_script.looks_like,
    )
    yield Format("dftracer", "DFTracer's events (.pfw, JSON lines)", dftracer.read, dftracer.looks_like)
    yield Format(
        "darshan",
        "Darshan's logs, with DXT or counters only (needs iotrail[darshan])",
        darshan.read,
        darshan.looks_like,
    )
    yield Format(
        "recorder",
        "Recorder's traces, versions 2.3 to 3.0: their folder",
        recorder.read,
        recorder.looks_like,
    )
    yield Format("srt", "HP's SRT 1.x disk traces, binary (1992)", srt.read, srt.looks_like)
    yield Format("vscsi", "VMware's vscsi traces, binary, versions 1 and 2", vscsi.read, vscsi.looks_like)
    yield Format(
        "oracle-general",
        "libCacheSim's oracleGeneral, binary",
        oracle_general.read,
        oracle_general.looks_like,
    )
    for name, (_, meaning) in csv.PRESETS.items():
        yield Format(name, meaning, csv.reader(name), csv.preset_looks_like(name))
    yield Format(
        "csv",
        "any CSV of requests: --map says which column is what, or its header",
        csv.reader(None),
        csv.looks_like,
    )


FORMATS = {format.name: format for format in _formats()}


def guess(head: bytes) -> list[str]:
    """Formats that a file with this beginning may be."""
    return [name for name, format in FORMATS.items() if format.looks_like(head)]


def run(
    words: list[Path], output: Path | None, *, force: bool, options: Options, console: Console | None = None
) -> Path:
    """Import files; the first word may name their format. Returns the trail."""
    console = console or Console(stderr=True, soft_wrap=True)
    name = str(words[0])
    # A file may be called like a format; then it is the file only if nothing else is.
    if name in FORMATS and (len(words) > 1 or not words[0].exists()):
        words = words[1:]
        if not words:
            raise UsageError(f"which file? expected: iotrail import {name} FILE…")
    else:
        name = ""
    if len(words) > 1 and not name and not words[0].exists():
        raise UsageError(
            f"there is no format {str(words[0])!r}, nor such a file", f"formats: {', '.join(FORMATS)}"
        )
    with opened(_files(words)) as sources:
        head = sources[0].head()
        for source in sources:
            # a CPU that saw nothing, or a rank, has an empty file
            if (
                not source.size
                and not source.begin
                and (name or _guessed(head)) not in ("blktrace", "recorder")
            ):
                raise TraceError(f"{source.path}: is empty: nothing to import")
        name = name or _guess_or_fail(sources[0], head, options, console)
        path = output or Path(_stem(sources[0]) + ".trail")
        began = time.monotonic()
        skipped = Skipped(options.strict)
        total = sum(source.size for source in sources)
        with _progress(console, total) as advance, Output(path, force) as out:
            for source in sources:
                source.progress = advance
            job = Job(name, sources, out, options, skipped)
            FORMATS[name].read(job)
            if not out.rows.get("file_op") and not out.rows.get("sync_op"):
                raise _nothing(job, head)
            job.finish()
    _closing(console, job, path, time.monotonic() - began)
    return path


def _files(words: list[Path]) -> list[Path]:
    """The files meant: a folder stands for those of its trace."""
    return blktrace.files([file for path in words for file in recorder.files(path) or [path]])


def _guessed(head: bytes) -> str:
    return next(iter(guess(head)), "")


def _stem(source: Source) -> str:
    """The name without what says compression and kind: an archive's own, not that of a file in it."""
    if folder := recorder.folder_of(source.path):
        return folder.resolve().name
    name = without_compression(source.path.parent.name) if source.place else source.name
    if ".blktrace." in name:
        return name.partition(".blktrace.")[0]
    return Path(name).stem or name


def _guess_or_fail(source: Source, head: bytes, options: Options, console: Console) -> str:
    if options.map:
        return "csv"
    candidates = guess(head)
    if not candidates:
        source_text = head[:60].partition(b"\n")[0].decode("utf-8", "replace")
        raise TraceError(
            f"{source.path}: its format isn't known; it begins with {source_text!r}",
            "iotrail import --list shows the formats; any table of requests can be imported by\n"
            "iotrail import csv FILE --map ts=1,unit=ms,pos=3,length=4,op=5,read=R,write=W",
        )
    if len(candidates) > 1:
        raise UsageError(
            f"{source.path}: may be {' or '.join(candidates)}",
            "\n".join(f"iotrail import {name} {source.path}" for name in candidates),
        )
    console.print(f"iotrail: {source.path}: looks like {candidates[0]}")
    return candidates[0]


def _nothing(job: Job, head: bytes) -> TraceError:
    """No record could be read: the wrong format, most likely."""
    source = job.sources[0]
    others = [name for name in guess(head) if name != job.format]
    shown = "".join(f"\n  {line}" for line in job.skipped.first)
    what = f"none of its {job.read:,} {job.unit}" if job.read else f"none of its {source.size:,} bytes"
    if others:
        hint = f"it looks like {' or '.join(others)}: iotrail import {others[0]} {source.path}"
    else:
        hint = "iotrail import --list shows the formats"
    return TraceError(f"{source.path}: {what} is an operation of format {job.format}{shown}", hint)


class _progress:
    """A bar on a terminal, nothing elsewhere. Its value takes the bytes read since it was last called."""

    def __init__(self, console: Console, total: int) -> None:
        self.bar = (
            Progress(
                TextColumn("iotrail: reading"),
                BarColumn(),
                DownloadColumn(binary_units=True),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            if console.is_terminal
            else None
        )
        self.total = total

    def __enter__(self) -> Callable[[int], None]:
        if self.bar is None:
            return lambda _: None
        self.bar.start()
        bar, task = self.bar, self.bar.add_task("", total=self.total)
        return lambda count: bar.advance(task, count)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _closing(console: Console, job: Job, path: Path, took: float) -> None:
    """What was read and what came of it."""
    rows = job.output.rows
    waits = f" and {rows['sync_op']:,} waits" if rows.get("sync_op") else ""
    lines = [
        f"iotrail: {counted(job.read, job.unit.removesuffix('s'))} of {job.format} read in {took:.1f} s: {counted(rows.get('file_op', 0), 'operation')}"
        f"{waits} of {counted(rows.get('process', 0), 'process', 'processes')} on {counted(rows.get('file', 0), 'file')}",
        *(f"iotrail: {note}" for note in job.notes),
    ]
    skipped = job.skipped
    if skipped.count:
        lines.append(
            f"iotrail: warning: {counted(skipped.count, job.unit.removesuffix('s'))} left out; --strict refuses them. The first:"
        )
        lines += [f"  {line}" for line in skipped.first]
    lines += _gap(path)
    on_disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    lines.append(f"iotrail: {path}, {size(on_disk)}; next: iotrail report {path}")
    for line in lines:
        console.print(line)


def _gap(path: Path) -> list[str]:
    """A warning where most of the trail's time is empty: a clock was set, files come from several, a time is garbage."""
    found = Trail(path).rows_of(
        f"SELECT ts // {_HOUR} AS hour, COUNT(*) AS n FROM file_op GROUP BY hour ORDER BY hour"
    )
    hours = [row["hour"] for row in found]
    widths = [after - before for before, after in itertools.pairwise(hours)]
    widest = max(widths, default=0)
    if widest <= 24 or widest < 9 * (hours[-1] - hours[0] - widest):
        return []
    at = widths.index(widest)
    before, after = sum(row["n"] for row in found[: at + 1]), sum(row["n"] for row in found[at + 1 :])
    since = datetime.fromtimestamp(hours[at] * 3600, UTC)
    return [
        f"iotrail: warning: {widest / 24:,.1f} days from {since:%Y-%m-%d} on hold no operation; {before:,} lie before, "
        f"{after:,} after: times may be garbage, or of clocks that are apart"
    ]


def show_list() -> None:
    """Print the formats."""
    width = max(map(len, FORMATS))
    for name, format in FORMATS.items():
        print(f"{name:{width}}  {format.meaning}")
    sys.stdout.flush()
