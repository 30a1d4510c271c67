"""Run the simulator of `crates/sim` on requests."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from iotrail.device.observed import Ints, Observed
from iotrail.errors import FitError


class Simulator(AbstractContextManager["Simulator"]):
    """Simulates the requests of one trace, with many parameters in turn. Its files are there within a `with` only."""

    def __init__(self, program: list[str], requests: Observed, shift: int = 0) -> None:
        """`program` gets two more arguments, files of parameters and of requests.

        Requests that were served in turn are so again, each as long after the one before as it was; others arrive when
        they did. `shift` (ns) postpones: each of the former, all of the latter. A time that is a part of a revolution makes
        other rotational delays.
        """
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="iotrail-fit-")
        self._parameters = Path(self._folder.name, "parameters.json")
        self._trace = Path(self._folder.name, "trace")
        self._mode = ["serial"] if requests.serial else []
        arrival = requests.arrival - requests.arrival[0]
        if requests.serial:
            arrival = np.concatenate(([0], np.diff(arrival) - requests.service[:-1]))
        table = pa.table(
            {
                "arrival_ns": arrival + shift,
                "op": pc.if_else(pa.array(requests.write), "W", "R"),
                "pos": requests.pos,
                "length": requests.length,
            }
        )
        plain = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        csv.write_csv(table, self._trace, plain)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def __call__(self, parameters: Mapping[str, Any]) -> Ints:
        """Simulated service times, in ns, by request.

        Raises:
            FitError: the simulator refuses the parameters.
        """
        self._parameters.write_text(json.dumps(parameters))
        ran = subprocess.run(
            [*self._program, str(self._parameters), str(self._trace), *self._mode],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise FitError(f"the simulator failed: {ran.stderr.strip()}")
        return np.fromstring(ran.stdout, dtype=np.int64, sep=" ").reshape(-1, 3)[:, 1]
