"""The command lines of `iotrail anomalies` and `iotrail profile`."""

import enum
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from iotrail.errors import UsageError
from iotrail.options import TrailPath


class Method(enum.StrEnum):
    """How clusters are found."""

    PURSUIT = "pursuit"
    PAPER = "paper"


def anomalies(
    trail: TrailPath,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="OLD.trail",
            help="Expect what this sweep measured at the same settings: clusters are regressions, and no model is needed.",
            show_default=False,
        ),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="FILE.py:FUNCTION|NAME",
            help="Expect what this function returns, or linux, paper or stack, whatever the specification says: nothing is measured again.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        str,
        typer.Option(
            "--threshold", metavar="N%", help="Report losses of at least this share of what is expected."
        ),
    ] = "10%",
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="pursuit tells overlapping causes apart by the size of losses; paper is Algorithm 4.1 of FAST 2005.",
        ),
    ] = Method.PURSUIT,
    epsilon: Annotated[
        float,
        typer.Option(
            "--epsilon",
            metavar="SHARE",
            help="With --method paper: the share of a cluster's samples that fall short, at least.",
        ),
    ] = 0.9,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page of it, with drawings.", show_default=False),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="Y.trail",
            help="Say which clusters the reads of this recorded program fall into.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is something else.")] = False,
) -> None:
    """Show in which settings a measured system falls short of what is expected: by how much, how sure, and in which layer."""
    from iotrail.anomaly import answer, text
    from iotrail.anomaly import profile as profiles
    from iotrail.terminal import Console
    from iotrail.trail import Trail

    if compare is not None and expect is not None:
        raise UsageError("--expect can't be combined with --compare", "use one of them")
    if expect is not None and expect.endswith(".trail"):
        raise UsageError(
            f"--expect: expected FILE.py:FUNCTION or a name, found {expect!r}", f"--compare {expect}"
        )
    if not 0 < epsilon <= 1:
        raise UsageError(f"--epsilon: expected a share above 0 and at most 1, found {epsilon}")
    if page is not None:
        from iotrail.page import check

        check(page, "anomalies", force=force)
    opened = Trail(trail)
    samples = answer.read(opened, None if compare is None else Trail(compare), expect)
    found = answer.find(samples, str(trail), method=method, threshold=_share(threshold), epsilon=epsilon)
    if page is not None:
        from iotrail.anomaly.page import render
        from iotrail.anomaly.window import Window, read_windows, report_command
        from iotrail.page import Html, tag, write

        windows = read_windows(opened)

        def command(window: Window) -> Html:
            return tag("code", report_command(str(trail), window, windows.start_ts or window.ts))

        write(page, render(found, samples, windows, command))
    program_profile = None if program is None else profiles.read(Trail(program))
    if as_json:
        answered = found.json()
        if program_profile is not None:
            codes = profiles.nearest(program_profile, samples.space)
            answered["profile"] = asdict(program_profile)
            for cluster, each in zip(found.clusters, answered["clusters"], strict=True):
                each["has_profile"] = profiles.falls_into(samples.space, codes, cluster.box)
        print(json.dumps(answered, indent=2))
        return
    console = Console(soft_wrap=True)
    for line in text.lines(found):
        console.print(line)
    if program_profile is not None:
        console.print("")
        for line in profiles.place(samples.space, program_profile, found.clusters):
            console.print(line)


def profile(
    trail: TrailPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Describe the reads of a recorded program: sequential streams, run lengths, think times."""
    from iotrail.anomaly import profile as profiles
    from iotrail.terminal import Console
    from iotrail.trail import Trail

    found = profiles.read(Trail(trail))
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    console = Console(soft_wrap=True)
    for line in found.lines():
        console.print(line)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--threshold: expected a share like 10%, found {text!r}")
    return share
