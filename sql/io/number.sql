-- The whole numbers from 0 to 999,999, one row each: for modules that cut spans into pieces.
-- DuckDB's range and Spark's sequence differ; digits cross joined are the same in both.
--
-- @column i BIGINT: the number
WITH digit AS (
    SELECT d FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS t (d)
)

SELECT CAST(a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 100000 * f.d AS BIGINT) AS i
FROM digit AS a
CROSS JOIN digit AS b
CROSS JOIN digit AS c
CROSS JOIN digit AS d
CROSS JOIN digit AS e
CROSS JOIN digit AS f
