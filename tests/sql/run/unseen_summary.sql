-- Two processes mapped 8192 + 4096 bytes; the detail is of the larger.
SELECT * FROM unseen_summary ORDER BY kind
