"""The histogram of `sql/` is that of crates/format/src/hist.rs, at every edge where log2 could round."""

from pathlib import Path

import pyarrow as pa
import pytest

from iotrail.trail import Trail

from .tiny import ingest


def bucket_of(value: int) -> int:
    """hist.rs, bucket_of."""
    if value < 32:
        return max(value, 0)
    shift = value.bit_length() - 6
    return shift * 32 + (value >> shift)


def lower_bound(index: int) -> int:
    """hist.rs, lower_bound."""
    return index if index < 64 else (32 + index % 32) << (index // 32 - 1)


@pytest.fixture(scope="module")
def trail(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Trail:
    """One call for each latency around the powers of two and their 32nds."""
    edges = {0, 1} | {(1 << k) + d for k in range(1, 60) for d in (-1, 0, 1)}
    edges |= {(32 + m << k) + d for k in range(0, 40, 3) for m in range(32) for d in (-1, 0)}
    values = sorted(value for value in edges if value >= 0)
    table = pa.table(
        {
            "node": ["n"] * len(values),
            # a thread a call: no sum of a thread's times exceeds 63 bits
            "thread": list(range(len(values))),
            "crumb": [0] * len(values),
            "call": ["read"] * len(values),
            "errno": [0] * len(values),
            "calls": [1] * len(values),
            "ts": list(range(len(values))),
            "dur": values,
        }
    )
    return Trail(ingest(native, {"file_op": table}, tmp_path_factory.mktemp("histogram") / "h.trail"))


def test_bucket(trail: Trail) -> None:
    """Every latency is in the bucket hist.rs says."""
    rows = trail.rows_of("SELECT dur, bucket FROM op")
    assert len(rows) > 1000
    assert [(r["dur"], r["bucket"]) for r in rows] == [(r["dur"], bucket_of(r["dur"])) for r in rows]


def test_lower_bound(trail: Trail) -> None:
    """Every bucket begins where hist.rs says."""
    rows = trail.rows_of("SELECT bucket, latency FROM latency")
    assert [r["latency"] for r in rows] == [lower_bound(r["bucket"]) for r in rows]
