-- Two facts of the recording.
SELECT * FROM mount ORDER BY point
