"""Is the first card right? Programs with a planted bottleneck, and healthy ones.

Each program of examples/diagnosis is recorded and `iotrail summary` asked; judge.py says how an answer is held to the
program. DIAGNOSIS_NAMES="one two" judges only those. Drishti and PyDarshan, which read Darshan's logs, are not run.
"""

import os
import sys

from measure import ROOT, console, keep, table

sys.path.insert(0, str(ROOT / "examples" / "diagnosis"))

import judge


def bench() -> None:
    """Judge all programs and print the tables."""
    wanted = os.environ.get("DIAGNOSIS_NAMES", "").split()
    rows = []
    for kind in ("planted", "healthy"):
        verdicts = []
        for program in judge.programs(kind):
            if wanted and program.name not in wanted:
                continue
            if console.is_terminal:
                console.print(f"  {program.name:30}", end="\r", style="dim")
            verdicts.append(judge.judge(program))
        show(kind, verdicts)
        rows += verdicts
    keep(
        "diagnosis",
        programs=[
            {
                "program": verdict.program.name,
                "planted": verdict.program.causes,
                "held": verdict.program.is_held,
                "right": verdict.is_right,
                "wrong": verdict.wrong or verdict.skipped,
                "cards": [
                    {name: card[name] for name in ("cause", "severity", "title", "gain_ns", "gain_share")}
                    for card in verdict.cards
                ],
            }
            for verdict in rows
        ],
    )


def show(kind: str, verdicts: list[judge.Verdict]) -> None:
    """The table of the planted or the healthy programs, and how many are right."""
    if kind == "planted":
        shape = table(
            "Planted bottlenecks: the first card",
            ("program", "planted cause", "first card", "right", "other medium and high cards"),
        )
    else:
        shape = table("Healthy programs: medium and high cards", ("program", "shown", "right"))
    for column in shape.columns:
        column.justify = "left"
        column.no_wrap = False
    for verdict in verdicts:
        name = verdict.program.name + (" *" if verdict.program.is_held else "")
        mark = "–" if verdict.skipped else "yes" if verdict.is_right else "[bold red]no[/]"
        if verdict.skipped:
            cells = [verdict.skipped]
        elif kind == "planted":
            cells = [verdict.cards[0]["cause"] if verdict.cards else "none"]
        else:
            cells = ["; ".join(f"{card['severity']} {card['cause']}" for card in verdict.grave) or "nothing"]
        if kind == "planted":
            others = [card for card in verdict.grave if card is not verdict.cards[0]]
            cells = [", ".join(verdict.program.causes), *cells]
            shape.add_row(name, *cells, mark, "; ".join(f"{c['severity']} {c['cause']}" for c in others))
        else:
            shape.add_row(name, *cells, mark)
    console.print(shape)
    for label, held in (("rules were chosen with", False), ("* held out", True)):
        judged = [v for v in verdicts if v.program.is_held == held and not v.skipped]
        right = sum(verdict.is_right for verdict in judged)
        console.print(f"{label}: {right} of {len(judged)} right")
    console.print()
