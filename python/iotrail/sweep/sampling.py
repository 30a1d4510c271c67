"""Which settings are measured: uniform over all that can be, without one twice (Shen, Zhong and Li, FAST 2005, 4.1)."""

import numpy as np

from iotrail.anomaly.space import Codes, Space


def draw(space: Space, number: int, seed: int) -> Codes:
    """So many settings in random order, (settings, dimensions): all of them if there are no more. A larger number with the
    same seed begins with the same settings."""
    order = np.random.default_rng(seed).permutation(len(space.feasible))
    return space.feasible[order[:number]]


def seen_probability(share: float, samples: int) -> float:
    """Probability that at least one of uniform samples is in a zone that has a share of all settings: 1 - (1 - p)ⁿ."""
    return float(1 - (1 - share) ** samples)


def unseen_share(samples: int, confidence: float = 0.95) -> float:
    """The share of settings that a zone without a sample has at most, with a confidence."""
    return float(1 - (1 - confidence) ** (1 / samples)) if samples else 1.0
