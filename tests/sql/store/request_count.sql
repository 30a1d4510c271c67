-- The rows of module request, with buckets: 3000 is 11 octaves and 952 above 2048, of which 64 are a step: 2048 + 14 * 64
SELECT client, component, op, n, unfinished, time_ns, length, least FROM request_count ORDER BY ts
