"""One model of several workloads that run side by side.

A model has no sum: which request follows which, how runs mix and how far back data were used all depend on both workloads. So
requests are drawn from each, put into one stream in the order of their times, and fitted anew. Errors of drawing and of fitting add
up. Each model's requests begin at time 0.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from iotrail.errors import ModelError
from iotrail.model.fit import Model, draw, fit_requests, written
from iotrail.model.show import requests_of
from iotrail.model.source import expect_alike

# All requests are in memory when a model is fitted, about 200 B each.
MOST_REQUESTS = 50_000_000
# Devices of a model at most: MOST_DEVICES in crates/model/src/model/check.rs.
_MOST_DEVICES = 1 << 12


@dataclass(frozen=True)
class Merged:
    """What a model contributes: `requests`, the last one `length_ns` after the beginning; its device k is `devices[k]` of the
    merged model. `laps` is how often it was drawn, the last time maybe not to its end."""

    requests: int
    length_ns: int
    laps: int
    devices: list[int]


def merge(
    models: Sequence[Model], *, same_devices: bool, repeat: bool, seed: int, min_count: int
) -> tuple[Model, list[Merged]]:
    """A model of the requests of all models together, and what each of them contributes, in their order.

    It has as many levels as the finest of them. With `same_devices` device k of each is device k; else devices of each come after
    those of the ones before. With `repeat` shorter models are drawn again, with other seeds, until the longest ends.

    Raises:
        ModelError: there would be too many requests or devices, or some models are of disks and some of files.
        SimulationError: what was drawn can't be fitted.
    """
    expect_alike(models)
    length_ns = max(model["rate"]["length_ns"] for model in models)
    _check_requests(models, length_ns if repeat else None)
    counts = [len(model["devices"]) for model in models]
    firsts = [0] * len(models) if same_devices else [0, *itertools.accumulate(counts)][:-1]
    reaches = [0] * max(first + count for first, count in zip(firsts, counts, strict=True))
    if len(reaches) > _MOST_DEVICES:
        raise ModelError(
            f"expected at most {_MOST_DEVICES:,} devices in all, found {len(reaches):,}",
            "--same-devices puts device k of each model on the same device",
        )
    tables, merged = [], []
    for number, (model, first) in enumerate(zip(models, firsts, strict=True)):
        devices = list(range(first, first + len(model["devices"])))
        for device, each in zip(devices, model["devices"], strict=True):
            reaches[device] = max(reaches[device], each["reach_bytes"])
        laps = list(_laps(model, seed + number, len(models), length_ns if repeat else None))
        table = pa.concat_tables(laps)
        tables.append(table.set_column(1, "device", pc.add(table["device"], first)))
        merged.append(Merged(len(table), pc.max(table["ts"]).as_py(), len(laps), devices))
    together = pa.concat_tables(tables)
    # stable: of one time, those of an earlier model are first
    together = together.take(pc.sort_indices(together, [("ts", "ascending")]))
    levels = max(model["levels"] for model in models)
    fitted = fit_requests(together, levels, reaches, min_count=min_count)
    model = {**fitted, "of": models[0]["of"]}
    load = _load(models, merged)
    return (model if load is None else {**model, "load": load}), merged


def _load(models: Sequence[Model], merged: Sequence[Merged]) -> dict[str, int] | None:
    """What all programs took for so many requests, where it is known of each."""
    shares = [part.requests / requests_of(model) for model, part in zip(models, merged, strict=True)]
    known = set.intersection(*(set(model.get("load", {})) for model in models))
    load = {
        name: round(sum(model["load"][name] * share for model, share in zip(models, shares, strict=True)))
        for name in ("cpu_ns", "sent_bytes", "received_bytes")
        if name in known
    }
    return load or None


def _check_requests(models: Sequence[Model], until_ns: int | None) -> None:
    total = 0
    for model in models:
        length_ns = model["rate"]["length_ns"]
        laps = 1 if until_ns is None or not length_ns else max(until_ns / length_ns, 1)
        total += int(requests_of(model) * laps)
    if total > MOST_REQUESTS:
        raise ModelError(
            f"expected at most {MOST_REQUESTS:,} requests in all, found {total:,}",
            "all of them are drawn and fitted in memory: merge models of shorter trails"
            + ("" if until_ns is None else ", or leave out --repeat"),
        )


def _laps(model: Model, seed: int, step: int, until_ns: int | None) -> Iterator[pa.Table]:
    """A model's requests: once, or again and again as long as they come until a time. Each lap has another seed and begins a mean
    gap, in whole steps of the model's clock, after the last request of the one before, as `iotrail generate --for` does it."""
    begin_ns, tick_ns = 0, model["rate"]["tick_ns"]
    with written(model) as path:
        while True:
            with draw(path, seed=seed) as batches:
                table = pa.Table.from_batches(batches)
            table = table.set_column(0, "ts", pc.add(table["ts"], begin_ns))
            if until_ns is None:
                yield table
                return
            last_ns = table["ts"][-1].as_py()
            if len(inside := table.filter(pc.field("ts") <= until_ns)):
                yield inside
            mean_ns = (last_ns - begin_ns) // len(table)
            begin_ns = last_ns + max(-(-mean_ns // tick_ns), 1) * tick_ns
            seed += step
            if not mean_ns or begin_ns > until_ns:
                return
