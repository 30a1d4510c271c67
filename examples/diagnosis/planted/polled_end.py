# Follows a log by reading at its end without a pause.
# cause: eof_polling
# where: feed.log
import os
import time

feed = os.open("feed.log", os.O_RDWR | os.O_CREAT)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    os.read(feed, 4096)
