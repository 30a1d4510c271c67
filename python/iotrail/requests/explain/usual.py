"""A client's requests against the usual ones: its own at other times, or, if there are too few, those of others."""

from dataclasses import dataclass, replace

from iotrail.diff.flow import kinds
from iotrail.diff.flow_command import compare_flows
from iotrail.diff.flow_compare import FlowComparison, FlowDifference
from iotrail.requests.find import Chosen
from iotrail.trail import Trail

# Fewer usual requests of a kind are no custom.
LEAST_USUAL = 64
# Kinds of requests that take less of the client's time are not compared.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Usual:
    """What the client's requests were compared with, and what came of it."""

    # in words; None if there is nothing to compare with
    whose: str | None
    comparison: FlowComparison | None

    @property
    def slower(self) -> list[FlowDifference]:
        """What takes longer, or is done more often, and adds to the time of the client's requests; most first."""
        found = self.comparison.found if self.comparison else []
        return [d for d in found if d.metric in ("step", "part") and (d.added_ns or 0) > 0]

    @property
    def mean(self) -> dict[str, float | None]:
        """The usual mean time of each kind of request, ns."""
        return {kind.name: kind.mean_a for kind in self.comparison.kinds} if self.comparison else {}


def compare(trail: Trail, chosen: Chosen) -> Usual:
    """Compare the chosen requests of a client with the usual ones of the same trail."""
    asked = kinds(trail, chosen)
    total = sum(row["time_ns"] for row in asked.values())
    matter = [key for key, row in asked.items() if row["time_ns"] >= LEAST_SHARE * total]
    everything = Chosen(op=chosen.op, component=chosen.component)
    at_other_times = replace(everything, client=chosen.client, but=chosen)
    of_others = replace(everything, but=Chosen(client=chosen.client))
    for whose, usual in (
        (f"{chosen.client} at other times", at_other_times),
        ("all other clients", of_others),
    ):
        known = kinds(trail, usual)
        common = [key for key in matter if known.get(key, {}).get("replies", 0) >= LEAST_USUAL]
        # half of its time at least is of kinds that are known
        if 2 * sum(asked[key]["time_ns"] for key in common) >= total > 0:
            return Usual(whose, compare_flows(trail, trail, usual, chosen, only=common))
    return Usual(None, None)
