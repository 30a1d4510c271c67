-- The whole numbers from 0 to 999,999, one row each: for modules that cut spans into pieces.
-- DuckDB's range and Spark's sequence differ; digits cross joined are the same in both.
--
-- @column i BIGINT: the number
WITH digit AS (
    SELECT d FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS t (d)
),

thousand AS (
    SELECT a.d + 10 * b.d + 100 * c.d AS t
    FROM digit AS a
    CROSS JOIN digit AS b
    CROSS JOIN digit AS c
)

SELECT CAST(a.t + 1000 * b.t AS BIGINT) AS i
FROM thousand AS a
CROSS JOIN thousand AS b
