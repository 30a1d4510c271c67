-- A million numbers, none twice, none missing: their sum is 999999 x 1000000 / 2.
SELECT COUNT(*) AS n, MIN(i) AS least, MAX(i) AS most, COUNT(DISTINCT i) AS different, CAST(SUM(i) AS BIGINT) AS total
FROM number
