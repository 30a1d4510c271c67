"""What peers of `iotrail anomalies` find in samples: pysubgroup, SliceLine and PRIM, in whose virtual environment this runs.

`under_anomaly_peers.py SAMPLES.npz PROCESSES`: standard input is `{"space": [[DIMENSION, VALUES, is_ordered], …], "work": [[NAME, METHOD,
PARAMETERS, JOB], …]}`; samples of job 0 are `codes_0` and `losses_0`. For each piece of work it prints a line of JSON: name, job, boxes,
seconds of CPU. A box is a list of codes for each dimension, outside of which it has no settings.

All three look for one box with high losses. Here each goes on in the samples outside the boxes found so far, as long as the box has at
least FEWEST samples there with a mean loss of a tenth. Parameters are in anomaly_peers.py: of those tried the best on the four overlapping
causes with seeds that the benchmark doesn't use (101 to 105).

- pysubgroup 0.9: numeric target, StandardQFNumeric, which is nᵃ · (mean inside - mean of all), with a of 0.5 (tried: 0.5, 0.6, 1). All
  intervals of ordered dimensions are selectors, so that nothing is lost by binning. Beam search as wide as by default, 20 (tried: 100); its
  exhaustive search takes minutes. At least 3 samples, as iotrail has it, and at least 10.
- SliceLine 0.3: losses are the errors. Its predicates are values of columns, so each cut of an ordered dimension is a column of its own.
  At most 4 predicates and at least 10 samples as by default, alpha of its paper, 0.95; no other was tried, as a sweep takes it half a minute.
- PRIM of the EMA workbench 2.5: regression, ordered dimensions as whole numbers, 0.1 peeled off at a time (tried: 0.05), the default
  objective (tried: the other two), at least 10 samples (tried: 20). It is made for a person who picks a box of the peeling trajectory; here
  that with the best √n · (mean inside - mean of all) is picked.
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")

# As in iotrail: fewer samples, or a smaller loss, are no cluster.
FEWEST = 3
LEAST = -np.log1p(-0.1)
MOST_BOXES = 12
Box = list[list[int]]


@dataclass(frozen=True)
class Dimension:
    """A name, how many values there are, and whether they are ordered."""

    name: str
    values: int
    is_ordered: bool


Find = Callable[[Sequence[Dimension], np.ndarray, np.ndarray], "Box | None"]


def contains(box: Box, codes: np.ndarray) -> np.ndarray:
    """Which samples are in a box."""
    return np.all([np.isin(codes[:, at], among) for at, among in enumerate(box)], axis=0)


def repeat(find: Find, dimensions: Sequence[Dimension], codes: np.ndarray, losses: np.ndarray) -> list[Box]:
    """Boxes one after the other, each in the samples outside those before."""
    boxes: list[Box] = []
    left = np.ones(len(codes), dtype=bool)
    while len(boxes) < MOST_BOXES and left.sum() > FEWEST:
        box = find(dimensions, codes[left], losses[left])
        if box is None:
            break
        inside = contains(box, codes) & left
        if inside.sum() < FEWEST or losses[inside].mean() < LEAST or inside.sum() == left.sum():
            break
        boxes.append(box)
        left &= ~inside
    return boxes


def subgroup(power: float, width: int, support: int) -> Find:
    """pysubgroup, by the power of a subgroup's size and the width of the beam and the fewest samples of a subgroup."""
    import pysubgroup as ps

    class Interval(ps.IntervalSelector):
        """An interval whose samples are looked up once: the beam asks for them again with each condition beside it."""

        def covers(self, data: pd.DataFrame) -> np.ndarray:
            if not hasattr(self, "covered"):
                self.covered = np.asarray(super().covers(data))
            return self.covered

    class Equal(ps.EqualitySelector):
        """The same of a value."""

        def covers(self, data: pd.DataFrame) -> np.ndarray:
            if not hasattr(self, "covered"):
                self.covered = np.asarray(super().covers(data))
            return self.covered

    def find(dimensions: Sequence[Dimension], codes: np.ndarray, losses: np.ndarray) -> Box | None:
        data = pd.DataFrame({one.name: codes[:, at] for at, one in enumerate(dimensions)})
        data["loss"] = losses
        selectors = []
        for one in dimensions:
            if one.is_ordered:
                selectors += [
                    Interval(one.name, first, last)
                    for first in range(one.values)
                    for last in range(first + 1, one.values + 1)
                    if last - first < one.values
                ]
            else:
                selectors += [Equal(one.name, value) for value in range(one.values)]
        task = ps.SubgroupDiscoveryTask(
            data,
            ps.NumericTarget("loss"),
            selectors,
            result_set_size=1,
            depth=len(dimensions),
            qf=ps.StandardQFNumeric(power),
            constraints=[ps.MinSupportConstraint(support)],
        )
        results = ps.BeamSearch(beam_width=width).execute(task).results
        if not results or not results[0][1].selectors:
            return None
        names = {one.name: at for at, one in enumerate(dimensions)}
        box = [list(range(one.values)) for one in dimensions]
        for selector in results[0][1].selectors:
            at = names[selector.attribute_name]
            box[at] = (
                [code for code in box[at] if selector.lower_bound <= code < selector.upper_bound]
                if dimensions[at].is_ordered
                else [int(selector.attribute_value)]
            )
        return box

    return find


def slices(alpha: float, level: int, support: int) -> Find:
    """SliceLine, by the weight of the mean error, the most predicates and the fewest samples of a slice."""
    from sliceline.slicefinder import Slicefinder

    def find(dimensions: Sequence[Dimension], codes: np.ndarray, losses: np.ndarray) -> Box | None:
        columns, meaning = [], []
        for at, one in enumerate(dimensions):
            if one.is_ordered:
                for cut in range(1, one.values):
                    columns.append((codes[:, at] >= cut).astype(int))
                    meaning.append((at, cut))
            else:
                columns.append(codes[:, at])
                meaning.append((at, -1))
        finder = Slicefinder(alpha=alpha, k=1, max_l=level, min_sup=support, verbose=False)
        finder.fit(np.stack(columns, axis=1), np.maximum(losses, 0))
        if not len(finder.top_slices_):
            return None
        box = [list(range(one.values)) for one in dimensions]
        for (at, cut), value in zip(meaning, finder.top_slices_[0], strict=True):
            if value is None:
                continue
            among = [int(value)]
            if cut >= 0:
                among = list(range(cut, dimensions[at].values)) if value else list(range(cut))
            box[at] = [code for code in box[at] if code in among]
        return box

    return find


def prim(peel: float, mass: int, objective: str) -> Find:
    """PRIM, by the share that is peeled off, the fewest samples of a box and the objective of a peel."""
    from ema_workbench.analysis import prim as workbench
    from ema_workbench.analysis.scenario_discovery_util import RuleInductionType

    def find(dimensions: Sequence[Dimension], codes: np.ndarray, losses: np.ndarray) -> Box | None:
        x = pd.DataFrame(
            {
                one.name: codes[:, at]
                if one.is_ordered
                else pd.Series([f"v{code}" for code in codes[:, at]], dtype=object)
                for at, one in enumerate(dimensions)
            }
        )
        if not (losses >= LEAST).any():
            # it divides by their number
            return None
        # It takes means for probabilities; which boxes it finds doesn't depend on the scale.
        scaled = np.maximum(losses, 0) / losses.max()
        finder = workbench.Prim(
            x,
            scaled,
            threshold=LEAST / losses.max(),
            peel_alpha=peel,
            mass_min=mass / len(codes),
            mode=RuleInductionType.REGRESSION,
            obj_function=workbench.PRIMObjectiveFunctions(objective),
        )
        found = finder.find_box()
        if found is None:
            return None
        best, most = None, 0.0
        for limits in found.box_lims:
            box = []
            for one in dimensions:
                if one.name not in limits:
                    box.append(list(range(one.values)))
                elif one.is_ordered:
                    first, last = limits[one.name]
                    box.append([code for code in range(one.values) if first <= code <= last])
                else:
                    box.append(sorted(int(str(word)[1:]) for word in limits[one.name].iloc[0]))
            inside = contains(box, codes)
            quality = np.sqrt(inside.sum()) * (losses[inside].mean() - losses.mean()) if inside.any() else 0
            if quality > most:
                best, most = box, quality
        return best

    return find


METHODS: dict[str, Callable[..., Find]] = {"pysubgroup": subgroup, "SliceLine": slices, "PRIM": prim}


def run(work: tuple[str, str, list, int, list, np.ndarray, np.ndarray]) -> str:
    """One method on one job's samples, for a process."""
    name, method, parameters, job, space, codes, losses = work
    dimensions = [Dimension(*one) for one in space]
    find = METHODS[method](*parameters)
    began = time.process_time()
    boxes = repeat(find, dimensions, codes, losses)
    return json.dumps([name, job, boxes, time.process_time() - began])


def main() -> None:
    """All of the work."""
    logging.disable(logging.WARNING)
    samples, given = np.load(sys.argv[1]), json.load(sys.stdin)
    work = [
        (name, method, parameters, job, given["space"], samples[f"codes_{job}"], samples[f"losses_{job}"])
        for name, method, parameters, job in given["work"]
    ]
    with ProcessPoolExecutor(int(sys.argv[2])) as pool:
        for line in pool.map(run, work):
            print(line, flush=True)


if __name__ == "__main__":
    main()
