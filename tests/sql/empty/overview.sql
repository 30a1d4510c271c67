-- Counts are 0, moments null; machines too: nothing tells of one.
SELECT * FROM overview
