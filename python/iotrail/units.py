"""Numbers for people: times, sizes, rates and shares with three significant digits and their unit."""

import json
import shlex

# Units of time as people write them.
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}

# Bytes of each unit of a size, by powers of 1024 and of 1000.
BYTES = {
    "B": 1,
    **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGTP", 1)},
    **{f"{letter}B": 10 ** (3 * power) for power, letter in enumerate("kMGTP", 1)},
}

_DECIMAL = ("", "k", "M", "G", "T", "P")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def human(value: float, unit: str) -> str:
    """A value in its unit as text; a unit that isn't known is left out."""
    match unit:
        case "ns":
            return duration(value)
        case "bytes":
            return size(value)
        case "bytes/s":
            return f"{size(value)}/s"
        case "1/s":
            return f"{decimal(value)}/s"
        case "share":
            return f"{value * 100:.1f} %"
        case _:
            return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def duration(ns: float) -> str:
    """Nanoseconds as ns, µs, ms, s, min or h."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < 1000:
        return f"{sign}{ns:.0f} ns"
    for unit, length in (("µs", 1e3), ("ms", 1e6), ("s", 1e9)):
        # 999.96 ms would be shown as 1000 ms: that is 1.00 s
        if ns < length * 999.5 or (unit == "s" and ns < 120e9):
            return f"{sign}{_three(ns / length)} {unit}"
    minutes = ns / 60e9
    return f"{sign}{_three(minutes)} min" if minutes < 120 else f"{sign}{_three(minutes / 60)} h"


def size(count: float) -> str:
    """Bytes as B, KiB, MiB …"""
    number, power = float(abs(count)), 0
    while number >= 1023.5 and power < len(_BINARY) - 1:
        number, power = number / 1024, power + 1
    sign = "-" if count < 0 else ""
    return f"{sign}{_three(number) if power else f'{number:.0f}'} {_BINARY[power]}"


def decimal(count: float) -> str:
    """A count as 999, 1.23 k, 12.3 M …"""
    number, power = float(abs(count)), 0
    while number >= 999.5 and power < len(_DECIMAL) - 1:
        number, power = number / 1000, power + 1
    sign = "-" if count < 0 else ""
    text = f"{number:.0f}" if power == 0 and number == int(number) else _three(number)
    return f"{sign}{text} {_DECIMAL[power]}".rstrip()


def _three(number: float) -> str:
    """Three significant digits, never fewer than the integer has."""
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 99.95 else f"{number:,.0f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2,000 files`; `many` where the plural isn't with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def shell_line(recorded: str) -> str:
    """A recorded command (a JSON list of words, where a recorder wrote it) as a line of a shell."""
    try:
        words = json.loads(recorded)
    except (ValueError, RecursionError):
        return recorded
    return shlex.join(map(str, words)) if isinstance(words, list) else recorded
