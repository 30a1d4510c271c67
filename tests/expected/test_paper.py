"""The equations of the paper, held against what they are integrals and sums of."""

from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from iotrail.errors import UsageError
from iotrail.expected.device import Disk, SeekCurve, serve
from iotrail.expected.paper import System, expect
from iotrail.expected.prefetch import prefetch
from iotrail.expected.scheduling import (
    ANTICIPATORY,
    ELEVATOR,
    request_bytes,
    seek_distance,
    seek_probability,
)
from iotrail.expected.workload import Length, Workload

KIB, MIB = 1 << 10, 1 << 20
# Section 5's disk; its transfer rates are in a figure only.
SEEK = SeekCurve(a_ns=1_054_600, b_ns=6_955_500, c_ns=2_753_900, d_ns=6_886_700, e=0.1171)
DISK = Disk(SEEK, turn_ns=6_000_000, rates=(36e6, 30e6, 24e6))


def integrated(curve: SeekCurve, concurrency: int, span: float) -> float:
    """Mean seek time, as the integral over distances of the time by the density that equation 7 has."""

    def part(distance: float) -> float:
        density = concurrency / span * (1 - distance / span) ** (concurrency - 1)
        return curve.time_ns(distance) * density

    points = [curve.e, span / concurrency]
    mean: float = integrate.quad(part, 1e-15, span, points=points, limit=500, epsrel=1e-10)[0]
    return mean


@pytest.mark.parametrize("concurrency", [1, 2, 8, 64, 128, 256])
@pytest.mark.parametrize("span", [0.05, 0.1171, 0.2, 1.0])
def test_mean_seek_is_the_integral_over_distances(concurrency: int, span: float) -> None:
    if span > SEEK.e:
        assert SEEK.mean_ns(concurrency, span) == pytest.approx(integrated(SEEK, concurrency, span), rel=1e-6)
    else:
        within = SeekCurve(SEEK.a_ns, SEEK.b_ns, SEEK.c_ns, SEEK.d_ns, 1.0)
        assert SEEK.mean_ns(concurrency, span) == pytest.approx(
            integrated(within, concurrency, span), rel=1e-6
        )


def test_mean_seek_where_the_printed_sum_is_lost_to_rounding() -> None:
    # The sum of equation 16 gives -2e7 ms here.
    assert SEEK.mean_ns(128, 0.2) / 1e6 == pytest.approx(1.2975, abs=1e-3)


def test_mean_seek_falls_with_the_choice() -> None:
    times = [SEEK.mean_ns(concurrency, 1.0) for concurrency in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    assert all(one > other for one, other in pairwise(times))
    assert times[-1] > SEEK.a_ns


def test_seek_distance_is_the_mean_of_its_distribution() -> None:
    for concurrency in (1, 3, 100):
        mean = integrate.quad(lambda x, n=concurrency: seek_probability(x, n, 0.3), 0, 0.3)[0]
        assert seek_distance(concurrency, 0.3) == pytest.approx(mean, rel=1e-8)
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0, 0.3, size=(100_000, 5)).min(axis=1)
    assert seek_distance(5, 0.3) == pytest.approx(drawn.mean(), rel=0.02)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=5), st.integers(1, 64), st.booleans())
def test_prefetching_by_counting(lengths: list[int], depth: int, whole: bool) -> None:
    streams = [Length(length * 4096, 1.0) for length in lengths]
    found = prefetch(streams, depth * 4096, whole_file=whole)
    requests = [ceil(length / depth) for length in lengths]
    fetched = [length if whole else count * depth for length, count in zip(lengths, requests, strict=True)]
    assert found.requests == pytest.approx(sum(requests) / len(lengths))
    assert found.fetched_bytes == pytest.approx(sum(fetched) * 4096 / len(lengths))
    assert found.useful == pytest.approx(sum(lengths) / sum(fetched))
    assert found.useful <= 1


def test_request_sizes() -> None:
    sizes = {
        (scheduler, concurrency): request_bytes(scheduler, concurrency, 1 * MIB, 8, 512 * KIB)
        for scheduler in (ELEVATOR, ANTICIPATORY)
        for concurrency in (1, 2)
    }
    assert sizes == {
        (ELEVATOR, 1): 512 * KIB,
        (ELEVATOR, 2): 128 * KIB,
        (ANTICIPATORY, 1): 512 * KIB,
        (ANTICIPATORY, 2): 512 * KIB,
    }
    assert request_bytes(ANTICIPATORY, 2, 1 * MIB, 8, 16 * KIB) == 128 * KIB


def test_rates_of_the_part_of_the_disk_that_is_used() -> None:
    assert DISK.transfer_rate(1.0) == pytest.approx(30e6)
    assert DISK.transfer_rate(1 / 3) == pytest.approx(36e6)
    assert DISK.transfer_rate(0.5) == pytest.approx((36e6 + 15e6) / 1.5)


def test_a_layer_for_each_part_of_the_time() -> None:
    workload = Workload(
        8, (Length(MIB, 1.0),), run_bytes=512 * KIB, think_ns_per_mib=4e6, whole_file=True, span=0.5
    )
    layers = {
        (one.layer, one.metric): one.value for one in expect(workload, System(128 * KIB, ANTICIPATORY), DISK)
    }
    assert layers["prefetch", "requests_per_stream"] == 8
    assert layers["scheduler", "request_bytes"] == 512 * KIB
    assert layers["scheduler", "idle_ns"] == pytest.approx(2e6)
    served = serve(DISK, 512 * KIB, 8, 0.5, 2e6)
    total = served.service_ns + served.idle_ns
    assert layers["device", "throughput_bytes_per_s"] == pytest.approx(512 * KIB / total * 1e9)
    assert layers["application", "throughput_bytes_per_s"] == layers["device", "throughput_bytes_per_s"]


def test_prefetching_nobody_wants_halves_the_throughput() -> None:
    streams = (Length(64 * KIB, 1.0),)
    whole, part = (
        expect(Workload(8, streams, 64 * KIB, whole_file=flag), System(128 * KIB, ELEVATOR), DISK)[0].value
        for flag in (True, False)
    )
    # Half of each request is for nobody, and takes its time.
    assert part < whole
    assert part == pytest.approx(serve(DISK, 128 * KIB, 8, 1.0).throughput / 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"streams": ()}, "streams"),
        ({"streams": (Length(0, 1.0),)}, "streams"),
        ({"streams": (Length(4096, float("nan")),)}, "streams"),
        ({"span": 0.0}, "span"),
        ({"span": 1.5}, "span"),
        ({"run_bytes": 0}, "run_bytes"),
        ({"think_ns_per_mib": -1}, "think_ns_per_mib"),
        ({"read_bytes": 0}, "read_bytes"),
    ],
)
def test_workloads_that_do_not_exist(change: dict[str, object], said: str) -> None:
    given = {"concurrency": 1, "streams": (Length(4096, 1.0),), "run_bytes": 4096, **change}
    with pytest.raises(UsageError, match=said):
        Workload(**given)  # type: ignore[arg-type]


def test_schedulers_and_disks_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="elevator or anticipatory, found 'bfq'"):
        request_bytes("bfq", 1, 1, 1, 1)
    with pytest.raises(UsageError, match="rates"):
        Disk(SEEK, 1, ())
