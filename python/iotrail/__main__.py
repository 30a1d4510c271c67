"""The `iotrail` command. Verbs of the native binary are exec()ed before anything heavy is imported."""

from __future__ import annotations

import io
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from typing_extensions import Buffer

    from iotrail.errors import IotrailError

# What a shell shows of a process that SIGPIPE ended: 128 and its number, see signal(7).
SIGPIPE_STATUS = 141


class _Stdout(io.FileIO):
    """Standard output of every verb.

    When its reader is gone (`| head`) the process ends quietly, as SIGPIPE would have ended it. The signal stays ignored,
    as Python sets it: pipes to children and a server's sockets break too, and whoever writes there handles it.
    """

    def write(self, data: Buffer, /) -> int | None:  # type: ignore[override]
        rest = memoryview(data).cast("B")
        length = len(rest)
        try:
            # a pipe whose reader goes takes a part first; without a buffer (python -u) nobody else writes the rest
            while rest and (written := super().write(rest)):
                rest = rest[written:]
        except OSError as error:
            from iotrail.errors import IotrailError

            # what is still in buffers goes nowhere: written again it would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):
                sys.exit(SIGPIPE_STATUS)
            raise IotrailError(f"cannot write to stdout: {error.strerror}") from None
        return (length - len(rest)) or (None if length else 0)


def _open_stdout(plain: io.TextIOWrapper) -> io.TextIOWrapper:
    """Standard output, buffered as Python buffers it."""
    raw = _Stdout(1, "w", closefd=False)
    return io.TextIOWrapper(
        # python -u has no buffer
        raw if isinstance(plain.buffer, io.RawIOBase) else io.BufferedWriter(raw),
        encoding=plain.encoding,
        errors=plain.errors,
        newline="\n",
        line_buffering=plain.line_buffering,
        write_through=plain.write_through,
    )


def main() -> None:
    """Run the command line and end the process."""
    arguments = sys.argv[1:]
    if isinstance(sys.stdout, io.TextIOWrapper):  # None where it is closed
        sys.stdout = _open_stdout(sys.stdout)
    from iotrail import native

    # files that are kept until the process ends are removed then; a process that SIGTERM ends would leave them
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        try:
            if arguments and arguments[0] in native.VERBS:
                native.run(arguments)
            from iotrail import cli

            cli.app(prog_name="iotrail")
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except native.IotrailError as error:
        _fail(error)
    except MemoryError:
        _fail(native.IotrailError("out of memory", "ask for less: a time span, fewer groups, --limit"))
    except OSError as error:
        if error.filename is None:
            raise
        # a file the user named, and no verb looked why it can't be had: a name too long, no permission
        from iotrail.visible import visible

        print(visible(f"iotrail: error: {os.fsdecode(error.filename)}: {error.strerror}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # DuckDB's own words for Ctrl-C
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            sys.exit(130)
        # DuckDB reads files while rows are fetched too, where no `Trail.errors` may be around
        duckdb = sys.modules.get("duckdb")
        if duckdb is None or not isinstance(error, duckdb.Error):
            raise
        from iotrail.trail import query_error

        _fail(query_error(error))


def _fail(error: IotrailError) -> NoReturn:
    """End the process with an error that is told."""
    hint = "".join(f"\n  hint: {line}" for line in (error.hint or "").splitlines())
    from iotrail.visible import visible

    print(visible(f"iotrail: error: {error.message}{hint}"), file=sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
