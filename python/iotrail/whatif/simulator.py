"""Run `iotrail-native simulate` on the rows of a query: a pipe of Arrow batches in, one JSON document out."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from io import IOBase
from typing import Any, cast

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
    relation = trail.query(query)
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as answer:
        child = subprocess.Popen(
            [str(native.binary()), "simulate", *arguments],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=errors,
        )
        assert child.stdin is not None
        try:
            # one that ended early says why
            with contextlib.suppress(BrokenPipeError), trail.errors(query):
                reader = relation.to_arrow_reader(_BATCH)
                with pa.ipc.new_stream(cast("IOBase", child.stdin), reader.schema) as stream:
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
        answer.seek(0)
        found: dict[str, Any] = json.load(answer)
        return found
