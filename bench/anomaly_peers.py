"""Peers of `iotrail anomalies`, in a virtual environment of their own with what requirements/bench-anomaly.txt pins; how each is asked
is in under_anomaly_peers.py."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.anomaly.planted import Samples

from iotrail.anomaly.space import Box, Space
from measure import ROOT, console

UNDER = Path(__file__).with_name("under_anomaly_peers.py")


@dataclass(frozen=True)
class Peer:
    """What it is called here, its method in under_anomaly_peers.py with its parameters, and on how many seeds of a case it is run: one that
    takes minutes for all of them is run on fewer."""

    name: str
    method: str
    parameters: tuple[float | str, ...]
    seeds: int = sys.maxsize


PEERS = (
    Peer("pysubgroup, 3 samples", "pysubgroup", (0.5, 20, 3)),
    Peer("pysubgroup, 10 samples", "pysubgroup", (0.5, 20, 10)),
    Peer("SliceLine", "SliceLine", (0.95, 4, 10), seeds=2),
    Peer("PRIM", "PRIM", (0.1, 10, "lenient1")),
)


@dataclass(frozen=True)
class Job:
    """Samples, and how many of their case come before."""

    samples: Samples
    number: int


@dataclass(frozen=True)
class Answer:
    """The boxes that a peer found in a job's samples, and seconds of CPU."""

    boxes: list[Box]
    seconds: float


def install(folder: Path) -> Path | None:
    """The Python of an environment with the peers; None if they can't be installed."""
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    pinned = ROOT / "requirements" / "bench-anomaly.txt"
    options = ["-q", "--require-hashes", "--only-binary", ":all:", "-r", str(pinned)]
    if subprocess.run([str(python), "-m", "pip", "install", *options]).returncode != 0:
        console.print("pysubgroup, SliceLine and PRIM are left out: they can't be installed")
        return None
    return python


def ask(python: Path, space: Space, jobs: Sequence[Job], folder: Path) -> dict[str, dict[int, Answer]]:
    """What each peer finds, by the job's number."""
    samples = folder / "samples.npz"
    arrays = {f"codes_{at}": job.samples.codes for at, job in enumerate(jobs)}
    arrays |= {f"losses_{at}": job.samples.losses for at, job in enumerate(jobs)}
    np.savez(samples, **arrays)  # type: ignore[arg-type]
    dimensions = [[one.name, len(one.values), one.is_ordered] for one in space.dimensions]
    work = [
        [peer.name, peer.method, peer.parameters, at]
        for peer in PEERS
        for at, job in enumerate(jobs)
        if job.number < peer.seeds
    ]
    done = subprocess.run(
        [str(python), str(UNDER), str(samples), str(len(os.sched_getaffinity(0)))],
        input=json.dumps({"space": dimensions, "work": work}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, dict[int, Answer]] = {peer.name: {} for peer in PEERS}
    for name, at, boxes, seconds in map(json.loads, done.stdout.splitlines()):
        found[name][at] = Answer([_box(space, box) for box in boxes], seconds)
    return found


def _box(space: Space, among: Sequence[Sequence[int]]) -> Box:
    """A box from the codes that each dimension has in it."""
    sets = []
    for dimension, codes in zip(space.dimensions, among, strict=True):
        members = np.isin(np.arange(len(dimension.values)), codes)
        sets.append(int(np.flatnonzero((dimension.sets == members).all(axis=1))[0]))
    return tuple(sets)
