"""A finished sweep's trail, extended by pairs of settings that confirm its clusters: what `iotrail sweep --confirm` does."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from iotrail import native
from iotrail.anomaly import answer
from iotrail.anomaly.evidence import find_candidates
from iotrail.errors import SweepError, TraceError
from iotrail.sweep import journal as journals
from iotrail.sweep import trail as trails
from iotrail.sweep.confirm import choose_pairs
from iotrail.sweep.journal import Measurement
from iotrail.sweep.plan import expectations, journal_of, records_of, sweeping
from iotrail.sweep.run import CHOOSING, CONFIRM, code_of
from iotrail.trail import Trail

# Pairs a face: a difference that varies by a third of itself is significant at 5 % in 99.8 % of all cases, at 1 % in 89 %
# (noncentral t, 4 degrees of freedom).
EACH = 5


def confirm(
    path: Path,
    output: Path | None = None,
    *,
    command: Sequence[str],
    each: int = EACH,
    threshold: float = 0.1,
    resume: bool = False,
    force: bool = False,
    begin: Callable[[int], None] = lambda _: None,
    advance: Callable[[str], None] = lambda _: None,
) -> Path:
    """Measures `each` fresh pairs of settings for every face of the clusters that a sweep's trail has, and keeps them in it, or in
    another trail, `output`. Returns where they are.

    `threshold` is the least loss of a cluster, `command` what the trail says made it. `begin` is called with the number of settings
    to measure, `advance` after each.

    Raises:
        SweepError: the trail has no sweep, or no cluster; a setting can't be made; or an earlier confirmation ended early.
        TraceError: the trail can't be written.
    """
    target = path if output is None else output
    if output is not None and os.path.lexists(output) and not force:
        raise TraceError(f"{output}: exists", "replace it with --force, or choose another name with -o")
    if not os.access(target.absolute().parent, os.W_OK):
        raise TraceError(f"{target}: can't be written in {target.absolute().parent}")
    trail = Trail(path)
    samples = answer.read(trail)
    (seed,) = (row["value"] for row in trail.rows_of("SELECT value FROM recording WHERE name = 'seed'"))
    spec = replace(samples.spec, seed=int(seed))
    known = samples.is_fitted
    boxes = find_candidates(samples.space, samples.codes[known], samples.losses[known], threshold)
    if not boxes:
        raise SweepError(f"{path}: has no cluster to confirm", "iotrail anomalies says what its samples tell")
    advance(CHOOSING)
    measured = [code_of(row) for row in samples.codes]
    # Another confirmation has other pairs.
    pairs = choose_pairs(samples.space, boxes, measured, [spec.seed, len(measured)], each=each)
    if not pairs:
        raise SweepError(
            f"{path}: no face of a cluster can be crossed by two settings", "all settings are in the cluster"
        )
    journal = journal_of(target)
    before = _before(journal, spec.text, resume=resume, force=force)
    begin(2 * len(pairs))
    node, offset = native.clock()
    expected = expectations(spec, samples.space, samples.codes[:0])
    records = records_of(target)
    with sweeping(spec, samples.space, expected, journal, records, offset, before) as sweep:
        sweep.confirm(pairs, advance)
    trails.extend(target, trail, sweep, node, command, records)
    journal.unlink()
    shutil.rmtree(records, ignore_errors=True)
    return target


def _before(path: Path, text: str, *, resume: bool, force: bool) -> Sequence[Measurement]:
    """What a confirmation that ended early has measured; nothing if this one begins anew."""
    if not path.exists():
        if resume:
            raise SweepError(f"nothing to resume: there is no {path}", "leave --resume out")
        return []
    content = journals.read(path)
    if failed := journals.restore(path):
        raise SweepError(f"cannot put back {'; '.join(failed)}", "put it back by hand")
    if content.spec != text or any(one.purpose != CONFIRM for one in content.measurements):
        raise SweepError(f"{path} is of another sweep", "choose another name with -o")
    if resume:
        return content.measurements
    if not force:
        raise SweepError(
            f"{path}: a confirmation ended early", "go on with --resume, or begin anew with --force"
        )
    path.unlink()
    return []
