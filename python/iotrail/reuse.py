"""Miss ratios of LRU caches of every size, from the uses of blocks in their order.

The reuse distance of a use is the number of different blocks used since the last use of its block, itself
included: an LRU cache that holds as many blocks serves it, a smaller one doesn't (Mattson et al., "Evaluation
techniques for storage hierarchies", IBM Systems Journal 1970). Distances here are exact, from one pass over the
bits of a permutation, which numpy does by columns where Olken's tree goes use by use.

Of more than MOST_EXACT uses a part of the blocks, chosen by a hash, is followed and distances are scaled (Waldspurger et al.,
"Efficient MRC Construction with SHARDS", USENIX FAST 2015, with its adjustment of counts). The error of that is estimated
from GROUPS parts of the sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Up to so many uses distances are computed of all: half a second to a second of CPU time a million.
MOST_EXACT = 8_000_000
# Of more about so many are followed, twice: for the curve and for its error.
MOST_FOLLOWED = 2_000_000
# Parts of a sample that its error is estimated from.
GROUPS = 8
# The curve is said to lie within so many standard errors at all sizes. Of 120 drawn traces (skewed, heavy-tailed, loops mixed with random
# uses; a fifth of the blocks followed) 95 % lay within 3.2, all within 3.8.
STANDARD_ERRORS = 4
# Of more uses there is no curve: reading them out of their requests alone would take minutes.
MOST_USES = 1_000_000_000
# Sizes of a curve an octave.
PER_OCTAVE = 8
# Uses that requests are cut into at a time.
_CHUNK = 1 << 21
_HASHES = 1 << 32


@dataclass(frozen=True)
class Uses:
    """Uses of blocks in their order: of all blocks, or of the share `rate` of them."""

    block: Ints
    is_write: Flags
    rate: float
    # All uses, those of blocks that aren't followed too.
    reads: int
    writes: int


@dataclass(frozen=True)
class Curve:
    """Miss ratios by size of the cache, in blocks; those of reads or writes are None where there are none."""

    size: Ints
    all: Floats
    read: Floats | None
    write: Floats | None
    # Share of blocks followed; 1: the curve is exact.
    rate: float
    # How far off the miss ratio is at most, at all sizes: STANDARD_ERRORS; 0 of an exact curve.
    error: float


def use_blocks(device: Ints, first: Ints, count: Ints, is_write: Flags, rate: float = 1.0) -> Uses:
    """The uses of blocks by requests: of `count` blocks each from `first` on. Of the share `rate` of blocks."""
    total = int(count.sum())
    blocks, writes = [], []
    # one number a device and block
    device = _separate(device, int((first + count).max(initial=0)))
    ends = np.cumsum(count)
    start = 0
    while start < len(count):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _CHUNK, side="right")))
        part = slice(start, stop)
        n = count[part]
        begins = np.cumsum(n) - n
        block = np.arange(int(n.sum())) + np.repeat(first[part] - begins, n)
        block += np.repeat(device[part], n)
        write = np.repeat(is_write[part], n)
        if rate < 1:
            kept = _hash(block) < rate * _HASHES
            block, write = block[kept], write[kept]
        blocks.append(block)
        writes.append(write)
        start = stop
    reads = int(count[~is_write].sum())
    return Uses(
        np.concatenate(blocks) if blocks else np.zeros(0, np.int64),
        np.concatenate(writes) if writes else np.zeros(0, np.bool_),
        rate,
        reads,
        total - reads,
    )


def _separate(device: Ints, blocks: int) -> Ints:
    """What to add to the numbers of a device's blocks, all below `blocks`, so that no two devices share one."""
    found, place = np.unique(device, return_inverse=True)
    stride: Ints = place.astype(np.int64) * blocks
    if len(found) * blocks < 1 << 63:
        return stride
    # some offset is garbage: spread by hash, where two blocks of 64 bits seldom meet
    spread: Ints = (_hash(found) << np.uint64(31)).astype(np.int64)[place]
    return spread


def followed_share(total: int) -> float:
    """The share of blocks to follow where there are so many uses: 1 unless that takes too long."""
    return 1.0 if total <= MOST_EXACT else MOST_FOLLOWED / total


def miss_ratios(uses: Uses) -> Curve:
    """The curve of an LRU cache for reads and writes: both bring their block into it."""
    distance = reuse_distances(uses.block)
    most = int(distance.max(initial=0)) / uses.rate
    size = curve_sizes(int(most))
    if uses.rate < 1:
        # a smaller cache holds too few of the blocks that are followed to tell
        size = size[np.minimum(np.searchsorted(size, GROUPS / uses.rate), len(size) - 1) :]
    ratio = {
        kind: _ratios(distance[chosen], size, uses.rate, total)
        for kind, chosen, total in (
            ("all", slice(None), uses.reads + uses.writes),
            ("read", ~uses.is_write, uses.reads),
            ("write", uses.is_write, uses.writes),
        )
        if total
    }
    error = _sampling_error(uses, size) if uses.rate < 1 else 0.0
    return Curve(size, ratio["all"], ratio.get("read"), ratio.get("write"), uses.rate, error)


def curve_sizes(most: int) -> Ints:
    """Sizes in blocks, PER_OCTAVE an octave, up to the first that is `most` or more."""
    steps = int(np.ceil(np.log2(max(most, 1)) * PER_OCTAVE)) + 1
    return np.unique(np.ceil(2.0 ** (np.arange(steps + 1) / PER_OCTAVE) - 1e-9).astype(np.int64))


def reuse_distances(block: Ints) -> Ints:
    """Of each use the number of different blocks used since the last use of the same, itself included; 0: the first use."""
    n = len(block)
    last = last_uses(block)
    warm = np.flatnonzero(last >= 0)
    if len(warm) == 0:
        return np.zeros(n, np.int64)
    # Uses before i whose own last use is no later than that of i, or that have none: one for each block used before i
    # and one for each use up to the last of i.
    cold_before = np.cumsum(last < 0)[warm]
    distance = np.zeros(n, np.int64)
    distance[warm] = cold_before + count_smaller_before(last[warm]) - last[warm]
    return distance


def last_uses(block: Ints) -> Ints:
    """Of each use the place of the last use of the same block; -1: the first."""
    order = np.argsort(block, kind="stable")
    sorted_block = block[order]
    same = np.flatnonzero(sorted_block[1:] == sorted_block[:-1])
    last = np.full(len(block), -1, np.int64)
    last[order[same + 1]] = order[same]
    return last


def count_smaller_before(values: Ints) -> Ints:
    """Of each of these different numbers, none below 0, how many before it are smaller.

    Bit by bit from the top, numbers that agree in the bits above stand together, in their order: of one whose bit is set
    those before it in its group with the bit not set are smaller.
    """
    n = len(values)
    # the narrower numbers halve what is moved, which is what takes the time
    kind: Any = np.int32 if n < 1 << 31 else np.int64
    seen = np.zeros(int(values.max(initial=0)) + 1, kind)
    seen[values] = 1
    rank: Any = np.cumsum(seen, dtype=kind)[values] - kind(1)
    here = np.arange(n, dtype=kind)
    # The number at each place, and what was counted of it. Of a permutation the group of `v` begins at `v` without its lower bits.
    at, moved = rank.copy(), np.empty(n, kind)
    counted, moved_count = np.zeros(n, kind), np.empty(n, kind)
    # columns that each bit writes anew: to make them anew would take longer than to fill them
    is_set, is_clear = np.empty(n, np.bool_), np.empty(n, np.bool_)
    clear, begin, clear_before, there = np.zeros(n + 1, kind), *(np.empty(n, kind) for _ in range(3))
    for bit in range(max(n - 1, 1).bit_length() - 1, -1, -1):
        np.not_equal(np.bitwise_and(at, kind(1 << bit), out=there), 0, out=is_set)
        np.cumsum(np.logical_not(is_set, out=is_clear), out=clear[1:])
        np.left_shift(np.right_shift(at, bit + 1, out=begin), bit + 1, out=begin)
        np.subtract(clear[:-1], np.take(clear, begin, out=there, mode="clip"), out=clear_before)
        counted += np.multiply(clear_before, is_set, out=there)
        # those whose bit isn't set move to the begin of their group, the others behind them
        np.add(begin, clear_before, out=begin)
        np.add(np.subtract(here, clear_before, out=there), kind(1 << bit), out=there)
        np.copyto(begin, there, where=is_set)
        moved[begin], moved_count[begin] = at, counted
        at, moved, counted, moved_count = moved, at, moved_count, counted
    smaller: Ints = counted[rank].astype(np.int64)
    return smaller


def _ratios(distance: Ints, size: Ints, rate: float, total: int) -> Floats:
    """Misses over all uses. A sample has more or fewer uses than its share of all: the difference counts as hits of the smallest
    cache, for it is what often used blocks, which are close, bring or lack (SHARDS, section 3.3)."""
    found = np.sort(distance[distance > 0])
    hits = np.searchsorted(found / rate, size, side="right")
    if rate == 1:
        return 1 - hits / total
    return np.clip(1 - (hits + total * rate - len(distance)) / (total * rate), 0, 1)


def _sampling_error(uses: Uses, size: Ints) -> float:
    """From the spread of curves that each come from one of GROUPS parts of the sample."""
    group = (_hash(uses.block ^ 0x5DEECE66D) % GROUPS).astype(np.int64)
    total = uses.reads + uses.writes
    curves = []
    for i in range(GROUPS):
        chosen = group == i
        rate = uses.rate / GROUPS
        curves.append(_ratios(reuse_distances(uses.block[chosen]), size, rate, total))
    spread = np.std(np.array(curves), axis=0, ddof=1)
    return float(STANDARD_ERRORS * spread.max(initial=0.0) / np.sqrt(GROUPS))


def _hash(block: Ints) -> Any:
    """32 well mixed bits of a number (splitmix64's finaliser: Steele, Lea, Flood, OOPSLA 2014)."""
    x = block.astype(np.uint64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x >> np.uint64(32)
