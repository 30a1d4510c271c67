"""Text in which nothing acts on who shows it: names of files, programs and requests are data, not orders.

A name may hold anything that a terminal obeys: escape sequences that move the cursor, set its title or hide what follows,
line ends that forge lines, characters that turn the direction of reading. In SVG some of them are errors. They are shown
instead, as Python writes them.
"""

import re

# C0 and C1 (ISO/IEC 6429), line and paragraph separators, directions (Unicode annex 9), what has no width and so hides in
# a name, and what can't be encoded. tests/fixtures/obeyed.json holds Rust and the pages to the same.
_OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """The text with what a terminal would obey shown as `\\x1b`; line ends stay."""
    return _OBEYED.sub(_shown, text)


def one_line(text: str) -> str:
    """As `visible`, line ends too: for a name within a line."""
    return visible(text).replace("\n", "\\n")


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
