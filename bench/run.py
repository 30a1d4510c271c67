"""`make bench`: run the benchmarks and print their tables.

    run.py [NAME…]     all, or some of: call, post, load, trail, report, page, cluster, notices, replay, diff,
                       import, requests, requests_query, diagnosis, model, generate, anomaly_planted, anomaly_adaptive, anomaly_stack, anomaly_faults, anomaly_cost, causal, causal_cost, causal_coz, causal_throttle, causal_whatif, device_disk, device_ssd, device_emulated, device_measured; device, causal and anomaly are all whose names begin so

Figures of a busy machine mislead: the load average is printed first.
"""

import importlib
import os
import sys

from measure import console

# Name -> its module: `import` can't be one's name, and `requests` is that of a library.
NAMES = {
    "call": "call",
    "post": "post",
    "load": "load",
    "trail": "trail",
    "report": "report",
    "page": "page",
    "cluster": "ceph",
    "notices": "notices",
    "replay": "replay",
    "diff": "diff",
    "device_emulated": "device_emulated",
    "device_measured": "device_measured",
    "diagnosis": "diagnosis",
    "device_disk": "device_disk",
    "device_ssd": "device_ssd",
    "import": "importers",
    "requests": "requests_store",
    "requests_query": "requests_query",
    "model": "model",
    "generate": "generate",
    "anomaly_planted": "anomaly_planted",
    "anomaly_adaptive": "anomaly_adaptive",
    "anomaly_stack": "anomaly_stack",
    "anomaly_faults": "anomaly_faults",
    "anomaly_cost": "anomaly_cost",
    "causal": "causal",
    "causal_cost": "causal_cost",
    "causal_coz": "causal_coz",
    "causal_throttle": "causal_throttle",
    "causal_whatif": "causal_whatif",
    "device": "device",
}
# Names of those that several modules measure, whose names begin so.
GROUPS = ("device", "causal", "anomaly")


def main(names: list[str]) -> int:
    """Run the benchmarks named."""
    for group in GROUPS:
        if group in names:
            names = [name for name in names if name != group]
            names += [name for name in NAMES if name.startswith(group) and name not in names]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        console.print(f"bench: error: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    console.print(f"load average {os.getloadavg()[0]:.2f} on {len(os.sched_getaffinity(0))} cores\n")
    for name in names or NAMES:
        importlib.import_module(NAMES[name]).bench()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
