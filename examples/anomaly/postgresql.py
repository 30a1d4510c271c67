"""What range queries should reach if only their rows are read, whatever the server is set to: each takes a core for a while, and there
are so many cores (the utilization law).

Measure your own numbers with the command of postgresql.toml, clients=1, as the server starts:
  QUERY_S   rows=1: 1 / (queries per second)
  ROW_S     rows=1000: (1 / (queries per second) - QUERY_S) / 1000
"""

import os

QUERY_S = 200e-6
ROW_S = 3.5e-6
# pgbench and the server share them.
CORES = os.cpu_count() or 1


def queries(setting):
    """Queries per second."""
    seconds = QUERY_S + setting["rows"] * ROW_S
    return min(setting["clients"], CORES) / seconds
