-- 1000 + 500; the failed one moved nothing, one sendfile has no second file and the other one's is a socket.
SELECT thread, file, call, n, bytes FROM copied
