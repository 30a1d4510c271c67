# A client of a server that takes 20 ms for each answer.
# cause: slow_peer
# where: socket
import os
import socket
import time

listening = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    peer, _ = listening.accept()
    while question := peer.recv(100):
        time.sleep(0.02)
        peer.sendall(question.upper())
    os._exit(0)
client = socket.create_connection(listening.getsockname())
for number in range(80):
    client.sendall(b"question %d" % number)
    client.recv(100)
client.close()
os.wait()
