-- /data/b has the write of 60 and the fsync of 200 = 128 + 18*4: bucket 96+18 = 114; the unfinished is left out.
SELECT path, call, bucket, latency, n, bytes FROM file_latency WHERE file = 2 ORDER BY bucket
