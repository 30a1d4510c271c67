"""What random reads of a file should reach: a device that serves many requests at once (Little's law), up to its rate.

The numbers are those of one device. Measure your own with the command of fio.toml, direct=1:
  LATENCY_S     block=4KiB depth=1 engine=psync: 4096 / (bytes per second)
  STREAM        block=1MiB depth=1 engine=psync: bytes per second of one request at a time
  REQUESTS      block=4KiB depth=32 engine=io_uring: bytes per second / 4096
  RATE          block=1MiB depth=32 engine=io_uring: bytes per second
"""

LATENCY_S = 90e-6
STREAM = 6.0e8
REQUESTS = 3.7e4
RATE = 4.1e8


def rate(setting):
    """Bytes per second."""
    block = setting["block"]
    in_flight = setting["depth"] * setting["jobs"]
    return min(in_flight * block / (LATENCY_S + block / STREAM), REQUESTS * block, RATE)
