# Writes each result into a file of its own.
# cause: small_files
# where: results
import os

os.mkdir("results")
for number in range(20_000):
    with open(f"results/{number:05}.json", "w") as file:
        file.write(f'{{"value": {number}}}\n')
