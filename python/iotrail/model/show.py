"""A model as text."""

from collections.abc import Iterator

from iotrail import units
from iotrail.model.fit import Model
from iotrail.model.source import FILES

_NAMES = {"r": "reads", "w": "writes", "d": "discards"}
# Sizes and states shown.
_MOST = 8


def show(model: Model) -> Iterator[str]:
    """Lines that say what a model's requests are like."""
    rate = model["rate"]
    count, seconds = requests_of(model), rate["length_ns"] / 1e9
    per_second = f", {count / seconds:,.4g} a second" if seconds else ""
    yield f"{count:,} requests {'to files ' if model['of'] == FILES else ''}in {seconds:,.4g} s{per_second}"
    requests = _by_direction(model)
    total = sum(requests.values())
    yield "  " + ", ".join(
        f"{requests[d] / total:.1%} {name}" for d, name in _NAMES.items() if requests.get(d)
    )
    runs = sum(sum(state["begins"].values()) for device in model["devices"] for state in device["states"])
    runs += len(model["largest"])
    yield f"  {total - runs:,} continue a run ({(total - runs) / total:.1%}), {runs:,} begin one, of which {len(model['largest']):,} are kept one by one"
    if load := model.get("load"):
        yield f"  programs took, for each request: {', '.join(_load(load, count))}"
    fresh = sum(count for _, part in model["distances"] for distance, count in part if distance == 0)
    yield f"  {units.size(fresh * 4096)} are used in all"
    name = "file" if model["of"] == FILES else "device"
    for number, device in enumerate(model["devices"]):
        yield f"{name} {number}: {units.size(device['reach_bytes'])}, {len(device['states']):,} of {4 ** model['levels']:,} states used"
        shares: dict[int, int] = {}
        for _, part in model["states"]:
            for of, state, times in part:
                if of == number:
                    shares[state] = shares.get(state, 0) + times
        inside = sum(shares.values()) or 1
        for state, times in sorted(shares.items(), key=lambda row: -row[1])[:_MOST]:
            yield f"  state {state}: {times / inside:.1%} of its requests"
        if len(shares) > _MOST:
            yield f"  and {len(shares) - _MOST:,} more"


def _load(load: dict[str, int], requests: int) -> Iterator[str]:
    if "cpu_ns" in load:
        yield f"{units.duration(load['cpu_ns'] / requests)} of CPU time"
    for name, what in (("sent_bytes", "sent"), ("received_bytes", "received")):
        if name in load:
            yield f"{units.size(round(load[name] / requests))} {what} through sockets"


def requests_of(model: Model) -> int:
    """Requests in all, with flushes."""
    return sum(model["rate"]["counts"])


def _by_direction(model: Model) -> dict[str, int]:
    requests: dict[str, int] = {}
    for direction, rows in model["requests"].items():
        requests[direction] = sum(times for _, times in rows)
    for run in model["largest"]:
        requests[run[3]] = requests.get(run[3], 0) + 1 + sum(times for _, times in run[5])
    return requests
