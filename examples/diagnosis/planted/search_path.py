# Looks for modules along a search path of forty directories that lack them.
# cause: missing_files
# where: path
import os

for number in range(40):
    os.makedirs(f"path{number:02}", exist_ok=True)
for name in range(4000):
    for number in range(40):
        try:
            os.close(os.open(f"path{number:02}/module{name}.cfg", os.O_RDONLY))
            break
        except FileNotFoundError:
            continue
