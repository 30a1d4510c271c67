-- @param every_ns=250
-- What ends as a bucket begins ends in the one before. Of no length is nothing; the unfinished write ends with its thread.
SELECT bucket_ts, ts, kind, step FROM flight_edge ORDER BY ts, step, kind
