"""`iotrail anonymize`: a trail that says what happened, but not to whom.

Every text that may name something (paths, programs, machines, clients, command lines, disks, metrics' names) is
replaced by a keyed hash, so that equal ones stay equal; only the words iotrail itself writes are kept. Ids are hashes of
such names, which could be guessed by hashing names: they are replaced too. The key is random unless it is given, and is
not kept: two trails made with one key can be compared with each other.

Numbers stay: sizes, offsets, pids, results; times too, unless they are shifted to begin in 2000. A path keeps its structure: each part of it is hashed by itself, so that files of one directory stay together.
The new trail is written by `iotrail-native ingest` from rows that DuckDB makes: no file of the old one is copied.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

from iotrail import native
from iotrail.errors import TrailError, UsageError
from iotrail.trail import Trail, quoted

# Texts that iotrail writes itself: they name no program, file or machine. All others are hashed.
KEPT = {
    *((table, name) for table in ("file_op", "sync_op") for name in ("call", "kind")),
    *(("service_op", name) for name in ("kind",)),
    *(("stitch", name) for name in ("kind", "how")),
    ("buffer_op", "kind"),
    *(("disk_op", name) for name in ("kind", "op")),
    *(("cpu_slice", name) for name in ("kind", "state")),
    ("wake", "context"),
    ("thread_time", "source"),
    *(("signal", name) for name in ("kind", "how")),
    *(("wait", name) for name in ("kind", "how", "style")),
    ("node_sample", "metric"),
    *(("process", name) for name in ("ended",)),
    ("clock", "event"),
    ("unseen", "kind"),
    ("pruned", "record"),
    ("pruned", "kept"),
    ("measurement", "purpose"),
    ("measured", "state"),
    *(("step_rollup", name) for name in ("from_record", "to_record", "kind")),
}
# Left out: sentences, command lines and folders, which are names through and through.
EMPTY = {
    ("unseen", "detail"),
    ("measurement", "detail"),
    ("member", "detail"),
    ("process", "cmd"),
    ("process", "cwd"),
}
# Facts of table recording that hold numbers or words of iotrail's own.
FACTS = (
    "format", "lines", "records", "events", "skipped", "version", "time_base", "time_unit", "completions",
    "completions_with_start", "unfinished", "merged", "backwards", "zero_length", "calls_without_rows", "signals",
    "events_without_rows", "summed_calls", "check_longer_ns", "check_took_ns", "check_took_longer_ns", "check_predicted_ns",
    "settings", "seed", "better",
)  # fmt: skip
# Columns of ids that are hashes of names, or were handed out by a system.
IDS = {
    "thread", "waker", "process", "parent", "edge", "until_edge", "file", "file2", "device", "object", "crumb", "parent_crumb", "workload", "trace_hi",
    "trace_lo", "span", "setting",
}  # fmt: skip
PATHS = {("file", "path"), ("process", "exe")}
TIMES = {"ts", "start_ts", "end_ts", "wall", "issued", "pruned_ts"}
# Extensions that are kept with --keep-extensions are short words.
_EXTENSION = "\\.[A-Za-z][A-Za-z0-9]{0,7}$"


def anonymize(
    trail: Trail,
    output: Path,
    *,
    key: bytes | None = None,
    keep_extensions: bool = False,
    shift: bool = False,
    force: bool = False,
) -> None:
    """Write the trail without names to `output`; with `shift` its first moment is 2000-01-01T00:00:00Z."""
    if os.path.realpath(output) == os.path.realpath(trail.path):
        raise UsageError(f"{output}: is the trail itself", "-o names another place")
    if (output.exists() or output.is_symlink()) and not force:
        raise UsageError(f"{output}: exists already", "--force replaces it, -o names another place")
    if force and output.exists() and not (output / "snapshots").is_dir():
        raise UsageError(f"{output}: exists and is no trail", "-o names another place")
    unknown = sorted({t for t in trail.rows if trail.rows[t]} - _known())
    if unknown:
        raise TrailError(
            f"{trail.path}: table {unknown[0]} was declared by a program: what is a name in it isn't known",
            "iotrail anonymize takes trails of iotrail's own tables only",
        )
    secret = (key or secrets.token_bytes(32)).hex()
    moved = 0
    if shift:
        [[first]] = trail.query("SELECT COALESCE(start_ts, 0) FROM trail_span").fetchall()
        moved = 946_684_800 * 10**9 - int(first)
    partial = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    trail.connection.execute("SET enable_progress_bar = false")
    try:
        with tempfile.TemporaryDirectory(prefix="iotrail-") as folder:
            streams = [
                f"{name}={_rows(trail, name, Path(folder), secret, keep_extensions, moved)}"
                for name in trail.tables
                if trail.rows.get(name)
            ]
            if not streams:
                raise TrailError(f"{trail.path}: has no rows")
            _ingest(partial, streams)
        if output.exists():
            shutil.rmtree(output)
        partial.rename(output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _known() -> set[str]:
    from iotrail import schema

    return set(schema.load().tables)


def _rows(trail: Trail, name: str, folder: Path, secret: str, keep_extensions: bool, moved: int) -> Path:
    """A table's rows without names, as a stream of Arrow in a file of a private folder."""
    columns = []
    for column in trail.tables[name].columns:
        columns.append(
            f"{_anonymous(name, column.name, column.type, secret, keep_extensions, moved)} AS {quoted(column.name)}"
        )
    query = f"SELECT {', '.join(columns)} FROM {quoted(name)}"
    if name == "file_op":
        query += " ORDER BY thread, ts, trace_row"
    relation = trail.query(query)
    path = folder / f"{name}.arrow"
    with trail.errors(query), pa.OSFile(str(path), "wb") as sink:
        reader = relation.to_arrow_reader(1 << 17)
        with pa.ipc.new_stream(sink, reader.schema) as stream:
            for batch in reader:
                stream.write_batch(batch)
    return path


def _anonymous(table: str, name: str, type: str, secret: str, keep_extensions: bool, moved: int) -> str:
    """The SQL of a column without names."""
    column = quoted(name)

    def hashed(text: str) -> str:
        # 64 bits of it: names of a trail are few beside 2^32
        return f"substr(sha256('{secret}' || {text}), 1, 16)"

    if type == "VARCHAR":
        if (table, name) in KEPT:
            return column
        if (table, name) in EMPTY:
            return "CAST(NULL AS VARCHAR)"
        if table == "recording" and name == "value":
            facts = ", ".join(f"'{fact}'" for fact in FACTS)
            return f"CASE WHEN name IN ({facts}) THEN value WHEN value IS NOT NULL THEN {hashed('value')} END"
        if table == "recording" and name == "name":
            # words of iotrail's own, perhaps with a number
            return (
                f"CASE WHEN regexp_full_match(name, '[a-z_]+(:[0-9]+)?') THEN name ELSE {hashed('name')} END"
            )
        if (table, name) in PATHS:
            ending = f"regexp_extract({column}, '{_EXTENSION}')" if keep_extensions else "''"
            parts = f"list_transform(string_split({column}, '/'), lambda part: CASE WHEN part = '' THEN '' ELSE {hashed('part')} END)"
            return f"array_to_string({parts}, '/') || {ending}"
        return f"CASE WHEN {column} = '' THEN '' ELSE {hashed(column)} END"
    if name in IDS:
        number = f"CAST('0x' || substr(sha256('{secret} id ' || {column}), 1, 15) AS BIGINT)"
        return f"CASE WHEN {column} = 0 THEN 0 WHEN {column} IS NOT NULL THEN {number} + 1 END"
    if name in TIMES and moved:
        return f"{column} + {moved}"
    return column


def _ingest(output: Path, streams: list[str]) -> None:
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            [native.binary(), "ingest", "-o", output, *streams],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            check=False,
        )
        if done.returncode != 0:
            message, hint = native.said(errors)
            with contextlib.suppress(OSError):
                shutil.rmtree(output)
            raise TrailError(f"{output}: can't be written: {message}", hint)
