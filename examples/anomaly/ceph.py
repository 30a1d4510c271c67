"""What writes of objects should reach: so many at once, each as slow as alone (Little's law), until the machine's cores are busy with
all copies of them (the utilization law).

The numbers are those of one machine. Measure your own with the command of ceph.toml, groups=32:
  LATENCY_S       object=4KiB writers=1 replicas=1: 4096 / (bytes per second)
  REPLICATION_S   the same with replicas=3, less that: a primary waits for all copies at once
  STREAM          object=4MiB writers=1 replicas=1: bytes per second
  OPERATIONS      object=4KiB writers=32 replicas=1: bytes per second / 4096
  RATE            object=1MiB writers=2 replicas=1: bytes per second
  COPY            the same with replicas=3: (RATE / (bytes per second) - 1) / 2, what a further copy takes of the first one
"""

LATENCY_S = 0.43e-3
REPLICATION_S = 1.36e-3
STREAM = 2.8e8
OPERATIONS = 3400
RATE = 4.8e8
COPY = 0.4


def rate(setting):
    """Bytes per second."""
    size, copies = setting["object"], setting["replicas"]
    seconds = LATENCY_S + (REPLICATION_S if copies > 1 else 0) + size / STREAM
    busy = copies / OPERATIONS + (1 + COPY * (copies - 1)) * size / RATE
    return min(setting["writers"] * size / seconds, size / busy)
