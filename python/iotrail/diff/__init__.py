"""`iotrail diff`: what differs between runs, beyond what runs of one program differ by, ranked by the time it adds. docs/diff.md says how."""

from iotrail.diff.compare import Comparison, compare
from iotrail.diff.difference import Difference

__all__ = ["Comparison", "Difference", "compare"]
