# Reads a CSV file in order, with Python's buffer, and writes a result.
# prepare: yes
import csv
import sys

if sys.argv[1:]:
    with open("in.csv", "w") as file:
        for number in range(300_000):
            file.write(f"{number},{number * 7 % 1000},name{number}\n")
    sys.exit()
total = 0
with open("in.csv", newline="") as file:
    for row in csv.reader(file):
        total += int(row[1])
with open("out.txt", "w") as file:
    file.write(f"{total}\n")
