"""The page of `iotrail anomalies --html`: what was measured beside what is expected, and each cluster's settings and layers.

Follows figures 5 and 6 of Shen, Zhong and Li (FAST 2005).
"""

from collections.abc import Callable
from math import log2

import numpy as np

from iotrail import units
from iotrail.anomaly import text
from iotrail.anomaly.answer import Answer, Found, Samples
from iotrail.anomaly.describe import value_text
from iotrail.anomaly.space import Flags
from iotrail.anomaly.window import Window, Windows
from iotrail.moments import written
from iotrail.page import Html, document, figures, table, tag
from iotrail.page import text as text_of
from iotrail.page.colours import DIM, FIRST, LINE, SECOND
from iotrail.page.plot import BOTTOM, TOP, Drawing, Plot, linear, octaves, words

# The largest errors that figure 5 shows, as a share of all samples.
_LARGEST = 0.1
# Samples in the table of a cluster.
_SHOWN = 10
# Pixels of parallel coordinates.
_WIDTH, _HEIGHT, _LEFT, _RIGHT = 1120, 260, 40, 90
# Pixels around a value's place that lines of samples with it are spread over, as a share of the distance of two values.
_SPREAD = 0.5


# How a person sees the requests of a measurement: a link, or a command to copy.
Show = Callable[[Window], Html]


def render(answer: Answer, samples: Samples, windows: Windows, show: Show) -> bytes:
    """The page of an answer and the samples that it is of, each with when it was measured."""
    first, *_ = text.lines(answer)
    parts: list[str] = [
        tag("p", first, of="verdict"),
        tag("h2", "Measured and expected"),
        figures([_all_samples(samples, answer.threshold), _largest(samples, answer.threshold)]),
    ]
    normal = _normal(answer, samples)
    if not answer.clusters:
        parts += [tag("p", line) for line in text.lines(answer)[1:]]
    for number, cluster in enumerate(answer.clusters, 1):
        parts += _cluster(number, cluster, samples)
        inside = samples.space.contains(cluster.box, samples.codes)
        parts += _samples(answer, samples, inside, normal, windows, show)
    if answer.clusters:
        notes = [text.hidden(answer), *map(text.failing, answer.failing)]
        notes += [text.unjudged(answer)] if answer.unjudged else []
        parts += [tag("p", note, of="note") for note in notes]
    return document("anomalies", answer.trail, parts)


def _all_samples(samples: Samples, threshold: float) -> Drawing:
    """Figure 6: all samples in the order of what is expected, and what was measured."""
    known = np.flatnonzero(~np.isnan(samples.losses))
    expected, measured = samples.target_expected[known], samples.target_measured[known]
    order = np.argsort(expected, kind="stable")
    low, high = log2(min(expected.min(), measured.min())), log2(max(expected.max(), measured.max()))
    unit = samples.spec.target.unit
    plot = Plot(
        linear(0, len(known), lambda value: f"{value:.0f}"),
        octaves(
            low,
            high,
            lambda value: units.human(value, unit) if unit else f"{value:.3g}",
            binary=unit.startswith("bytes"),
        ),
        height=260,
        left=90,
    )
    places = list(enumerate(np.log2(measured[order])))
    short = samples.losses[known][order] >= -np.log1p(-threshold)
    plot.dots([place for place, is_short in zip(places, short, strict=True) if not is_short], FIRST, 0.7)
    plot.dots([place for place, is_short in zip(places, short, strict=True) if is_short], SECOND, 0.9)
    plot.line(range(len(known)), np.log2(expected[order]), DIM)
    return plot.drawing(
        "All samples",
        f"in the order of what is expected (line); dots: measured, orange at least {text.share(threshold)} short",
    )


def _largest(samples: Samples, threshold: float) -> Drawing:
    """Figure 5: the samples that fall short most."""
    losses = np.sort(1 - np.exp(-samples.losses[~np.isnan(samples.losses)]))[::-1]
    shown = losses[: max(int(np.ceil(_LARGEST * len(losses))), 10)]
    top = max(float(shown.max()), threshold, 0.01)
    plot = Plot(
        linear(0, len(shown), lambda value: f"{value:.0f}"),
        linear(min(0.0, float(shown.min())), top, lambda value: f"{value * 100:.0f} %"),
        height=260,
    )
    plot.line([0, len(shown)], [threshold, threshold], DIM, dashed=True)
    plot.dots(enumerate(map(float, shown)), SECOND, 0.9, width=4)
    return plot.drawing(
        "The largest losses",
        f"1 - measured / expected of the {len(shown)} samples that fall short most; dashed: the threshold",
    )


def _cluster(number: int, cluster: Found, samples: Samples) -> list[str]:
    inside = samples.space.contains(cluster.box, samples.codes)
    parts: list[str] = [
        tag("h2", f"{number}. {text.loss(cluster)}"),
        table(
            ["dimension", "values"],
            [[bound.dimension, bound.text + text.faces(bound, cluster)] for bound in cluster.bounds]
            or [["all settings", ""]],
            left=(1,),
        ),
        *(tag("p", line.strip()) for line in text.judged_faces(cluster)),
        figures([_parallel(cluster, samples, inside)], of="wide"),
    ]
    if cluster.layers:
        parts += [
            tag("h3", f"It leaves the expectation first in layer {cluster.layers[0].layer}"),
            table(
                ["layer", "metric", "measured", "expected", "samples of the cluster that are off", "others"],
                [
                    [
                        one.layer,
                        one.metric,
                        text.value(one.measured, one.metric),
                        text.value(one.expected, one.metric),
                        text.share(one.inside),
                        "" if one.outside is None else text.share(one.outside),
                    ]
                    for one in cluster.layers
                ],
                left=(1,),
                wrap=None,
            ),
        ]
    else:
        parts.append(tag("p", text.NO_LAYER, of="note"))
    return parts


def _normal(answer: Answer, samples: Samples) -> Flags:
    """Which samples are in no cluster, and reach what is expected to within the threshold: not much more, either, for then the
    expectation doesn't hold there."""
    with np.errstate(invalid="ignore"):
        normal = np.asarray(np.abs(samples.losses) < -np.log1p(-answer.threshold))
    for cluster in answer.clusters:
        normal &= ~samples.space.contains(cluster.box, samples.codes)
    return normal


def _samples(
    answer: Answer, samples: Samples, inside: Flags, normal: Flags, windows: Windows, show: Show
) -> list[str]:
    """The samples of a cluster that fall short most, each above the normal one with the nearest setting, to compare them."""
    of = np.flatnonzero(inside & ~np.isnan(samples.losses))
    of = of[np.argsort(-samples.losses[of], kind="stable")][:_SHOWN]
    others = np.flatnonzero(normal)
    rows: list[list[str]] = []
    for number, at in enumerate(map(int, of), 1):
        rows += [_sample(samples, at, None, str(number)), [_measured(samples, at, windows, show)]]
        if len(others):
            near = int(others[samples.space.nearest(samples.codes[at], samples.codes[others])])
            rows += [_sample(samples, near, at, "normal"), [_measured(samples, near, windows, show)]]
    names = [dimension.name for dimension in samples.space.dimensions]
    within = f"reaches what is expected within {text.share(answer.threshold)}"
    note = (
        f"Below each is the sample outside all clusters with the nearest setting that {within}: it differs in the fewest dimensions, "
        "in bold, and by the fewest steps."
        if len(others)
        else f"No sample outside all clusters {within}: there is none to compare with."
    )
    return [
        tag("h3", "Samples that fall short most"),
        tag("p", note, of="note"),
        table(["", *names, "measured", "expected", "short"], rows, wrap=None),
    ]


def _sample(samples: Samples, at: int, beside: int | None, name: str) -> list[str]:
    """The row of a sample; where its setting differs from that of the sample `beside`, it is bold."""
    unit = samples.spec.target.unit
    values = [
        value_text(dimension, dimension.values[code])
        for dimension, code in zip(samples.space.dimensions, samples.codes[at], strict=True)
    ]
    if beside is not None:
        differs = samples.codes[at] != samples.codes[beside]
        values = [
            tag("b", value) if is_other else value for value, is_other in zip(values, differs, strict=True)
        ]
    return [
        name,
        *values,
        units.human(float(samples.target_measured[at]), unit),
        units.human(float(samples.target_expected[at]), unit),
        text.share(1 - float(np.exp(-samples.losses[at]))),
    ]


def _measured(samples: Samples, at: int, windows: Windows, show: Show) -> Html:
    """When a sample was measured, and how to see its requests."""
    window = windows.of.get(int(samples.ids[at]))
    if window is None:
        return text_of("when it was measured is unknown")
    times = f" (the first of {window.count} times)" if window.count > 1 else ""
    said = text_of(f"measured at {written(window.ts)} for {units.duration(window.dur)}{times}")
    return said + "; requests: " + show(window) if window.has_requests else said


def _parallel(cluster: Found, samples: Samples, inside: Flags) -> Drawing:
    """Parallel coordinates: a line a sample, an axis a dimension, and the cluster as a band (Inselberg, The plane with parallel
    coordinates, The Visual Computer 1, 1985)."""
    space = samples.space
    across = (
        np.linspace(_LEFT, _WIDTH - _RIGHT, len(space.dimensions))
        if len(space.dimensions) > 1
        else np.array([_WIDTH / 2])
    )
    bottom, top = _HEIGHT - BOTTOM, TOP + 20
    steps = [(bottom - top) / len(dimension.values) for dimension in space.dimensions]

    def down(at: int, code: float) -> float:
        return float(bottom - (code + 0.5) * steps[at])

    rng = np.random.default_rng(0)
    spread = (rng.random(samples.codes.shape) - 0.5) * _SPREAD
    known = ~np.isnan(samples.losses)
    parts = []
    for chosen, colour, opacity in ((known & ~inside, DIM, 0.15), (known & inside, SECOND, 0.55)):
        path = "".join(
            "M"
            + "L".join(
                f"{x:.0f} {down(at, code):.1f}" for at, (x, code) in enumerate(zip(across, row, strict=True))
            )
            for row in (samples.codes + spread)[chosen]
        )
        if path:
            parts.append(
                f'<path d="{path}" fill="none" stroke="{colour}" stroke-opacity="{opacity}" stroke-width="0.8"/>'
            )
    for at, (dimension, box) in enumerate(zip(space.dimensions, cluster.box, strict=True)):
        x = across[at]
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top:.0f}" y2="{bottom:.0f}" stroke="{LINE}"/>')
        members = dimension.sets[box]
        if not members.all():
            parts += [
                f'<rect x="{x - 5:.0f}" y="{down(at, code + 0.5):.1f}" width="10" height="{steps[at]:.1f}" fill="{SECOND}" fill-opacity="0.5"/>'
                for code in np.flatnonzero(members)
            ]
        for code, value in enumerate(dimension.values):
            parts.append(words(x + 8, down(at, code) + 4, value_text(dimension, value)))
        parts.append(words(x, TOP + 4, dimension.name, "middle"))
    return Drawing(
        "Settings of its samples",
        _WIDTH,
        _HEIGHT,
        "".join(parts),
        "a line a sample; orange: in the cluster, whose values are marked",
    )
