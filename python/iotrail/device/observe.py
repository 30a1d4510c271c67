"""The reads and writes of one device in a trail, as columns for a fit."""

import numpy as np

from iotrail.device.observed import Observed
from iotrail.errors import FitError
from iotrail.trail import Trail


def observe(trail: Trail, device: str | None) -> tuple[str, Observed]:
    """Reads and writes with a known place and response time, in the order of arrival, and the name of their device.

    Args:
        trail: a block trace, a recording with `--kernel`, or the log of an emulated disk
        device: name of the device, needed if there are several

    Raises:
        FitError: no such device, several devices, or no response times.
    """
    names = {
        row["device"]: row["name"]
        for row in trail.rows_of(
            "SELECT d.device, d.node || ':' || d.dev AS name FROM block_device AS d ORDER BY d.device"
        )
    }
    others = trail.rows_of(
        "SELECT DISTINCT node || ':' || dev AS name FROM disk_op WHERE kind = 'emulated' ORDER BY name"
    )
    names |= {-at: row["name"] for at, row in enumerate(others, 1)}
    counted = trail.rows_of(
        "SELECT device, COUNT(*) AS count FROM device_request WHERE op < 2 AND dur IS NOT NULL "
        "AND pos IS NOT NULL AND length > 0 GROUP BY device ORDER BY count DESC"
    )
    known = {names.get(row["device"], str(row["device"])): row["device"] for row in counted}
    if not known:
        raise FitError(
            f"{trail.path}: no reads or writes of a disk with a known place and response time",
            "iotrail record --kernel records them (as root), and iotrail import reads block traces with response times",
        )
    if device is not None:
        known = {name: number for name, number in known.items() if device in (name, name.rpartition(":")[2])}
        if not known:
            raise FitError(
                f"--device: there is no device {device} with response times",
                f"there are {', '.join(names.values())}",
            )
    if len(known) > 1:
        raise FitError(
            f"{trail.path} has requests of {len(known)} devices",
            f"--device chooses one of {', '.join(known)}",
        )
    [(name, number)] = known.items()
    table = trail.query(
        "SELECT op = 1 AS write, pos, length, ts, dur FROM device_request WHERE op < 2 AND dur IS NOT NULL "
        f"AND pos IS NOT NULL AND length > 0 AND device = {number} ORDER BY ts, pos"
    ).fetchnumpy()
    columns = {key: np.asarray(values) for key, values in table.items()}
    arrival = columns["ts"].astype(np.int64)
    return name, Observed(
        columns["write"].astype(bool),
        columns["pos"].astype(np.int64),
        columns["length"].astype(np.int64),
        arrival - arrival[0],
        columns["dur"].astype(np.int64),
    )
