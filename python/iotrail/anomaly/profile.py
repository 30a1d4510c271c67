"""What a program's reads are like (table 3 of Shen, Zhong and Li, FAST 2005), and which clusters of a sweep they fall into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from iotrail.anomaly.answer import Found
from iotrail.anomaly.describe import bound_text, value_text
from iotrail.anomaly.space import Box, Dimension, Space, Value
from iotrail.errors import SweepError
from iotrail.trail import Trail
from iotrail.units import duration, human, size


@dataclass(frozen=True)
class Profile:
    """The reads of a trail's programs. `concurrency` is the number of threads that read, `lengths` the streams by their length,
    to the next power of two in bytes; None is unknown."""

    streams: int
    concurrency: int
    stream_bytes: float
    runs_per_stream: float
    think_ns_per_mib: float | None
    whole_share: float
    lengths: Mapping[int, int]

    def values(self) -> dict[str, Value]:
        """Values of the dimensions that a sweep may have; those that aren't known are left out."""
        values: dict[str, Value] = {
            "concurrency": self.concurrency,
            "stream": self.stream_bytes,
            "run": self.stream_bytes / self.runs_per_stream,
            "whole_file": "yes" if self.whole_share > 0.5 else "no",
        }
        return values if self.think_ns_per_mib is None else {**values, "think": self.think_ns_per_mib}

    def lines(self) -> list[str]:
        """It for a terminal."""
        think = "unknown" if self.think_ns_per_mib is None else f"{duration(self.think_ns_per_mib)} a MiB"
        said = [
            f"{self.streams:,} sequential streams of reads, by {self.concurrency:,} threads",
            f"  mean length       {size(self.stream_bytes)}",
            f"  runs a stream     {self.runs_per_stream:.2f}",
            f"  between its reads {think}",
            f"  whole files       {human(self.whole_share, 'share')} of the streams",
            "  length up to:",
        ]
        width = max(len(f"{count:,}") for count in self.lengths.values())
        return said + [f"    {size(length):>9}  {count:>{width},}" for length, count in self.lengths.items()]


def read(trail: Trail) -> Profile:
    """The profile of a trail.

    Raises `SweepError` if nothing is read in it by calls whose place is known.
    """
    (row,) = trail.rows_of("SELECT * FROM read_profile")
    if not row["streams"]:
        raise SweepError(
            f"{trail.path}: no reads with a known place in a file", "record the program with iotrail record"
        )
    lengths = trail.rows_of(
        "SELECT CAST(pow(2, ceil(log2(bytes))) AS BIGINT) AS length, count(*) AS n FROM read_stream GROUP BY length ORDER BY length"
    )
    return Profile(
        streams=row["streams"],
        concurrency=row["threads"],
        stream_bytes=row["stream_bytes"],
        runs_per_stream=row["runs_per_stream"],
        think_ns_per_mib=row["think_ns_per_mib"],
        whole_share=row["whole_share"],
        lengths={each["length"]: each["n"] for each in lengths},
    )


def nearest(profile: Profile, space: Space) -> dict[str, int]:
    """The codes of the dimensions that a profile has a value of: the nearest one, of numbers by their ratio."""
    known = profile.values()
    codes = {
        dimension.name: _nearest(dimension, known[dimension.name])
        for dimension in space.dimensions
        if dimension.name in known
    }
    return {name: code for name, code in codes.items() if code is not None}


def _nearest(dimension: Dimension, value: Value) -> int | None:
    """The code of a value; None where words are compared with numbers, or the word is none of the dimension's."""
    if isinstance(value, str):
        return dimension.values.index(value) if value in dimension.values else None
    numbers = [max(float(each), 1e-9) for each in dimension.values if not isinstance(each, str)]
    return int(np.argmin([abs(log(max(value, 1e-9) / each)) for each in numbers])) if numbers else None


def falls_into(space: Space, codes: Mapping[str, int], box: Box) -> bool:
    """Whether a box has settings with these codes."""
    return all(
        dimension.sets[chosen][codes[dimension.name]]
        for dimension, chosen in zip(space.dimensions, box, strict=True)
        if dimension.name in codes
    )


def place(space: Space, profile: Profile, clusters: Sequence[Found]) -> list[str]:
    """Which clusters a program falls into, for a terminal; of the dimensions that are not the program's, their bounds."""
    codes = nearest(profile, space)
    if not codes:
        return [
            "The sweep has no dimension of a program's reads (concurrency, stream, run, think, whole_file)."
        ]
    said = ", ".join(
        f"{dimension.name} {value_text(dimension, dimension.values[codes[dimension.name]])}"
        for dimension in space.dimensions
        if dimension.name in codes
    )
    found = []
    for number, cluster in enumerate(clusters, 1):
        if falls_into(space, codes, cluster.box):
            system = [
                f"{dimension.name} {bound_text(dimension, chosen)}"
                for dimension, chosen in zip(space.dimensions, cluster.box, strict=True)
                if dimension.name not in codes and chosen != dimension.full
            ]
            where = f" where {', '.join(system)}" if system else ""
            found.append(f"  {number}: {human(cluster.loss, 'share')} short{where}")
    return [f"Its reads are nearest to {said}.", *(found or ["  They are in no cluster."])]
