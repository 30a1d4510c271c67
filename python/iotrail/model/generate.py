"""`iotrail generate`: requests drawn from a model, as a trail."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrail.importers.base import (
    DISCARD,
    FLUSH,
    READ,
    RELATIVE_START,
    WRITE,
    Actor,
    BlockRows,
    Job,
    Options,
    Output,
    Skipped,
)
from iotrail.model.fit import draw, load

# What `draw` calls them.
_OPS = np.array([READ, WRITE, FLUSH, DISCARD], np.int64)


def generate(model: Path, output: Path, *, seed: int, intensity: float, force: bool) -> int:
    """Write a trail of a model's requests, as an imported block trace is one; returns how many there are.

    Nobody did them, so that their response times are unknown.

    Raises:
        ModelError: the model can't be read.
        TraceError: the trail can't be written.
    """
    found = load(model)
    with Output(output, force) as out:
        job = Job(
            "model", [], out, Options(), Skipped(strict=True), folder=Path(output.stem), unit="requests"
        )
        job.relative("ns", "a model has no date")
        job.facts |= {"dur": "unknown: nobody did these requests", "seed": seed, "intensity": intensity}
        rows = BlockRows(job)
        files = np.array([rows.file(f"/dev/{number}") for number in range(len(found["devices"]))], np.int64)
        actor = Actor.of(job, 0, "model")
        with draw(model, seed=seed, intensity=intensity) as batches:
            for batch in batches:
                columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
                _add(rows, columns, files, actor)
                job.read += len(batch)
        rows.finish([actor])
        job.finish()
    return job.read


def _add(rows: BlockRows, columns: dict[str, Any], files: npt.NDArray[np.int64], actor: Actor) -> None:
    rows.add(
        ts=RELATIVE_START + columns["ts"],
        op=_OPS[columns["op"]],
        pos=columns["pos"],
        length=columns["length"],
        file=files[columns["device"]],
        who=np.zeros(len(columns["ts"]), np.int64),
        thread={0: actor.thread},
    )
