-- No span, no bucket.
SELECT * FROM time_bucket
