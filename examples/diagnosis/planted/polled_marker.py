# Sleeps and looks whether a marker file is there, instead of waiting for it.
# cause: polling
# where: ready
import os
import time

if os.fork() == 0:
    time.sleep(1.5)
    open("ready", "w").close()
    os._exit(0)
while not os.path.exists("ready"):
    time.sleep(0.002)
os.wait()
