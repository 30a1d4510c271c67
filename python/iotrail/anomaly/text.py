"""The answer of `iotrail anomalies` for a terminal."""

from iotrail.anomaly.answer import Answer, Failing, Found
from iotrail.anomaly.describe import Bound
from iotrail.anomaly.evidence import LEAST_CHANCE
from iotrail.anomaly.layers import Deviation
from iotrail.units import human

NO_LAYER = "no layer that was measured leaves the expectation"
# Metrics end with their unit.
_UNITS = {"bytes": "bytes", "bytes_per_s": "bytes/s", "ns": "ns", "share": "share"}


def lines(answer: Answer) -> list[str]:
    """The answer, a line each."""
    said = [
        f"{answer.trail}: {answer.samples:,}{_purposes(answer)} of {answer.settings:,} settings, of which {answer.anomalous:,} are at least "
        f"{share(answer.threshold)} short of what {answer.reference}{_states(answer)}."
    ]
    if not answer.clusters:
        said += [
            "No cluster: these samples do not tell in which settings it falls short."
            if answer.anomalous
            else "No cluster: nothing that was measured falls short.",
            hidden(answer),
        ]
    for number, cluster in enumerate(answer.clusters, 1):
        said += [
            "",
            f"{number}. {loss(cluster)}",
            *_bounds(cluster),
            *judged_faces(cluster),
            *_layers(cluster),
        ]
    if answer.clusters:
        said += ["", hidden(answer)]
    said += [failing(one) for one in answer.failing]
    if answer.unjudged:
        said.append(unjudged(answer))
    if answer.unproven:
        boxes = "1 more cluster" if answer.unproven == 1 else f"{answer.unproven:,} more clusters"
        said.append(f"{boxes} could be chance: iotrail sweep --confirm {answer.trail} measures what tells.")
    return said


def _purposes(answer: Answer) -> str:
    chosen = answer.samples - answer.uniform
    if not chosen and not answer.confirming:
        return ""
    parts = [f"{answer.uniform:,} uniform", f"{chosen:,} chosen"] if chosen else []
    if answer.confirming:
        parts.append(f"beside {answer.confirming:,} in pairs")
    return f" ({', '.join(parts)})"


def hidden(answer: Answer) -> str:
    """How large a zone can be that has no uniform sample."""
    kind = "sample" if answer.uniform == answer.samples else "uniform sample"
    return f"A zone of less than {share(answer.hidden)} of all settings may have no {kind} (95 %)."


def failing(one: Failing) -> str:
    """Where measurements failed."""
    where = ", ".join(f"{bound.dimension} {bound.text}" for bound in one.bounds) or "any setting"
    return f"Nothing is known of {where}: {one.failed:,} of {one.samples:,} samples there failed."


def unjudged(answer: Answer) -> str:
    """How many samples nothing is expected of."""
    samples = "1 more sample" if answer.unjudged == 1 else f"{answer.unjudged:,} more samples"
    return f"Of {samples} is not known what to expect."


def judged_faces(cluster: Found) -> list[str]:
    """What pairs say of the faces, a line for the confirmed and one for the others."""
    words: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for face in cluster.faces:
        pairs = "1 pair" if face.pairs == 1 else f"{face.pairs} pairs"
        inside = f"{face.dimension} {face.inside} beside {face.outside}"
        words[face.is_confirmed].append(f"{inside}: {share(face.loss)} less in {pairs}")
    names = {True: "confirmed", False: "not confirmed", None: "too few pairs to tell"}
    return [f"   {names[key]}: {'; '.join(told)}" for key, told in words.items() if told]


def _states(answer: Answer) -> str:
    words = {"wide": "wide", "two modes": "with two modes", "failed": "failed"}
    counts = [f"{count:,} {words[state]}" for state, count in answer.states.items() if state in words]
    return f"; {', '.join(counts)}" if counts else ""


def loss(cluster: Found) -> str:
    """How much a cluster falls short, and how sure that is."""
    where = f"{cluster.samples:,} samples, {share(cluster.share)} of all settings"
    if cluster.chance is None or cluster.low is None or cluster.high is None:
        return f"{share(cluster.loss)} short in {where} (median of its samples)"
    chance = (
        f"below {LEAST_CHANCE * 100:g} %"
        if cluster.chance <= LEAST_CHANCE
        else f"{cluster.chance * 100:.2f} %"
    )
    proof = f" in {cluster.uniform:,} uniform samples and {cluster.pairs:,} pairs" if cluster.pairs else ""
    return (
        f"{share(cluster.loss)} short ({share(cluster.low)} to {share(cluster.high)}) in {where}; "
        f"by chance{proof}: {chance}"
    )


def _bounds(cluster: Found) -> list[str]:
    if not cluster.bounds:
        return ["   all settings"]
    width = max(len(bound.dimension) for bound in cluster.bounds)
    return [f"   {bound.dimension:<{width}}  {bound.text}{faces(bound, cluster)}" for bound in cluster.bounds]


def faces(bound: Bound, cluster: Found) -> str:
    """How far the samples leave a bound open."""
    words: list[str] = []
    for side in (cluster.smallest, cluster.largest):
        text = next((face.text for face in side or [] if face.dimension == bound.dimension), bound.text)
        if text != bound.text:
            words.append(text)
    return f"  (could be {' or '.join(words)})" if words else ""


def _layers(cluster: Found) -> list[str]:
    if not cluster.layers:
        return [f"   {NO_LAYER}"]
    first, *others = cluster.layers
    said = [f"   {first.layer} leaves the expectation first: {_deviation(first)}"]
    if others:
        said.append(f"   then {'; '.join(f'{one.layer} {_deviation(one)}' for one in others)}")
    return said


def _deviation(one: Deviation) -> str:
    end = next((end for end in _UNITS if one.metric.endswith(f"_{end}")), "")
    name = one.metric.removesuffix(f"_{end}").replace("_", " ")
    return f"{name} {value(one.measured, one.metric)}, expected {value(one.expected, one.metric)}"


def share(part: float) -> str:
    """A share of all."""
    return human(part, "share")


def value(number: float, metric: str) -> str:
    """A metric's value with its unit."""
    unit = next((unit for end, unit in _UNITS.items() if metric.endswith(f"_{end}")), "")
    return human(number, unit)
