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
# Of machines, as far as they go.
MACHINES = (FIRST, SECOND, "#009e73", "#a3588a")
# Light, and none near the colour of what is worse, or critical.
FILLS = {
    "#eaf2f8": "#20303c",
    "#e9f7ef": "#1d3427",
    "#fef9e7": "#39331a",
    "#f4ecf7": "#33263a",
    "#eaeded": "#2b3032",
    "#e8f8f5": "#1b3531",
    "#fdf2e9": "#3b2b1e",
    "#d6eaf8": "#1b3a50",
}

DARK = {
    FIRST: "#56b4e9",
    SECOND: "#e69f00",
    TEXT: "#e8eaed",
    DIM: "#9aa0a6",
    LINE: "#3a3f44",
    BACK: "#16181b",
    WORSE: "#f28b82",
    BETTER: "#81c995",
    "#009e73": "#33c29b",
    "#a3588a": "#dd9cc6",
    **FILLS,
}
