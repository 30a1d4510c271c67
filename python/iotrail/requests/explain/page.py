"""`iotrail explain --html`: the verdict with what it rests on, drawn, as one page."""

from iotrail.diff.flow_command import STEPS, sentence, step_row
from iotrail.diff.flow_page import drawn
from iotrail.diff.page import keys
from iotrail.page import Html, document, figures, table, tag
from iotrail.requests import graph
from iotrail.requests.explain import drawing, show
from iotrail.requests.explain.command import Explanation
from iotrail.requests.explain.verdict import Sentence


def render(found: Explanation, trail: str) -> bytes:
    """The page; `trail` is the name of what was asked."""
    parts: list[Html] = [
        tag("p", f"{trail}, client {found.client}, {drawing.when(found.window)}"),
        tag("p", found.verdict.text, of="verdict"),
        *(tag("p", line, of="worse") for line in found.lost),
        *map(_sentence, found.verdict.sentences),
        tag("h2", "Requests"),
        table(show.REQUESTS, map(show.request_row, found.asked)),
        *_asked(found),
        *_used(found),
        *_usual(found),
        tag("h2", "Where the time goes"),
        *graph.parts(found.graph),
    ]
    return document("explain", f"{trail}, client {found.client}", parts)


def _sentence(said: Sentence) -> Html:
    words = tag(
        "h3", f"{show.TITLES[said.about]}: {said.text} ", tag("span", f"({said.certainty})", of="note")
    )
    evidence = tag("ul", *(tag("li", line) for line in said.evidence), of="note")
    advice = tag("p", f"→ {said.advice}", of="better") if said.advice else Html()
    return tag("section", words, evidence, advice, of="cause" if said.cause else "")


def _asked(found: Explanation) -> list[Html]:
    if found.pattern is None:
        return []
    return [
        tag("h2", f"What {found.client} asks for"),
        figures(drawing.asked(found.pattern), of="pair"),
    ]


def _used(found: Explanation) -> list[Html]:
    known = drawing.known(found.resources)
    parts = [
        tag("h2", "How busy resources were"),
        table(show.RESOURCES, map(show.resource_row, found.resources), left={8}),
    ]
    parts.append(tag("p", show.legend(found), of="note"))
    if known:
        panels = [drawing.used(resource, found.window) for resource in known[: drawing.MOST_RESOURCES]]
        beside = "share in use over time; beside it, in which share of the time it was how large"
        parts += [figures(panels), tag("p", beside, of="note")]
    if len(known) > drawing.MOST_RESOURCES:
        parts.append(tag("p", f"{len(known) - drawing.MOST_RESOURCES} more are not drawn", of="note"))
    return parts


def _usual(found: Explanation) -> list[Html]:
    if found.usual.comparison is None or found.usual.whose is None:
        return []
    slower = found.usual.slower
    parts = [tag("h2", "Against the usual")]
    if not slower:
        return [*parts, tag("p", f"no step takes longer than those of {found.usual.whose}")]
    parts.append(keys(found.usual.whose, f"{found.client} now"))
    parts.append(tag("ol", *(tag("li", sentence(difference)) for difference in slower)))
    steps = [difference for difference in slower if difference.figures]
    if steps:
        parts.append(table(STEPS, map(step_row, steps)))
    return [*parts, *drawn(slower)]
