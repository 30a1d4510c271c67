"""The one tree of errors. Each says what failed and where, and may hold a hint on what to do next.

The command line prints an error as `iotrail: error: MESSAGE` and `  hint: HINT` and ends with
`exit_code`; a library user catches `IotrailError`.
"""


class IotrailError(Exception):
    """Anything iotrail refuses or fails to do."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(IotrailError):
    """The command line doesn't make sense."""

    exit_code = 2


class NativeError(IotrailError):
    """The binary `iotrail-native` is missing or doesn't fit this package."""


class TrailError(IotrailError):
    """A trail can't be opened: not there, not a trail, of a newer version."""


class PrunedError(TrailError):
    """A question needs records that were pruned."""


class DamagedTrailError(TrailError):
    """A trail was opened, but part of it is missing or can't be read."""


class ModuleError(IotrailError):
    """An SQL module's file is not as `sql/README.md` says."""


class UnknownNameError(IotrailError):
    """A module, table, column or parameter that doesn't exist."""


class ParameterError(IotrailError):
    """A parameter's value is not of its type."""


class QueryError(IotrailError):
    """DuckDB refused or failed a query. The message ends with the line and a caret where it knows the place."""


class QueryInterrupted(QueryError):
    """A query was stopped by Ctrl-C."""

    exit_code = 130


class BusyError(QueryError):
    """Somebody asks more at once than is answered."""


class TraceError(IotrailError):
    """Another tool's trace can't be imported: not there, not of its format, refused by `--strict`."""


class SweepError(IotrailError):
    """A sweep can't go on."""


class ServeError(IotrailError):
    """`iotrail serve` can't serve: no page, no port, no collector."""


class DeviceError(IotrailError):
    """A device file can't be used, or a device can't be measured."""


class FitError(IotrailError):
    """Requests don't determine a device's parameters."""


class ModelError(IotrailError):
    """A workload model can't be read, fitted or drawn from."""
