-- What a program's reads are like, by the measures of Shen, Zhong and Li (FAST 2005, table 3): one row.
--
-- @requires read_stream
-- @column streams BIGINT: sequential streams of reads
-- @column threads BIGINT: threads that read
-- @column stream_bytes DOUBLE bytes: mean length of a stream; null without any
-- @column runs_per_stream DOUBLE: mean number of runs of a stream; null without any
-- @column think_ns_per_mib DOUBLE ns: time between the reads of runs for each MiB of their streams; null unknown
-- @column whole_share DOUBLE share: share of the streams that are a whole file; null without any
SELECT
    count(*) AS streams,
    count(DISTINCT thread) AS threads,
    CAST(sum(bytes) AS DOUBLE) / NULLIF(count(*), 0) AS stream_bytes,
    CAST(sum(runs) AS DOUBLE) / NULLIF(count(*), 0) AS runs_per_stream,
    1048576 * CAST(sum(think_ns) AS DOUBLE) / NULLIF(sum(CASE WHEN think_ns IS NOT NULL THEN bytes END), 0) AS think_ns_per_mib,
    CAST(sum(whole) AS DOUBLE) / NULLIF(count(*), 0) AS whole_share
FROM read_stream
