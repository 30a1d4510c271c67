-- From the first sample to the member that failed last.
SELECT start_ts, end_ts FROM trail_span
