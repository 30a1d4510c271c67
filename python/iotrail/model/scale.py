"""A model for other storage or another load: more or fewer addresses, faster or slower arrivals."""

from fractions import Fraction

from iotrail.errors import ModelError
from iotrail.model.fit import Model

# What ends of addresses stay multiples of, if they were: blocks of file systems.
_BLOCK_BYTES = 4096
# Below it are ends of addresses, in bytes, and total times, in ns: MOST_BYTES in crates/model/src/model/check.rs.
_MOST = 1 << 62


def scale(model: Model, capacity: float, rate: float) -> Model:
    """A model whose devices have `capacity` times as many addresses, and whose requests come `rate` times as fast.

    Ranges of addresses become longer or shorter, and so do distances between them. Sizes of requests, lengths of runs, how far
    runs begin from others, and offsets in the largest runs stay bytes; how many different pages are used stays too.

    Raises:
        ModelError: no time is left, or too much; or a device has no room for its largest request, or too much.
    """
    length_ns: int = model["rate"]["length_ns"]
    shorter = round(length_ns / Fraction(rate))
    if length_ns and not shorter:
        raise ModelError(
            f"--rate {rate:g}: expected a total time of 1 ns or more, found {length_ns:,} ns divided by {rate:g}",
            "give a smaller rate",
        )
    if shorter >= _MOST:
        raise ModelError(
            f"--rate {rate:g}: expected a total time of less than 146 years, found {length_ns:,} ns divided by {rate:g}",
            "give a larger rate",
        )
    # no coarser than all arrivals are: with a longer step there would be fewer moments than were counted
    tick_ns = max(1, int(model["rate"]["tick_ns"] / Fraction(rate)))
    largest = _largest_sizes(model)
    devices = []
    for number, device in enumerate(model["devices"]):
        reach = _scaled_reach(device["reach_bytes"], Fraction(capacity))
        least = min(largest.get(number, 0), device["reach_bytes"])
        if reach < least:
            raise ModelError(
                f"--capacity {capacity:g}: devices[{number}].reach_bytes: expected {least:,} or more, room for its largest request, "
                f"found {reach:,}",
                "give a larger capacity",
            )
        if reach >= _MOST:
            raise ModelError(
                f"--capacity {capacity:g}: devices[{number}].reach_bytes: expected less than 4 EiB, found "
                f"{device['reach_bytes']:,} times {capacity:g}",
                "give a smaller capacity",
            )
        devices.append({**device, "reach_bytes": reach})
    return {
        **model,
        "devices": devices,
        "rate": {**model["rate"], "length_ns": shorter, "tick_ns": tick_ns},
    }


def _scaled_reach(reach_bytes: int, capacity: Fraction) -> int:
    # the largest power of two that it is a multiple of
    block = min(reach_bytes & -reach_bytes, _BLOCK_BYTES) or 1
    return round(reach_bytes * capacity / block) * block


def _largest_sizes(model: Model) -> dict[int, int]:
    """Bytes of the largest request of each device: which device requests of a size are for isn't counted, so of any."""
    sizes = [row[0] for _, table in model["sizes"] for rows in table.values() for row in rows]
    sizes += [row[2] for rows in model["next_sizes"].values() for row in rows]
    sizes += [size for run in model["largest"] for size in (run[4], *(each for each, _ in run[5]))]
    return dict.fromkeys(range(len(model["devices"])), max(sizes, default=0))
