"""The scheduling layer: equations 6 to 10 of Shen, Zhong and Li (FAST 2005), section 3.2.

It sorts and merges requests, and leaves what they carry alone (equation 6: its throughput is that of the device).
Distances are fractions of the disk.
"""

from iotrail.errors import UsageError

ELEVATOR = "elevator"
ANTICIPATORY = "anticipatory"
SCHEDULERS = (ELEVATOR, ANTICIPATORY)


def seek_probability(distance: float, concurrency: float, span: float) -> float:
    """Probability that a seek passes at least a distance, where the closest of so many requests, anywhere in the span, is
    next (equation 7)."""
    return float(max(1 - distance / span, 0.0) ** concurrency) if distance > 0 else 1.0


def seek_distance(concurrency: float, span: float) -> float:
    """Mean distance of a seek: the integral of equation 7."""
    return span / (concurrency + 1)


def request_bytes(
    scheduler: str, concurrency: int, fetched_bytes: float, requests: float, run_bytes: float
) -> float:
    """Mean length of a request to the device, from the means of a stream: bytes fetched and requests.

    An elevator goes to another stream after each request (equation 8) where there is one; alone, the requests of a run
    follow each other (equation 9). An anticipatory scheduler waits for the next one of a run (equation 10).
    """
    if scheduler not in SCHEDULERS:
        raise UsageError(f"scheduler: expected {' or '.join(SCHEDULERS)}, found {scheduler!r}")
    apart = fetched_bytes / requests
    return apart if scheduler == ELEVATOR and concurrency > 1 else max(apart, run_bytes)


def idle_ns(scheduler: str, concurrency: int, run_bytes: float, think_ns_per_byte: float) -> float:
    """Mean time for which the disk idles in a run: all the computing between its requests, where the scheduler waits for
    them (section 3.2.2), or where nobody else has any."""
    return run_bytes * think_ns_per_byte if scheduler == ANTICIPATORY or concurrency == 1 else 0.0
