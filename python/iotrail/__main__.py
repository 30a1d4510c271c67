"""The `iotrail` command. Verbs of the native binary are exec()ed before anything heavy is imported."""

import os
import select
import stat
import sys


def _is_pipe() -> bool:
    """Whether standard output is a pipe."""
    try:
        return stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return False


def _is_reader_gone() -> bool:
    """Whether standard output, which was a pipe, has nobody who reads it any more (`| head`)."""
    if not _is_pipe():
        return True  # rich found out, and put /dev/null there
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def main() -> None:
    """Run the command line and end the process."""
    arguments = sys.argv[1:]
    to_pipe = _is_pipe()
    from iotrail import native

    try:
        if arguments and arguments[0] in native.VERBS:
            native.run(arguments)
        from iotrail import cli

        cli.app(prog_name="iotrail")
    except native.IotrailError as error:
        hint = "".join(f"\n  hint: {line}" for line in (error.hint or "").splitlines())
        print(f"iotrail: error: {error.message}{hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except (BrokenPipeError, SystemExit) as end:
        # typer and rich turn a broken pipe into status 1
        if isinstance(end, SystemExit) and not (end.code == 1 and to_pipe and _is_reader_gone()):
            raise
        # keep the interpreter from flushing into the pipe once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)


if __name__ == "__main__":
    main()
