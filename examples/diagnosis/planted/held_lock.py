# A worker waits for a file lock that another process holds while it does its slow work.
# cause: file_lock
# where: queue.lock
import fcntl
import os
import time

if os.fork() == 0:
    for _ in range(4):
        with open("queue.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(0.4)
        time.sleep(0.02)
    os._exit(0)
time.sleep(0.05)
for _ in range(3):
    with open("queue.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open("done.txt", "a") as done:
            done.write("one\n")
    time.sleep(0.03)
os.wait()
