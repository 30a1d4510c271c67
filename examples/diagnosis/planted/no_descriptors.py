# Leaks descriptors until every open fails, and tries on.
# cause: failed_opens, descriptor_leak
# where: leaked
import os
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
kept = []
for _ in range(30_000):
    try:
        kept.append(os.open("leaked", os.O_RDONLY | os.O_CREAT))
    except OSError:
        continue
