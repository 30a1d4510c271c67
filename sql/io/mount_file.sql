-- The file system of each file: the mount whose point is the longest beginning of its path.
--
-- @materialize
-- @requires file, mount
-- @dimension node, point, type
-- @column node VARCHAR: machine
-- @column file BIGINT: file
-- @column point VARCHAR: where its file system is mounted
-- @column type VARCHAR: type of the file system; null unknown
SELECT
    f.node,
    f.file,
    max_by(m.point, concat(lpad(CAST(length(m.point) AS VARCHAR), 6, '0'), m.point)) AS point,
    max_by(m.type, concat(lpad(CAST(length(m.point) AS VARCHAR), 6, '0'), m.point)) AS type
FROM (SELECT node, file, max(path) AS path FROM file GROUP BY node, file) AS f
INNER JOIN mount AS m
    ON m.node = f.node
    AND (m.point = '/' OR f.path = m.point OR substring(f.path, 1, length(m.point) + 1) = concat(m.point, '/'))
WHERE f.path LIKE '/%'
GROUP BY f.node, f.file
