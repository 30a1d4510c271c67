"""Run `iotrail-native simulate`, or another of its verbs, on rows: a pipe of Arrow batches in, one JSON document or a table out."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from io import IOBase
from typing import IO, Any, cast

import pyarrow as pa

from iotrail import native
from iotrail.errors import IotrailError
from iotrail.trail import Trail

_BATCH = 1 << 17


class SimulationError(IotrailError):
    """The simulator could not answer."""


def simulate(trail: Trail, query: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What `iotrail-native simulate` with these arguments says of the rows of a query.

    Raises:
        SimulationError: with the simulator's own message.
        TrailError: the query fails.
    """
    return ask(trail, query, ["simulate", *arguments])


def ask(trail: Trail, query: str, words: Sequence[str]) -> dict[str, Any]:
    """What `iotrail-native` with these words says of the rows of a query.

    Raises:
        SimulationError: with its own message.
        TrailError: the query fails.
    """
    relation = trail.query(query)
    with trail.errors(query):
        return ask_of(relation.to_arrow_reader(_BATCH), words)


def ask_of(rows: pa.RecordBatchReader, words: Sequence[str]) -> dict[str, Any]:
    """What `iotrail-native` with these words says of rows.

    Raises:
        SimulationError: with its own message.
    """
    with tempfile.TemporaryFile() as answer:
        _run(rows, words, answer)
        answer.seek(0)
        found: dict[str, Any] = json.load(answer)
        return found


def simulate_rows(rows: pa.Table, arguments: Sequence[str]) -> pa.Table:
    """The table that `iotrail-native simulate` with these arguments makes of a table, one row for each.

    Raises:
        SimulationError: with the simulator's own message.
    """
    with tempfile.TemporaryFile() as answer:
        _run(rows.to_reader(_BATCH), ["simulate", *arguments], answer)
        answer.seek(0)
        return pa.ipc.open_stream(cast("IOBase", answer)).read_all()


def _run(reader: pa.RecordBatchReader, words: Sequence[str], answer: IO[bytes]) -> None:
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [str(native.binary()), *words],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=errors,
        )
        assert child.stdin is not None
        try:
            # one that ended early says why
            with (
                contextlib.suppress(BrokenPipeError),
                pa.ipc.new_stream(cast("IOBase", child.stdin), reader.schema) as stream,
            ):
                for batch in reader:
                    stream.write_batch(batch)
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            status = child.wait()
        finally:
            child.kill()
            child.wait()
        if status != 0:
            message, hint = native.said(errors)
            raise SimulationError(message or f"the simulator ended with status {status}", hint)
