# Redis in memory, one client.
# held: yes
import os
import socket
import subprocess
import time

server = subprocess.Popen(
    [
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        os.path.abspath("redis.sock"),
        "--save",
        "",
        "--appendonly",
        "no",
    ],
    stdout=subprocess.DEVNULL,
)
client = socket.socket(socket.AF_UNIX)
for _ in range(500):
    try:
        client.connect("redis.sock")
        break
    except OSError:
        time.sleep(0.01)
for number in range(10000):
    client.sendall(b"SET key%d value\r\n" % number)
    client.recv(100)
client.sendall(b"SHUTDOWN NOSAVE\r\n")
server.wait()
