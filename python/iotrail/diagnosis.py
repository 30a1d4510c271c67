"""The diagnosis of a trail: cards of module `diagnosis`, each with the findings behind it.

Which findings are one cause, what mending it saves and what to do is decided in SQL (`sql/io/diagnosis.sql`); this
file puts the rows of two modules together.
"""

from typing import Any

from iotrail.trail import Trail
from iotrail.units import duration


def collect_cards(trail: Trail) -> list[dict[str, Any]]:
    """The cards, first one first. Each has `details`: the findings behind it, the leading one first."""
    cards = trail.rows_of("SELECT * FROM diagnosis ORDER BY place")
    findings = trail.rows_of("""
        SELECT card, finding, severity, title, cost_ns, evidence
        FROM diagnosis_finding ORDER BY card, leads DESC, gain_ns DESC NULLS LAST, finding""")
    for card in cards:
        card["details"] = [
            {name: value for name, value in finding.items() if name != "card"}
            for finding in findings
            if finding["card"] == card["card"]
        ]
        del card["card"]
    return cards


def describe_gain(card: dict[str, Any]) -> str:
    """`saves 1.2 s, 40 % of the run`, or that it is not known; empty where nothing is to be gained."""
    if card["gain_ns"] is None:
        return "" if card["cost_ns"] is None or card["cause"] == "storage_idle" else "gain not known"
    if card["gain_ns"] == 0 or card["gain_share"] is None:
        return ""
    share = card["gain_share"] * 100
    return f"saves about {duration(card['gain_ns'])}, {share:.0f} % of the run" if share >= 0.5 else ""
