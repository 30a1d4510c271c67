"""The model of Shen, Zhong and Li (FAST 2005), section 3, as a whole."""

from dataclasses import dataclass

from iotrail.expected.device import Disk, serve
from iotrail.expected.prefetch import prefetch
from iotrail.expected.scheduling import ELEVATOR, idle_ns, request_bytes, seek_distance
from iotrail.expected.workload import MIB, Expected, Workload


@dataclass(frozen=True)
class System:
    """Settings of the operating system: how far it prefetches, in bytes (None: it does not), and its I/O scheduler."""

    prefetch_bytes: int | None = 128 * 1024
    scheduler: str = ELEVATOR


def expect(workload: Workload, system: System, disk: Disk) -> list[Expected]:
    """What each layer is expected to show, from the application down; the first is the throughput that it gets."""
    depth = system.prefetch_bytes or workload.read_bytes
    fetched = prefetch(workload.streams, depth, whole_file=workload.whole_file)
    run = workload.mean_run_bytes
    size = request_bytes(system.scheduler, workload.concurrency, fetched.fetched_bytes, fetched.requests, run)
    idle = idle_ns(system.scheduler, workload.concurrency, run, workload.think_ns_per_mib / MIB)
    served = serve(disk, size, workload.concurrency, workload.span, idle)
    return [
        Expected("application", "throughput_bytes_per_s", served.throughput * fetched.useful),
        Expected("prefetch", "requests_per_stream", fetched.requests),
        Expected("prefetch", "request_bytes", fetched.fetched_bytes / fetched.requests),
        Expected("prefetch", "useful_share", fetched.useful),
        Expected("scheduler", "request_bytes", size),
        Expected("scheduler", "seek_distance", seek_distance(workload.concurrency, workload.span)),
        Expected("scheduler", "idle_ns", served.idle_ns),
        Expected("device", "seek_ns", served.seek_ns),
        Expected("device", "rotation_ns", served.rotation_ns),
        Expected("device", "transfer_ns", served.transfer_ns),
        Expected("device", "service_ns", served.service_ns),
        Expected("device", "throughput_bytes_per_s", served.throughput),
    ]
