"""What the simulated stack (`iotrail-native simulate stack`) is designed to reach.

The equations of the paper, where its design is the paper's. It differs in what becomes of a stream:

- Each window is asked for while the one before is read. Unless its file ends with the stream, a last one is read for nothing.
- While more requests are queued than `CONGESTED_ABOVE`, windows are read when they are needed, not ahead.
- Where a run's requests are served together, it takes a seek only if something is asked for in it: short runs share a window.
- Of runs that are no longer than a window the disk waits for the next one only while nothing is read ahead of the handler's
  other stream: where both begin and end, if they end with their files (two windows each time), never otherwise. In a queue
  that may be congested that is often so. A file of four windows is read two and two, or one, two and one, by how its read
  begins: as a mean it is a seek more for three in eight.
- An elevator that goes from the last place to the first has that seek, too, for each time it has served all handlers: where
  streams go on, their next requests lie behind the heads.
- Seeks are between places of at least two requests: alone, too, a handler goes from one place to another.
- Who reads ahead computes while the disk transfers: the disk is idle only where windows are read when they are needed.
"""

from math import ceil

from iotrail.expected.device import Disk, serve
from iotrail.expected.paper import System
from iotrail.expected.scheduling import ELEVATOR, seek_distance
from iotrail.expected.workload import MIB, Expected, Workload

# Queued requests above which nothing is read ahead.
CONGESTED_ABOVE = 112
# Streams that a handler reads by turns.
STREAMS = 2
# Share of files of four windows that take a seek more than others, as simulated.
_SPLIT = 3 / 8


def expect(workload: Workload, system: System, disk: Disk) -> list[Expected]:
    """What each layer is expected to show, from the application down; streams have one length."""
    stream = workload.stream_bytes
    run = workload.mean_run_bytes
    window = system.prefetch_bytes or workload.read_bytes
    # All but the one that is served, or has just been, are queued.
    is_ahead = system.prefetch_bytes is not None and workload.concurrency - 1 <= CONGESTED_ABOVE
    needed = ceil(stream / window)
    windows = needed + (is_ahead and not workload.whole_file)
    fetched = min(stream, windows * window) if workload.whole_file else windows * window
    is_together = system.scheduler != ELEVATOR or workload.concurrency == 1
    # A window is asked for in the run in which the reader gets to the window before, or to itself if not ahead.
    asking = range(max(windows - is_ahead, 1))
    seeks: float = len({int(at * window // run) for at in asking}) if is_together else windows
    is_short = is_together and is_ahead and run <= window and needed > 1
    if is_short and STREAMS * workload.concurrency <= CONGESTED_ABOVE:
        seeks = max(windows - 2, 1) + _SPLIT * (windows == 4) if workload.whole_file else windows
    size = fetched / seeks
    is_waiting = is_together and not is_ahead and (run > window or workload.concurrency == 1)
    idle = stream * workload.think_ns_per_mib / MIB / seeks if is_waiting else 0.0
    choice = max(workload.concurrency, 2)
    distance = seek_distance(choice, workload.span)
    seek_ns = disk.seek.mean_ns(choice, workload.span)
    if not is_together:
        # Next to its last request a stream has its next one: behind the heads, for the next sweep.
        stays = 1 - 1 / windows
        back = (choice - 1) * distance
        distance += stays * (2 * back / choice - distance)
        seek_ns += stays * (disk.seek.time_ns(back) - seek_ns) / choice
    served = serve(disk, size, choice, workload.span, idle, seek_ns)
    useful = stream / fetched
    return [
        Expected("application", "throughput_bytes_per_s", served.throughput * useful),
        Expected("prefetch", "requests_per_stream", float(windows)),
        Expected("prefetch", "request_bytes", fetched / windows),
        Expected("prefetch", "useful_share", useful),
        Expected("scheduler", "request_bytes", size),
        Expected("scheduler", "seek_distance", distance),
        Expected("scheduler", "idle_ns", served.idle_ns),
        Expected("device", "seek_ns", served.seek_ns),
        Expected("device", "rotation_ns", served.rotation_ns),
        Expected("device", "transfer_ns", served.transfer_ns),
    ]
