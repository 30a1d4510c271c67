"""Writes every third record of a file that others write, too, reads each back, and many times over.

shared_records.py FILE OWN OF ROUNDS
"""

import os
import random
import sys

RECORD = 700  # so that most blocks belong to several writers
RECORDS = 500


def content(record: int, round_: int) -> bytes:
    """What is written there in a round."""
    return random.Random(f"{record} {round_}").randbytes(RECORD)


def main(path: str, own: int, of: int, rounds: int) -> None:
    records = list(range(own, RECORDS, of))
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    for round_ in range(rounds):
        random.Random(own + round_).shuffle(records)
        for record in records:
            data = content(record, round_)
            assert os.pwrite(fd, data, record * RECORD) == RECORD
            assert os.pread(fd, RECORD, record * RECORD) == data, f"record {record}, round {round_}"
        for record in records:
            assert os.pread(fd, RECORD, record * RECORD) == content(record, round_), f"record {record}"
    os.close(fd)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
