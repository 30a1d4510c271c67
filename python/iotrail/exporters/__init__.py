"""`iotrail export`: a trail in the format of another tool. One file a format; rows stream from DuckDB to the file."""

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from iotrail.errors import IotrailError, UsageError
from iotrail.trail import Trail

# Format -> its module, the suffix of what it writes, what it is.
FORMATS = {
    "perfetto": ("perfetto", ".perfetto-trace", "a trace for ui.perfetto.dev and trace_processor"),
    "fio": (
        "fio",
        ".fio",
        "a folder with a job file, iologs (version 3) and files for fio to replay them on",
    ),
    "csv": ("table", ".csv", "one line a call, names joined"),
    "parquet": ("table", ".parquet", "one row a call, names joined"),
    "oracle-general": ("oracle_general", ".oracleGeneral", "requests for libCacheSim"),
}


class ExportError(IotrailError):
    """A trail can't be written in a format."""


def export(
    trail: Trail, format: str, output: Path | None = None, *, page: int = 4096, force: bool = False
) -> Path:
    """Write a trail to `output`, by default beside where one works under the trail's name; returns where it is."""
    if format not in FORMATS:
        raise UsageError(f"no format {format!r}", "there are " + ", ".join(FORMATS))
    module, suffix, _ = FORMATS[format]
    path = output or Path(trail.path.resolve().name).with_suffix(suffix)
    if path.exists() and not force:
        raise UsageError(f"{path}: exists already", "--force replaces it, -o names another place")
    if os.path.realpath(path) == os.path.realpath(trail.path):
        raise UsageError(f"{path}: is the trail itself", "-o names another place")
    if force and path.is_dir() and not (path / "README").is_file():
        raise UsageError(f"{path}: is a folder that no export wrote", "-o names another place")
    # DuckDB would draw it over stdout after two seconds.
    trail.connection.execute("SET enable_progress_bar = false")
    write: Callable[..., None] = import_module(f"iotrail.exporters.{module}").write
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            write(trail, temporary, format=format, page=page, final=path)
            if path.is_dir():
                shutil.rmtree(path)
            temporary.replace(path)
        except BaseException:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        hint = (
            "-o names another place"
            if error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT)
            else None
        )
        raise ExportError(f"{path}: can't be written: {os.strerror(error.errno or 0)}", hint) from error
    return path
