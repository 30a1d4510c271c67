"""What `iotrail generate --for` and `iotrail model show --windows` say of how a part of a model stands for the whole."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from iotrail import units
from iotrail.errors import UsageError
from iotrail.model.fit import Model, load
from iotrail.model.similarity import ALLOWED, LEAST_WINDOWS, Key, Requests, Similarity, Spread, Windows, judge

_NAMES: dict[Key, str] = {
    "rate": "requests a second",
    "read_share": "reads",
    "mean_bytes": "mean size",
    "places": "places",
}
# Words for units of time that iotrail-native takes (the crate humantime) too.
_WORDS = {
    "s": ("sec", "secs", "second", "seconds"), "m": ("mins", "minute", "minutes"), "h": ("hr", "hrs", "hour", "hours"),
}  # fmt: skip
_UNITS = (
    units.NANOSECONDS
    | {word: units.NANOSECONDS[unit] for unit, words in _WORDS.items() for word in words}
    | dict.fromkeys(("d", "day", "days"), 24 * units.NANOSECONDS["h"])
)


def time_ns(text: str) -> int | None:
    """A time as 60s, 5min or 1h 30m; None if it is none, or not above 0."""
    if not re.fullmatch(r"(\s*\d{1,15}\s*[a-zµ]+)+\s*", text):
        return None
    parts = re.findall(r"(\d+)\s*([a-zµ]+)", text)
    if any(unit not in _UNITS for _, unit in parts):
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in parts) or None


def of_windows(model: Path, width: str) -> Similarity:
    """How windows of a length, such as 60s, stand for a model.

    Raises:
        ModelError: the model can't be read or drawn from.
        UsageError: the length is no time.
    """
    width_ns = time_ns(width)
    if width_ns is None:
        raise UsageError(f"--windows: expected a time above 0, found {width!r}", "such as 60s, 5min or 1h")
    return _judge(load(model), model, 1, width_ns, full=True)


def of_run(
    model: Path, *, seed: int, length: str, warm_up: str | None, start: str | None, intensity: float
) -> Similarity | None:
    """How the part that `generate --for` runs and counts stands for a model, and says so on stderr. None if one of the times is
    none: iotrail-native says that.

    Raises:
        ModelError: the model can't be read or drawn from.
    """
    length_ns, warm_up_ns, start_ns = (
        0 if text is None else time_ns(text) for text in (length, warm_up, start)
    )
    if length_ns is None or warm_up_ns is None or start_ns is None or warm_up_ns >= length_ns:
        return None
    width_ns = max(round((length_ns - warm_up_ns) * intensity), 1)
    from_ns = start_ns + round(warm_up_ns * intensity)
    found = _judge(load(model), model, seed, width_ns, from_ns=from_ns)
    for line in sentences(found, warm_up_ns=warm_up_ns, intensity=intensity):
        print(line, file=sys.stderr)
    return found


def _judge(
    model: Model, path: Path, seed: int, width_ns: int, *, from_ns: int = 0, full: bool = False
) -> Similarity:
    requests = Requests.drawn(model, path, seed=seed)
    return judge(requests, width_ns, from_ns=from_ns, model_ns=model["rate"]["length_ns"], full=full)


def sentences(found: Similarity, *, warm_up_ns: int = 0, intensity: float = 1.0) -> Iterator[str]:
    """One or two lines before a run that counts what comes after `warm_up_ns`, with gaps divided by `intensity`; nothing if it is
    as long as the model."""
    width, whole = units.duration(found.width_ns), units.duration(found.model_ns)
    if found.drawn_ns < found.model_ns:
        seen = (
            f" (looked at: {found.drawn_requests:,} requests of the first {units.duration(found.drawn_ns)})"
        )
    else:
        seen = ""
    if found.verdict == "unknown":
        few = f"{width} of {whole}{seen}: fewer than {LEAST_WINDOWS} such windows"
        yield f"iotrail: whether that part stands for the whole model is unknown: {few}"
        return
    if found.verdict == "empty":
        mean = units.duration(round(found.drawn_ns / max(found.drawn_requests, 1)))
        yield f"iotrail: warning: {width} don't stand for all {whole} of the model{seen}: requests are {mean} apart in the mean"
        yield f"  hint: --for {_time(LEAST_WINDOWS * found.drawn_ns // max(found.drawn_requests, 1))} or more holds some"
        return
    windows, part = found.windows, found.part
    if windows is None:
        return
    rate, places = windows.figure("rate"), windows.figure("places")
    nearest = _time(max(windows.nearest_ns - round(warm_up_ns * intensity), 0))
    if found.verdict == "alike":
        if part is None or not part.differs:
            yield (
                f"iotrail: {width} stand for all {whole} of the model{seen}: 9 of 10 such windows are off by at most "
                f"{_percent(rate.deviation)} in requests a second ({_percent(rate.chance)} by chance) and "
                f"{_percent(places.deviation)} in places ({_percent(places.chance)})"
            )
            return
        begin = "begins with" if part.from_ns == 0 else f"has from {units.duration(part.from_ns)} on"
        off = ", ".join(
            f"{_value(key, part.values[key])} {_NAMES[key]} instead of {_value(key, windows.figure(key).whole)}"
            if key != "places"
            else f"places {_percent(part.deviations[key])} off"
            for key in part.differs
        )
        yield f"iotrail: warning: windows of {width} are alike, but not the one that the model {begin}: {off}"
        yield f"  hint: --from {nearest} begins with the one nearest to the whole"
        return
    if found.verdict == "few":
        yield (
            f"iotrail: warning: {width} don't stand for all {whole} of the model{seen}: such windows hold "
            f"{windows.requests:,.0f} requests, and their rates are off by {_percent(rate.chance)} by chance alone"
        )
    else:
        off = ", ".join(_differs(each) for each in windows.figures if each.differs)
        yield f"iotrail: warning: {width} don't stand for all {whole} of the model{seen}: such windows have {off}"
    shortest = found.shortest_ns
    if shortest is None:
        longest = units.duration(found.longer[-1].width_ns if found.longer else found.width_ns)
        hint = f"no windows of up to {longest} are alike; without --for all of the model runs"
    else:
        # no shorter, in whole milliseconds
        length = _time(-(-(shortest / intensity + warm_up_ns) // 1e6) * 10**6)
        hint = f"windows of {units.duration(shortest)} or more are alike to {ALLOWED:.0%}: --for {length}"
    if part is not None and part.differs:
        hint += f"; --from {nearest} begins with the one nearest to the whole"
    yield f"  hint: {hint}"


def show(found: Similarity) -> Iterator[str]:
    """All that was found, as lines: windows, longer ones, the Hurst exponent, the sentences of a run."""
    if found.windows is not None:
        yield from _table(found.windows)
    if found.longer:
        yield f"{'longer windows':<24}{''.join(f'{name:>19}' for name in _NAMES.values())}  deviations of 9 in 10"
        for each in found.longer:
            cells = (
                f"{_percent(figure.deviation)}{'*' if figure.differs else ' '}" for figure in each.figures
            )
            few = f"  few requests: {each.requests:,.0f}" if each.is_few else ""
            yield f"  {units.duration(each.width_ns):<22}{''.join(f'{cell:>19}' for cell in cells)}{few}"
    if any(figure.differs for each in (found.windows, *found.longer) if each for figure in each.figures):
        yield f"* off by more than {ALLOWED:.0%} once chance is taken out"
    if (exponent := found.hurst) is None:
        yield "Hurst exponent of counts: unknown: it takes 2,048 requests, and counts that differ"
    else:
        yield (
            f"Hurst exponent of counts: {exponent.exponent:.2f} ({exponent.low:.2f} to {exponent.high:.2f}), "
            f"{exponent.scales} scales from {units.duration(exponent.shortest_ns)} to {units.duration(exponent.longest_ns)}"
        )
    if found.verdict == "whole":
        yield f"windows of {units.duration(found.width_ns)} are as long as the model, {units.duration(found.model_ns)}"
    for line in sentences(found):
        yield line.removeprefix("iotrail: ")


def _table(windows: Windows) -> Iterator[str]:
    yield (
        f"{windows.count:,} windows of {units.duration(windows.width_ns)}, {windows.requests:,.0f} requests each (median); "
        "deviation from the whole: of 9 in 10 windows"
    )
    heads = ("whole", "p10", "p50", "p90", "deviation", "by chance")
    yield f"{'':<20}{''.join(f'{head:>12}' for head in heads)}"
    for each in windows.figures:
        values = [_value(each.key, value) for value in (each.whole, each.p10, each.p50, each.p90)]
        cells = [
            *(values if each.key != "places" else [""] * 4),
            _percent(each.deviation),
            _percent(each.chance),
        ]
        yield f"  {_NAMES[each.key]:<18}{''.join(f'{cell:>12}' for cell in cells)}{' *' if each.differs else ''}"


def _differs(figure: Spread) -> str:
    low, high = _value(figure.key, figure.p10), _value(figure.key, figure.p90)
    match figure.key:
        case "rate":
            return f"{low} to {high} requests a second (p10 to p90)"
        case "read_share":
            return f"{low} to {high} reads"
        case "mean_bytes":
            return f"mean sizes of {low} to {high}"
    return f"places that differ by {_percent(figure.deviation)} ({_percent(figure.chance)} by chance)"


def _value(key: Key, value: float | None) -> str:
    if value is None:
        return "unknown"
    if key == "read_share":
        return _percent(value)
    return units.size(value) if key == "mean_bytes" else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share * 100:.1f} %"


def _time(ns: float) -> str:
    """A time as an option takes it: in the largest unit of which it is a multiple, of those up to a minute."""
    ns = round(ns)
    for unit in ("m", "s", "ms", "us"):
        if ns % units.NANOSECONDS[unit] == 0:
            return f"{ns // units.NANOSECONDS[unit]}{unit}"
    return f"{ns}ns"


def as_json(found: Similarity | None) -> str:
    """One line of JSON; null if nothing is known."""
    return json.dumps(found and found.as_dict())
