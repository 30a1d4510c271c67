"""What Drishti and PyDarshan say of a program of examples/diagnosis: both read the logs of a Darshan run.

Darshan writes a log a process. The logs of the five processes with the longest time in I/O are asked.
"""

import csv
import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import judge

from recorders import recorders

DRISHTI = Path(sysconfig.get_path("scripts")) / "drishti"
# Drishti's codes (its includes/config.py, 0.8) that it shows as critical.
CRITICAL = {
    "S01": "stdio used",
    "P05": "small reads",
    "P06": "small writes",
    "P07": "unaligned memory",
    "P08": "unaligned requests",
    "P11": "random reads",
    "P13": "random writes",
    "P15": "small reads of a shared file",
    "P16": "small writes to a shared file",
    "P17": "time in metadata",
    "P18": "uneven bytes of ranks",
    "P19": "uneven time of ranks",
    "P21": "uneven writes of ranks",
    "P22": "uneven reads of ranks",
    "M02": "no collective reads",
    "M03": "no collective writes",
    "M08": "aggregators across nodes",
}
# Those it shows as warnings; M01 (no MPI-IO used), which it says of every program here, is left out.
WARNINGS = {"P09": "redundant reads", "P10": "redundant writes"}
# Finding of iotrail -> codes that point the same way, read with goodwill.
SAME = {
    "backward_reads": {"P11"},
    "eof_polling": {"P05"},
    "failed_opens": {"P17"},
    "missing_files": {"P17"},
    "mapped_files": set(),
    "overwritten_data": {"P10", "P13"},
    "random_reads": {"P11"},
    "random_stdio": {"S01", "P11"},
    "read_modify_write": {"P09", "P11", "P13"},
    "reopened_files": {"P17"},
    "repeated_stat": {"P17"},
    "rereads": {"P09"},
    "seek_per_access": {"P05", "P11"},
    "slow_thread": {"P18", "P19"},
    "small_direct": {"P05", "P06"},
    "small_files": {"P05", "P06", "P17"},
    "small_reads": {"P05"},
    "stdio_flush": {"S01", "P06"},
    "strided_access": {"P05", "P11"},
    "tiny_appends": {"P06"},
}
# Logs of one program that are read, largest first, and those of them that are asked.
READ = 100
ASKED = 5


class CannotAsk(Exception):
    """The peers can't run here; the message says why."""


@dataclass(frozen=True)
class Opinion:
    """What the two say of a program."""

    # Codes of Drishti that it shows as critical or as warnings.
    codes: list[str]
    # Share of the run time in reads, writes and metadata calls as PyDarshan's report has it, of the process with the
    # longest; None: no log had I/O.
    io_share: float | None
    # Why there is none; empty if there is.
    missing: str = ""

    @property
    def critical(self) -> list[str]:
        """Codes shown as critical."""
        return [code for code in self.codes if code in CRITICAL]

    def names(self, causes: Sequence[str]) -> bool:
        """Whether a code points to one of these findings."""
        return any(code in SAME.get(cause, ()) for cause in causes for code in self.codes)

    def __str__(self) -> str:
        if self.missing:
            return self.missing
        return ", ".join({**CRITICAL, **WARNINGS}[code] for code in self.codes) or "nothing"


def check() -> None:
    """Whether both can be asked.

    Raises:
        CannotAsk: Darshan's library, Drishti or PyDarshan is missing.
    """
    missing = {recorder.name: recorder.missing for recorder in recorders()[1]}
    if "darshan" in missing:
        raise CannotAsk(f"Darshan: {missing['darshan']}")
    if not DRISHTI.exists():
        raise CannotAsk("pip install drishti-io")


def ask(program: judge.Program) -> Opinion:
    """Run a program under Darshan and ask both about its logs."""
    darshan = next(recorder for recorder in recorders()[0] if recorder.name == "darshan")

    def wrap(folder: Path, command: Sequence[str]) -> list[str]:
        logs = folder / "logs"
        logs.mkdir()
        variables = darshan.variables(logs)
        for path in [logs, *logs.rglob("*")]:
            path.chmod(0o777)
        return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]

    try:
        with judge.ran(program, wrap) as folder:
            logs = sorted((folder / "logs").rglob("*.darshan"), key=lambda log: -log.stat().st_size)
            if not logs:
                return Opinion([], None, "no log")
            timed = sorted(((_io_share(log), log) for log in logs[:READ]), key=lambda pair: -pair[0][1])
            codes = sorted({code for _, log in timed[:ASKED] for code in _drishti(log)})
            return Opinion(codes, timed[0][0][0])
    except (judge.CannotRun, subprocess.TimeoutExpired) as error:
        return Opinion([], None, f"under Darshan: {error}")


def _io_share(log: Path) -> tuple[float | None, float]:
    """Share of the run time in I/O, and seconds in it, as PyDarshan's report shows them ("I/O cost")."""
    import darshan
    from darshan.experimental.plots.plot_io_cost import get_io_cost_df

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = darshan.DarshanReport(str(log), read_all=True)
        if not {"POSIX", "STDIO"} & set(report.records):
            return None, 0.0
        cost = get_io_cost_df(report)
    seconds = float(cost[["Read", "Write", "Meta"]].to_numpy().sum())
    return seconds / max(report.metadata["job"]["run_time"], 1e-9), seconds


def _drishti(log: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(DRISHTI), "--csv", "--export_dir", folder, str(log)],
            env=dict(os.environ, TERM="dumb"),
            capture_output=True,
            text=True,
            check=False,
        )
        written = list(Path(folder).glob("*.csv"))
        if not written:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise judge.CannotRun(f"drishti {log.name}: {last}")
        with written[0].open(newline="") as file:
            row = next(csv.DictReader(file))
    return [code for code, shown in row.items() if shown == "True" and code in {**CRITICAL, **WARNINGS}]
