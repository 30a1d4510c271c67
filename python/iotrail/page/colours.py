"""Colours of drawings. A drawing carries those of a light page, so that it stands alone in a file; a page that is dark
gives each its counterpart here.

The two that tell runs, or reads and writes, apart are the first two of the palette by Okabe and Ito
(https://jfly.uni-koeln.de/color/), made for the colour-blind too.
"""

FIRST = "#0072b2"
SECOND = "#d55e00"
TEXT = "#1c1e21"
DIM = "#5c6166"
LINE = "#d9dce0"
BACK = "#ffffff"
WORSE = "#b3261e"
BETTER = "#146c2e"

DARK = {
    FIRST: "#56b4e9",
    SECOND: "#e69f00",
    TEXT: "#e8eaed",
    DIM: "#9aa0a6",
    LINE: "#3a3f44",
    BACK: "#16181b",
    WORSE: "#f28b82",
    BETTER: "#81c995",
}
