-- The file systems that recorded files lie on, from the facts `mount:POINT` of table `recording`.
--
-- @requires recording
-- @dimension node, point, type
-- @column node VARCHAR: machine
-- @column point VARCHAR: where it is mounted
-- @column type VARCHAR: type of the file system; null unknown
SELECT
    node,
    substring(name, 7) AS point,
    NULLIF(regexp_extract(value, '"type":"([^"]*)"', 1), '') AS type
FROM recording
WHERE name LIKE 'mount:/%'
GROUP BY node, name, value
