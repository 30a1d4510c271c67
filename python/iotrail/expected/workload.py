"""What an application asks for (table 2 of Shen, Zhong and Li, FAST 2005), and what is expected of a layer."""

from dataclasses import dataclass
from typing import NamedTuple

from iotrail.errors import UsageError

MIB = 1 << 20


class Length(NamedTuple):
    """Streams of one length, and their share of all streams."""

    length_bytes: int
    share: float


class Expected(NamedTuple):
    """A number that a layer is expected to show; `metric` ends with its unit."""

    layer: str
    metric: str
    value: float


@dataclass(frozen=True)
class Workload:
    """A server's reads.

    `concurrency` handlers read sequential streams, of the lengths `streams`, that begin anywhere in the first `span` of the
    disk (from 0 to 1). A run is the part of a stream that a handler reads without reading another one; `run_bytes` is its
    mean length. `whole_file` says that a stream ends where its file does. `think_ns_per_mib` is what a handler computes for
    each MiB. `read_bytes` is one read of the application.
    """

    concurrency: int
    streams: tuple[Length, ...]
    run_bytes: float
    think_ns_per_mib: float = 0.0
    whole_file: bool = False
    span: float = 1.0
    read_bytes: int = 4096

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise UsageError(f"concurrency: expected at least 1, found {self.concurrency}")
        if not self.streams:
            raise UsageError("streams: expected at least one length, found none")
        for length, share in self.streams:
            if length < 1 or not share > 0:
                raise UsageError(
                    f"streams: expected a length and a share above 0, found {length} and {share}"
                )
        if not 0 < self.span <= 1:
            raise UsageError(f"span: expected more than 0 and at most 1, found {self.span}")
        if not self.run_bytes >= 1:
            raise UsageError(f"run_bytes: expected at least 1, found {self.run_bytes}")
        if not self.think_ns_per_mib >= 0:
            raise UsageError(f"think_ns_per_mib: expected at least 0, found {self.think_ns_per_mib}")
        if self.read_bytes < 1:
            raise UsageError(f"read_bytes: expected at least 1, found {self.read_bytes}")

    @property
    def stream_bytes(self) -> float:
        """Mean length of a stream."""
        shares = sum(stream.share for stream in self.streams)
        return sum(stream.length_bytes * stream.share for stream in self.streams) / shares

    @property
    def mean_run_bytes(self) -> float:
        """Mean length of a run, which is no longer than its stream."""
        return min(self.run_bytes, self.stream_bytes)
