# Opens its log for each line: 10,000 times.
# cause: reopened_files
# where: app.log
for number in range(10_000):
    with open("app.log", "a") as log:
        log.write(f"line {number}\n")
