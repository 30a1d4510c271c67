# Prints with flush=True, line by line.
# cause: tiny_appends, stdio_flush
# where: out.txt
with open("out.txt", "w") as out:
    for number in range(200_000):
        print("line", number, file=out, flush=True)
