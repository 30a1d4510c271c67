"""The front of a two-part system: serves clients' puts by asking the storage end, `back.c`, over a pipe.

cc -O2 -o back examples/sdk/back.c $(iotrail sdk --cflags --libs)
iotrail record -o sdk.trail -- python examples/sdk/front.py ./back data 100
iotrail path sdk.trail --slowest 1
"""

import subprocess
import sys

from iotrail import sdk


def put(back: subprocess.Popen[str], client: str, length: int) -> None:
    """One put of a client, served by the storage end."""
    assert back.stdin is not None and back.stdout is not None
    with (
        sdk.request("front", "put", client=client, length=length) as request,
        sdk.call("front", "append", length=length) as call,
    ):
        headers = call.headers()
        line = f"{length}\t{headers.get('traceparent', '')}\t{headers.get('tracestate', '')}\n"
        sdk.transmit("front", "back", len(line))
        back.stdin.write(line)
        back.stdin.flush()
        answer = back.stdout.readline().strip()
        call.status = request.status = 0 if answer == "ok" else int(answer)


def main(program: str, file: str, puts: int) -> None:
    """So many puts of two clients in turn."""
    sdk.role("front")
    with subprocess.Popen([program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as back:
        for number in range(puts):
            put(back, ("alice", "bob")[number % 2], 512 * (1 + number % 8))
        assert back.stdin is not None
        back.stdin.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
