-- From the processes' start at 0 to their end at 1000.
SELECT * FROM trail_span
