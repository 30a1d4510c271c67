-- Three streams of 20,480 bytes in four runs; 10 ns for the 12,288 bytes of the only one with two reads in a run.
SELECT streams, threads, round(stream_bytes, 3) AS stream_bytes, round(runs_per_stream, 6) AS runs, round(think_ns_per_mib, 3) AS think, round(whole_share, 6) AS whole
FROM read_profile
