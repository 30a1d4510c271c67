# Asks for the attributes of its configuration before each step.
# cause: repeated_stat
# where: settings.ini
import os

with open("settings.ini", "w") as file:
    file.write("verbose = 1\n")
last = 0.0
for _ in range(300_000):
    last = os.stat("settings.ini").st_mtime
