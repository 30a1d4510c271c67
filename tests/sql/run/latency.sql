-- pread's five, by process and bucket: below 64 the bucket is the latency; 100 = 64 + 18*2: bucket 64+18 = 82.
SELECT call, process, bucket, latency, n, time_ns, max_ns, bytes FROM latency WHERE kind = 'read' ORDER BY bucket
