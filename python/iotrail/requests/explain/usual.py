"""A client's requests against the usual ones: its own at other times, or, if there are too few, those of others."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from iotrail.diff.flow import kinds
from iotrail.diff.flow_command import compare_flows
from iotrail.diff.flow_compare import FlowComparison, FlowDifference
from iotrail.requests.find import Chosen
from iotrail.trail import Trail

# Fewer usual requests of a kind are no custom.
LEAST_USUAL = 64
# One machine is named if its slowest step adds this share of what that of all machines does.
_NAMED = 0.7
# Kinds of requests that take less of the client's time are not compared.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Usual:
    """What the client's requests were compared with, and what came of it."""

    # in words; None if there is nothing to compare with
    whose: str | None
    comparison: FlowComparison | None
    # with the client's own requests, at other times
    at_other_times: bool = False

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
    for whose, usual, own in (
        (f"{chosen.client} at other times", at_other_times, True),
        ("all other clients", of_others, False),
    ):
        known = kinds(trail, usual)
        common = [key for key in matter if known.get(key, {}).get("replies", 0) >= LEAST_USUAL]
        # half of its time at least is of kinds that are known
        if 2 * sum(asked[key]["time_ns"] for key in common) >= total > 0:
            return Usual(whose, _compare(trail, usual, chosen, common), own)
    return Usual(None, None)


def _compare(
    trail: Trail, usual: Chosen, chosen: Chosen, kinds: Collection[tuple[str, str]]
) -> FlowComparison:
    """Machine by machine where that shows at least as much of what is slower, else all machines together."""
    together, apart = (
        compare_flows(trail, trail, usual, chosen, only=kinds, by_node=by_node) for by_node in (False, True)
    )
    return apart if _added(apart) >= _NAMED * _added(together) else together


def _added(comparison: FlowComparison) -> float:
    """What the step that adds most adds, ns."""
    return max((d.added_ns or 0.0 for d in comparison.found if d.metric in ("step", "part")), default=0.0)
