"""Requests that have only the aggregates of others: what a plain fio job of the same mix does.

Each is drawn on its own: device, direction and size of any original request, an address anywhere below the device's reach,
aligned to its size as fio does, an exponential time after the one before. What a model is worth is what it does better.
"""

import numpy as np
import pyarrow as pa

# Addresses of requests without a length are aligned to a sector.
_SECTOR = 512
_FLUSH = 2


def draw_aggregates(original: pa.Table, reaches: list[int], seed: int) -> pa.Table:
    """As many requests as `original` has, in its columns. `reaches` are the ends of the addresses of each device, by number."""
    count = len(original)
    random = np.random.default_rng(seed)
    drawn = original.take(random.integers(count, size=count))
    columns = {name: drawn[name].to_numpy().astype(np.int64) for name in ("device", "op", "length")}
    aligned = np.maximum(columns["length"], _SECTOR)
    ends = np.array(reaches, np.uint64).astype(np.int64)[columns["device"]]
    places = np.maximum((ends - columns["length"]) // aligned + 1, 1)
    pos = (random.random(count) * places).astype(np.int64) * aligned
    ts = original["ts"].to_numpy().astype(np.int64)
    mean = (ts[-1] - ts[0]) / max(count - 1, 1)
    gaps = random.exponential(mean, count - 1)
    return pa.table(
        {
            "ts": np.concatenate(([0], np.cumsum(gaps).astype(np.int64))),
            "dur": pa.nulls(count, pa.int64()),
            "device": columns["device"],
            "op": columns["op"],
            "pos": np.where(columns["op"] == _FLUSH, 0, pos),
            "length": columns["length"],
            "flags": np.zeros(count, np.int64),
        }
    )
