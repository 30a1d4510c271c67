-- What the recorder could not see or had to drop: one row a kind.
-- Nothing in it means that the trail holds every call it should.
--
-- @requires unseen, process
-- @order amount DESC
-- @column kind VARCHAR: what wasn't seen
-- @column amount BIGINT: how many, or bytes for mapped_file
-- @column processes BIGINT: processes concerned; 0 the whole recording
-- @column files BIGINT: files concerned
-- @column example_process VARCHAR: name of the executable of one of them; null unknown
-- @column detail VARCHAR: a sentence about one of them; null none
SELECT
    u.kind,
    CAST(SUM(u.amount) AS BIGINT) AS amount,
    COUNT(DISTINCT u.process) AS processes,
    COUNT(DISTINCT u.file) AS files,
    MAX_BY(p.name, CONCAT(LPAD(CAST(u.amount AS VARCHAR), 20, '0'), p.name)) AS example_process,
    MAX_BY(u.detail, CONCAT(LPAD(CAST(u.amount AS VARCHAR), 20, '0'), u.detail)) AS detail
FROM unseen AS u
LEFT JOIN process AS p ON p.node = u.node AND p.process = u.process
GROUP BY u.kind
