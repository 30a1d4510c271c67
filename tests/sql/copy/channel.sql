-- The pipe and the socket.
SELECT file FROM channel ORDER BY file
