"""Fit a model to the requests of a trail, draw requests from one, and choose how fine its states are.

A model is what `iotrail-native model fit` says (crates/model/src/model.rs has its fields): a dictionary here.
"""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from iotrail import native
from iotrail.errors import ModelError
from iotrail.model.source import OF_DISKS, Source
from iotrail.trail import Trail
from iotrail.whatif.simulator import SimulationError, ask, ask_of

Model = dict[str, Any]

# Levels that `auto` tries, and by how little saturated throughput changes where they are enough (Delimitrou et al., section 4.3).
LEVELS = range(1, 7)
ENOUGH = 0.02
# Bytes that a file should have at most: what people still read and mail.
MOST_BYTES = 65_536
_BATCH = 1 << 17
# Requests that a device is saturated with.
_SATURATING = 50_000


@dataclass(frozen=True)
class Level:
    """Bytes of the model and requests per second of a saturated device at a number of levels."""

    levels: int
    bytes: int
    iops: float


def fit(trail: Trail, levels: int, *, source: Source = OF_DISKS, min_count: int = 5) -> Model:
    """A model of the requests of disks in a trail, or of those of files.

    Raises:
        TrailError: there are none with a known time and place, or all have one time.
    """
    return _with_load(_fit(trail, levels, source, min_count), trail, source)


def _fit(trail: Trail, levels: int, source: Source, min_count: int) -> Model:
    words = ["model", "fit", "--levels", str(levels), "--min-count", str(min_count)]
    return {**ask(trail, source.query(trail), words), "of": source.of}


def _with_load(model: Model, trail: Trail, source: Source) -> Model:
    load = source.load(trail)
    return model if load is None else {**model, "load": load}


def fit_requests(requests: pa.Table, levels: int, reaches: Sequence[int], *, min_count: int = 5) -> Model:
    """A model of requests with the columns of `draw`, in the order of their times. Devices are numbers; `reaches` are the ends of
    the addresses of each, in bytes, which requests may go beyond.

    Raises:
        SimulationError: there are none, or a device has no reach.
    """
    columns = {name: requests[name] for name in ("device", "op", "pos", "length")}
    rows = pa.table({"ts": requests["ts"], "dur": pa.nulls(len(requests), pa.int64()), **columns})
    words = ["model", "fit", "--levels", str(levels), "--min-count", str(min_count)]
    return ask_of(rows.to_reader(_BATCH), [*words, "--reaches", ",".join(map(str, reaches))])


def fit_auto(
    trail: Trail, on: str, *, source: Source = OF_DISKS, min_count: int = 5
) -> tuple[Model, list[Level]]:
    """A model with as few levels as are enough, and what was tried.

    Each level's model saturates a simulated device: with few requests at a time places don't matter. The first level at which
    that changes throughput by less than ENOUGH is taken, or the last one whose file has no more than MOST_BYTES.
    """
    series: list[Level] = []
    model: Model = {}
    for levels in LEVELS:
        finer = _fit(trail, levels, source, min_count)
        series.append(Level(levels, len(text_of(finer)), saturated(finer, on)))
        if model and series[-1].bytes > MOST_BYTES:
            break
        model = finer
        if len(series) > 1 and abs(series[-1].iops / series[-2].iops - 1) < ENOUGH:
            break
    return _with_load(model, trail, source), series


def saturated(model: Model, on: str) -> float:
    """Requests per second of a device that always has all of a model's requests waiting."""
    with written(model) as path, draw(path, seed=1) as batches:
        batch = next(batches)[:_SATURATING]
    columns = {name: batch.column(name) for name in batch.schema.names}
    zeros = pa.array(np.zeros(len(batch), np.int64))
    table = pa.table(
        {
            "ts": zeros,
            "dur": pa.nulls(len(batch), pa.int64()),
            **{name: columns[name] for name in ("device", "op", "pos", "length")},
            "flags": zeros,
        }
    )
    found = ask_of(table.to_reader(), ["simulate", "device", "--on", on, "--fold"])
    elapsed: int = found["simulated"][0]["arrivals_recorded"]["elapsed_ns"]
    return len(batch) / elapsed * 1e9


def text_of(model: Model) -> str:
    """A model as its file: a line for each table, so that versions of it can be compared."""
    lines = (f'"{name}":{json.dumps(value, separators=(",", ":"))}' for name, value in model.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(path: Path) -> Model:
    """A model file, checked.

    Raises:
        ModelError: it isn't there, or no model: what, where, expected, found.
    """
    done = subprocess.run(
        [native.binary(), "model", "read", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        message, _, hint = done.stderr.removeprefix("iotrail: error: ").partition("\n  hint: ")
        raise ModelError(message.strip(), hint.strip() or None)
    found: Model = json.loads(done.stdout)
    return found


@contextmanager
def written(model: Model) -> Iterator[Path]:
    """A temporary file with a model."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text_of(model))
        file.flush()
        yield Path(file.name)


def _to_the_end(child: subprocess.Popen[bytes]) -> Iterator[pa.RecordBatch]:
    # a stream that is cut between two batches looks as if it had ended
    yield from pa.ipc.open_stream(cast("Any", child.stdout))
    if child.wait() != 0:
        raise pa.ArrowInvalid(f"it ended with status {child.returncode}")


def _ended(child: subprocess.Popen[bytes], errors: BinaryIO, why: str) -> BaseException:
    if child.wait() == -signal.SIGINT:
        # of the whole group: this process may have lost its own while it read
        return KeyboardInterrupt()
    message, hint = native.said(errors)
    return ModelError(message or f"not all requests could be drawn: {why}", hint)


@contextmanager
def draw(path: Path, *, seed: int, intensity: float = 1.0) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches of requests drawn from a model file: `ts` (ns from 0), `device`, `op` (0 read, 1 write, 2 flush, 3 discard),
    `pos` and `length` (bytes).

    Raises:
        ModelError: with the native binary's own message, also where it ended before all requests were drawn.
    """
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [
                native.binary(),
                "model",
                "draw",
                str(path),
                "--seed",
                str(seed),
                "--intensity",
                repr(intensity),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert child.stdout is not None
        try:
            try:
                yield _to_the_end(child)
            except pa.ArrowInvalid as error:
                raise _ended(child, errors, str(error)) from error
        finally:
            # whoever has seen enough of them needs no more
            child.stdout.close()
            child.terminate()
            child.wait()


__all__ = [
    "ENOUGH",
    "LEVELS",
    "MOST_BYTES",
    "Level",
    "Model",
    "SimulationError",
    "draw",
    "fit",
    "fit_auto",
    "fit_requests",
    "load",
    "saturated",
    "text_of",
]
