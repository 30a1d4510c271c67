"""`iotrail diff`: what differs between two trails, beyond noise, ranked by the time it adds. docs/diff.md says how."""

from iotrail.diff.compare import Comparison, Difference, compare

__all__ = ["Comparison", "Difference", "compare"]
