"""Pages of answers: one HTML file each, without scripts, its drawings inline SVG; light and dark.

`iotrail report` is no such page: it is the web application with its data inside.
"""

import html
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from iotrail.errors import IotrailError
from iotrail.native import package_version
from iotrail.page import colours
from iotrail.page.plot import Drawing
from iotrail.report import ReportError, check_output, write_whole
from iotrail.visible import visible

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
  background: var(--back); color: var(--text); overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.verdict { font-size: 1.1rem; padding: .8rem 1rem; border-left: 4px solid var(--second); background: var(--raised); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; color: var(--dim); font-weight: 500; } th.left, td.left { text-align: left; }
td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; } td.whole { white-space: normal; padding-bottom: .6rem; }
.whole > div { position: sticky; left: 0; width: fit-content; max-width: calc(100vw - 4rem); }
tr:has(+ tr .whole) td { border: 0; } code { font: 12.5px ui-monospace, monospace; user-select: all; } a { color: var(--first); }
 .note, .dim { color: var(--dim); }
.worse { color: var(--worse); } .better { color: var(--better); } .scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 1rem; }
.pair { display: grid; grid-template-columns: 660fr 480fr; gap: 1rem; } .cause { color: var(--worse); }
figure { margin: 0; } figcaption { font-weight: 600; } figcaption span { font-weight: 400; color: var(--dim); }
.tree { white-space: pre; font-family: ui-monospace, monospace; } tr:has(.tree) td { padding-block: .05rem; border: 0; }
@media (max-width: 50rem) { table { font-size: 12.5px; } td, th { padding-inline: .25rem; } }
svg { width: 100%; height: auto; } svg text:not([fill]) { fill: var(--text); }
.first { color: var(--first); font-weight: 700; } .second { color: var(--second); font-weight: 700; }
"""


class Html(str):
    """Markup that goes into a page as it is. All other text is escaped."""

    __slots__ = ()

    def __add__(self, other: str) -> "Html":
        return Html(f"{self}{text(other)}")


def text(value: str) -> Html:
    """Text as markup."""
    return value if isinstance(value, Html) else Html(html.escape(visible(value), quote=True))


def tag(name: str, *inside: str, of: str = "") -> Html:
    """An element of class `of`."""
    kind = f' class="{of}"' if of else ""
    return Html(f"<{name}{kind}>{''.join(map(text, inside))}</{name}>")


def table(
    names: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (), wrap: int | None = 0
) -> Html:
    """A table; the first column and those of `left` are text, that of `wrap` may take several lines. A row of one cell spans
    all columns, and may take several lines."""

    def cell(element: str, column: int, value: str) -> str:
        kinds = " ".join(
            kind
            for kind, has in (
                ("left", column == 0 or column in left),
                ("wrap", column == wrap and element == "td"),
            )
            if has
        )
        scope = ' scope="col"' if element == "th" else ""
        kind = f' class="{kinds}"' if kinds else ""
        return f"<{element}{kind}{scope}>{text(value)}</{element}>"

    head = "".join(cell("th", column, name) for column, name in enumerate(names))

    def line(row: Sequence[str]) -> str:
        if len(row) == 1 < len(names):
            return f'<td class="left whole" colspan="{len(names)}">{tag("div", row[0])}</td>'
        return "".join(cell("td", column, value) for column, value in enumerate(row))

    body = "".join(f"<tr>{line(row)}</tr>" for row in rows)
    return Html(
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def figure(drawing: Drawing) -> Html:
    """A drawing with its caption."""
    note = tag("span", f" {drawing.note}") if drawing.note else ""
    return Html(f"<figure>{tag('figcaption', drawing.caption, note)}{drawing.svg()}</figure>")


def figures(drawings: Iterable[Drawing], of: str = "plots") -> Html:
    """Drawings side by side, where there is room; a `pair` always, the first the larger."""
    return tag("div", *map(figure, drawings), of=of)


def document(verb: str, title: str, parts: Iterable[str]) -> bytes:
    """The page of a verb."""
    body = "\n".join(map(text, filter(None, parts)))
    made_by = f"iotrail {package_version() or ''}".strip()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"{_generator(verb)}>"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{text(f'iotrail {verb}: {title}')}</title><style>{_style()}</style></head>"
        f"<body><main>{tag('h1', f'iotrail {verb}')}{body}{tag('p', made_by, of='dim')}</main></body></html>\n"
    ).encode()


def check(path: Path, verb: str, *, force: bool) -> None:
    """Refuse, before the work begins, a file that can't be written, or that is none of the verb's own pages."""
    check_output(path, force, _generator(verb).encode(), f"a page of iotrail {verb}", "--html")
    if not path.parent.is_dir():
        raise ReportError(
            f"{path}: can't be written: {path.parent} is no folder", "--html names another place"
        )


def check_drawing(path: Path, *, force: bool) -> None:
    """Refuse to replace a file: a drawing doesn't say whose it is."""
    if path.exists() and not force:
        raise IotrailError(f"{path} exists", "--force replaces it")


def write(path: Path, content: bytes) -> None:
    """Write a page, and say where it is."""
    write_whole(path, content, "--html")
    print(path, file=sys.stderr)


def _generator(verb: str) -> str:
    # How a page is recognised, so that writing it again over itself needs no --force.
    return f'<meta name="generator" content="iotrail {verb}"'


def _style() -> str:
    names = {
        name: getattr(colours, name.upper())
        for name in ("first", "second", "text", "dim", "line", "back", "worse", "better")
    }
    variables = [f"--{name}: light-dark({light}, {colours.DARK[light]});" for name, light in names.items()]
    variables.append("--raised: light-dark(#f6f7f8, #202327);")
    drawn = [
        f'svg [{kind}="{light}"] {{ {kind}: light-dark({light}, {dark}); }}'
        for light, dark in colours.DARK.items()
        for kind in ("fill", "stroke")
    ]
    return "\n".join([_STYLE, f":root {{ {' '.join(variables)} }}", *drawn])
