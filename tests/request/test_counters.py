"""Virtual performance counters against plain Python."""

import random

from iotrail.trail import Trail

from .conftest import MakeTrail


def test_disk_queue(make: MakeTrail) -> None:
    """The number of requests at each disk, instant by instant."""
    rng = random.Random(3)
    requests = [
        {
            "crumb": 0,
            "ts": rng.randrange(300),
            "dur": rng.randrange(40),
            "dev": rng.choice(["sda", "sdb"]),
            "kind": "kernel",
        }
        for _ in range(120)
    ]
    trail = Trail(make({"disk_op": requests}))
    found = {"sda": [0] * 400, "sdb": [0] * 400}
    for row in trail.rows_of("SELECT dev, ts, dur, queue_depth FROM disk_queue"):
        for at in range(row["ts"], row["ts"] + row["dur"]):
            found[row["dev"]][at] += row["queue_depth"]
    expected = {"sda": [0] * 400, "sdb": [0] * 400}
    for request in requests:
        for at in range(request["ts"], request["ts"] + request["dur"]):
            expected[request["dev"]][at] += 1
    assert found == expected
    assert max(expected["sda"]) > 3
