-- 1000 + 500; the failed one moved nothing, sendfile has no second file.
SELECT file, n, bytes FROM copied
