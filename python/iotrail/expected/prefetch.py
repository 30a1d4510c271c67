"""The prefetching layer: equations 1 to 5 of Shen, Zhong and Li (FAST 2005), section 3.1.

Reads of a stream become requests of the depth of prefetching. Lengths are in bytes. Without prefetching, the depth is that
of one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from iotrail.expected.workload import Length


def count_requests(stream_bytes: float, depth_bytes: float) -> int:
    """Requests of a stream (equation 1)."""
    return ceil(stream_bytes / depth_bytes)


def fetched_bytes(stream_bytes: float, depth_bytes: float, *, whole_file: bool) -> float:
    """Bytes that are read for a stream: nothing beyond the end of a file (equation 4), whole requests otherwise
    (equation 2)."""
    return stream_bytes if whole_file else count_requests(stream_bytes, depth_bytes) * depth_bytes


@dataclass(frozen=True)
class Prefetched:
    """What becomes of streams, as means over them: requests a stream, bytes read for one, and the share of the bytes that
    somebody wanted, by which the throughput of the layer below counts (equations 3 and 5)."""

    requests: float
    fetched_bytes: float
    useful: float


def prefetch(streams: Sequence[Length], depth_bytes: float, *, whole_file: bool) -> Prefetched:
    """Streams of a histogram of lengths, prefetched to a depth."""
    shares = sum(stream.share for stream in streams)
    wanted = sum(stream.length_bytes * stream.share for stream in streams)
    fetched = sum(
        fetched_bytes(stream.length_bytes, depth_bytes, whole_file=whole_file) * stream.share
        for stream in streams
    )
    requests = sum(count_requests(stream.length_bytes, depth_bytes) * stream.share for stream in streams)
    return Prefetched(requests / shares, fetched / shares, wanted / fetched)
