"""The `iotrail` command. Verbs of the native binary are exec()ed before anything heavy is imported."""

import os
import sys


def main() -> None:
    """Run the command line and end the process."""
    arguments = sys.argv[1:]
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
    except BrokenPipeError:
        # who read our output is gone; keep the interpreter from flushing into the pipe once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
