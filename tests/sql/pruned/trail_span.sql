-- From the first pruned record to the end of the request that is there.
SELECT start_ts, end_ts
FROM trail_span
