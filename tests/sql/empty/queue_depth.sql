-- No bucket, no row.
SELECT * FROM queue_depth
