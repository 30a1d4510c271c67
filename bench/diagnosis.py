"""Is the first card right? Programs with a planted bottleneck, and healthy ones.

Each program of examples/diagnosis is recorded and `iotrail summary` asked; judge.py says how an answer is held to the
program. Then it is run under Darshan, and Drishti and PyDarshan are asked, if they are here (diagnosis_peers.py).
DIAGNOSIS_NAMES="one two" judges only those.
"""

import os
import sys

from measure import ROOT, console, keep, table

sys.path.insert(0, str(ROOT / "examples" / "diagnosis"))

import judge

import diagnosis_peers as peers


def bench() -> None:
    """Judge all programs and print the tables."""
    try:
        peers.check()
        can_ask = True
    except peers.CannotAsk as missing:
        console.print(f"Drishti and PyDarshan are left out: {missing}\n")
        can_ask = False
    wanted = os.environ.get("DIAGNOSIS_NAMES", "").split()
    rows = []
    asked: dict[str, peers.Opinion] = {}
    for kind in ("planted", "healthy"):
        verdicts = []
        for program in judge.programs(kind):
            if wanted and program.name not in wanted:
                continue
            if console.is_terminal:
                console.print(f"  {program.name:30}", end="\r", style="dim")
            verdicts.append(judge.judge(program))
            if can_ask:
                asked[program.name] = peers.ask(program)
        show(kind, verdicts)
        if can_ask:
            show_peers(kind, verdicts, asked)
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
                "drishti": opinion.codes if (opinion := asked.get(verdict.program.name)) else None,
                "pydarshan_io_share": opinion.io_share if opinion else None,
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
        if judged:
            console.print(f"{label}: {sum(verdict.is_right for verdict in judged)} of {len(judged)} right")
    console.print()


def show_peers(kind: str, verdicts: list[judge.Verdict], asked: dict[str, peers.Opinion]) -> None:
    """What Drishti and PyDarshan say of the same programs, and how often a peer names the cause or blames in vain."""
    planted = kind == "planted"
    shape = table(
        "The same programs under Darshan: critical issues and warnings of Drishti, time in I/O of PyDarshan",
        (
            "program",
            *(["planted cause"] if planted else []),
            "Drishti",
            "names it" if planted else "right",
            "in I/O",
        ),
    )
    for column in shape.columns:
        column.justify = "left"
        column.no_wrap = False
    right = 0
    for verdict in verdicts:
        program, opinion = verdict.program, asked[verdict.program.name]
        if opinion.missing:
            mark = "–"
        else:
            is_right = opinion.names(program.causes) if planted else not opinion.critical
            right += is_right
            mark = "yes" if is_right else "no"
        share = "–" if opinion.io_share is None else f"{opinion.io_share * 100:.0f} %"
        causes = [", ".join(program.causes)] if planted else []
        shape.add_row(program.name, *causes, str(opinion), mark, share)
    console.print(shape)
    what = "has an issue that points to the cause" if planted else "shows no critical issue"
    console.print(f"Drishti {what}: {right} of {sum(not asked[v.program.name].missing for v in verdicts)}\n")
