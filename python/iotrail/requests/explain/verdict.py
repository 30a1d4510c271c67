"""Why a client complains, in words: each sentence with what it rests on and how sure it is.

The order is that of Stardust (SIGMETRICS 2006), section 6: first whether a resource was saturated, then whether requests
were held up where they usually aren't, and only then what the client asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from iotrail.diff.flow_command import sentence, sure
from iotrail.requests.explain.pattern import Pattern
from iotrail.requests.explain.resources import SATURATED, Resource
from iotrail.requests.explain.usual import Usual
from iotrail.requests.explain.waits import Waits
from iotrail.requests.graph import Edge, Graph
from iotrail.units import counted, decimal, duration, size

# A resource is to blame if it was saturated in this share of the time …
LEAST_SATURATED = 0.05
# … by others, unless the client's own part of its use is this; those others are named who together make as much. A
# cache is advised if reads and writes are this part of the time that is complained of …
LEAST_PART = 0.5
# Where requests wait, by kind of resource.
_WAITED = {
    "cpu": "able to run and without a CPU there",
    "disk": "in its queue",
    "network": "on the way there",
}
# What less of the time of requests is spent at explains no complaint.
LEAST_WAITED = 0.1
# … and it would absorb this share of them, of which this share is small.
LEAST_ABSORBED = 0.5
LEAST_SMALL = 0.5
# What is slower explains a complaint if it adds this share of the time of the client's requests.
LEAST_ADDED = 0.1
# Slower steps that are told.
MOST_SLOWER = 3

MEASURED = "measured"
# from what was measured, without proof that one makes the other
INFERRED = "inferred"


@dataclass(frozen=True)
class Sentence:
    """One thing that is said."""

    # resources, latency, pattern or time
    about: str
    text: str
    # what it rests on, each a line
    evidence: tuple[str, ...]
    # measured; sure, very likely or likely that it is no noise; inferred from measured things
    certainty: str
    # whether it explains the complaint
    cause: bool = False
    # what to do
    advice: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What it comes to."""

    text: str
    sentences: tuple[Sentence, ...]


def judge(
    client: str,
    times: Mapping[str, int],
    resources: list[Resource],
    before: Mapping[tuple[str, str, str | None], float],
    waits: Waits,
    usual: Usual,
    pattern: Pattern | None,
    graph: Graph,
) -> Verdict:
    """Say why `client` complains of requests that took these `times`, ns by kind; `graph` and `waits` are of them, `before`
    is in which share of the other time resources were saturated, as far as that is known."""
    sentences = [
        *_resources(client, resources, before, waits),
        *_latency(client, usual, graph),
        *_pattern(client, times, pattern),
    ]
    causes = [s for s in sentences if s.cause]
    if not causes:
        sentences.append(_time(client, graph))
    text = causes[0].text if causes else "what was recorded doesn't explain the complaint"
    if not any(s.about in ("resources", "latency") and s.cause for s in sentences):
        # what it isn't comes first, as that is what people suspect
        cleared = []
        if not any((r.saturated or 0) >= LEAST_SATURATED for r in resources):
            cleared.append(
                "nothing is saturated" if _known(resources) else "nothing is known to be saturated"
            )
        if usual.comparison is not None and not _slower_on_the_whole(usual):
            cleared.append("nothing is slower than usual")
        text = "; ".join([*cleared, text])
    return Verdict(text[0].upper() + text[1:], tuple(sentences))


def is_saturated(resource: Resource) -> bool:
    """Whether it was often enough to matter to who waits for it."""
    return (resource.saturated or 0) >= LEAST_SATURATED


def _known(resources: list[Resource]) -> bool:
    return any(r.resource == "cpu" and r.saturated is not None for r in resources) and any(
        r.resource == "disk" for r in resources
    )


def _resources(
    client: str,
    resources: list[Resource],
    before: Mapping[tuple[str, str, str | None], float],
    waits: Waits,
) -> list[Sentence]:
    told = []
    used = [r for r in resources if r.part(client) > 0]
    saturated = [r for r in used if is_saturated(r)]
    waited = {r.key: waits.of(r) for r in saturated}
    # most waited for first; what nobody measured comes last
    for kind in sorted(
        {r.resource for r in saturated},
        key=lambda kind: -max(waited[r.key] or 0.0 for r in saturated if r.resource == kind),
    ):
        of_kind = [r for r in saturated if r.resource == kind]
        parts = _parts(of_kind)
        own = parts.get(client, 0.0)
        evidence = [
            f"{r.name}: in use {r.p50:.0%} at the median, {r.p99:.0%} at the 99th percentile; at least {SATURATED:.0%} "
            f"in {r.saturated:.0%} of the time"
            + (f", {r.queue_depth:.1f} requests there on average" if kind == "disk" else "")
            for r in of_kind
        ]
        evidence += [
            f"{kind} of {r.node} was used by "
            + ", ".join(f"{u.client or 'unattributed'} {u.share:.0%}" for u in r.users[:4])
            for r in of_kind
        ]
        names = ", ".join(r.name for r in of_kind) + (" was" if len(of_kind) == 1 else " were")
        measured = [part for r in of_kind if (part := waited[r.key]) is not None]
        share = sum(measured) if measured else None
        if share is not None:
            evidence.append(f"{client}'s requests spent {share:.0%} of their time {_WAITED[kind]}")
        as_before = [r for r in of_kind if before.get(r.key, 0.0) > (r.saturated or 0.0) - LEAST_SATURATED]
        evidence += [
            f"{r.name} was saturated in {before[r.key]:.0%} of the time before and after, too"
            for r in as_before
        ]
        hardly = share is not None and share < LEAST_WAITED
        # without a measured wait that would be no more than a suspicion of whoever is busy
        matters = share is not None and not hardly and len(as_before) < len(of_kind)
        if own >= LEAST_PART and kind == "disk":
            # what it has the disk for is its time there, too
            matters = matters or (share or 0.0) + sum(waits.served(r) for r in of_kind) >= LEAST_WAITED
        certainty = MEASURED if share is not None else INFERRED
        if own >= LEAST_PART:
            text = f"{names} saturated, {own:.0%} of it by {client} itself"
            advice = f"spread what {client} does over more {_plural(kind)}, or ask for less at a time"
        else:
            others = _most(client, parts)
            by = ", ".join(f"{parts[who]:.0%} of it by {who or 'unattributed work'}" for who in others)
            if share is None:
                waits_there = f"; whether {client}'s requests waited for {'it' if len(of_kind) == 1 else 'them'} is not known"
            elif hardly:
                waits_there = f"; {client}'s requests hardly waited there"
            elif not matters:
                waits_there = ", as it was before"
            else:
                waits_there = f", while {client}'s requests waited"
            text = f"{names} saturated, {by}{waits_there}"
            limited = " and ".join(who or "what is unattributed" for who in others)
            advice = f"give {limited} a limit or other {_plural(kind)}, or {client} some of its own"
        told.append(
            Sentence("resources", text, tuple(evidence), certainty, matters, advice if matters else None)
        )
    if not saturated:
        known = [r for r in used if r.largest is not None]
        evidence = [
            f"{r.name}: {r.p50:.0%} at the median, {r.p99:.0%} at the 99th percentile, {r.largest:.0%} at most"
            for r in sorted(known, key=lambda r: -(r.p99 or 0))[:6]
        ]
        unknown = sorted({r.resource for r in used if r.largest is None})
        if not any(r.resource == "cpu" for r in resources):
            unknown.append("cpu")
        notes = [_unknown(kind) for kind in unknown]
        told.append(
            Sentence(
                "resources",
                f"no resource that {client}'s requests use was saturated",
                (*evidence, *notes),
                MEASURED,
            )
            if known
            else Sentence("resources", "how busy resources were is not recorded", tuple(notes), MEASURED)
        )
    return told


def _parts(resources: list[Resource]) -> dict[str | None, float]:
    """Each client's mean part of them; None is unattributed."""
    parts: dict[str | None, float] = {}
    for resource in resources:
        for user in resource.users:
            parts[user.client] = parts.get(user.client, 0.0) + user.share / len(resources)
    return parts


def _most(client: str, parts: Mapping[str | None, float]) -> list[str | None]:
    """Those others that together make half of the use, or all of them: as few as can be."""
    chosen: list[str | None] = []
    for who in sorted(parts.keys() - {client}, key=lambda who: (-parts[who], who or "")):
        chosen.append(who)
        if sum(parts[each] for each in chosen) >= LEAST_PART:
            break
    return chosen


def _plural(kind: str) -> str:
    return {"cpu": "CPUs", "disk": "disks", "network": "networks"}[kind]


def _unknown(kind: str) -> str:
    return {
        "cpu": "cpu: not known; iotrail record --kernel records it",
        "network": "network: not known how much it can carry; --link says",
    }.get(kind, f"{kind}: not known")


def _latency(client: str, usual: Usual, graph: Graph) -> list[Sentence]:
    if usual.comparison is None:
        return [
            Sentence(
                "latency",
                f"there is nothing to compare {client}'s requests with",
                ("too few requests of the same kind at other times, and of other clients",),
                MEASURED,
            )
        ]
    against = f"against {usual.whose}, whose requests are of the same kinds"
    slower = [d for d in usual.slower if (d.added_ns or 0) >= LEAST_ADDED * graph.total_ns]
    if slower:
        return [
            # how sure it is stands beside the sentence
            Sentence("latency", sentence(d).removesuffix(f", {sure(d)}"), (against,), sure(d), cause=True)
            for d in slower[:MOST_SLOWER]
        ]
    tests = len([d for d in usual.comparison.differences if d.p is not None])
    means = [
        f"{kind.name}: {duration(kind.mean_b)} on average, usually {duration(kind.mean_a)}"
        for kind in usual.comparison.kinds
        if kind.mean_a is not None and kind.mean_b is not None
    ]
    rest = [f"{sentence(d)}: less than {LEAST_ADDED:.0%} of the time" for d in usual.slower[:MOST_SLOWER]]
    text = f"no step of {client}'s requests takes longer than usual"
    if _slower_on_the_whole(usual):
        text = f"{client}'s requests took longer than usual, but no step alone is shown to by more than noise"
    return [
        Sentence(
            "latency",
            text,
            (against, *means, *rest, f"{counted(tests, 'comparison')} of steps, parts and paths"),
            MEASURED,
        )
    ]


def _slower_on_the_whole(usual: Usual) -> bool:
    """Whether requests of a kind took longer than usual, on average."""
    kinds = usual.comparison.kinds if usual.comparison else []
    return any(kind.mean_b > (1 + LEAST_ADDED) * kind.mean_a for kind in kinds if kind.mean_a and kind.mean_b)


def _pattern(client: str, times: Mapping[str, int], pattern: Pattern | None) -> list[Sentence]:
    if pattern is None or not pattern.n:
        return []
    low, middle, high = pattern.sizes
    asked: tuple[str, ...] = (
        f"{counted(pattern.reads, 'read')} and {counted(pattern.writes, 'write')} of {size(pattern.bytes)} in "
        f"{counted(pattern.files, 'file')}; {size(low)} to {size(high)} each (1st to 99th percentile), {size(middle)} at "
        f"the median",
        f"{pattern.small / pattern.n:.0%} are shorter than a page of {size(pattern.page_bytes)}, "
        f"{pattern.sequential / pattern.n:.0%} begin where the one before ended",
        f"a cache of {client}'s own would send {counted(pattern.sent, 'request')} instead of {pattern.n:,}, if it wrote "
        f"back every {duration(pattern.write_back_ns)}",
    )
    if pattern.shared:
        asked += (
            f"{pattern.shared:,} are to files that others use too: such a cache must be told of their writes",
        )
    complained = sum(times.get(kind, 0) for kind in pattern.kinds) >= LEAST_PART * sum(times.values())
    if not complained or pattern.small < LEAST_SMALL * pattern.n or pattern.absorbed < LEAST_ABSORBED:
        text = f"a cache of {client}'s own would absorb {pattern.absorbed:.0%} of its reads and writes"
        return [Sentence("pattern", text, asked, MEASURED)]
    sizes = f"{low}" if low == high else f"{low}–{high}"
    return [
        Sentence(
            "pattern",
            f"{client} sends {pattern.n:,} requests of {sizes} bytes that a client cache would absorb, all but {pattern.sent:,}",
            asked,
            INFERRED if pattern.shared else MEASURED,
            cause=True,
            advice="write through a cache on the client's machine (buffered I/O; NFS with client caching), or larger pieces",
        )
    ]


def _time(client: str, graph: Graph) -> Sentence:
    """Where the time goes, if nothing explains it."""
    most: list[Edge] = sorted((e for e in graph.edges if e.critical), key=lambda e: -e.critical_ns)[:5]
    return Sentence(
        "time",
        f"the time of {client}'s requests goes to "
        + (", ".join(f"{e.source} → {e.target}" for e in most[:1]) or "nothing"),
        tuple(
            f"{e.source} → {e.target}: {graph.share(e):.0%}, {duration(e.critical_ns / e.critical)} each of "
            f"{decimal(e.critical)}"
            for e in most
        ),
        MEASURED,
        advice="iotrail path X.trail --slowest 10 shows some",
    )
