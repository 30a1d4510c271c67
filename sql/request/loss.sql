-- What was posted, or happened, and is not in the trail: one row a kind of loss. Counts, sums and paths lack it.
-- Nothing in it means that the trail holds all that was posted.
--
-- @requires unseen
-- @order amount DESC, kind
-- @dimension kind
-- @measure amount = sum(amount)
-- @column kind VARCHAR: how it was lost: dropped, kernel_dropped …
-- @column amount BIGINT: how many records and calls, at least
-- @column processes BIGINT: processes concerned; 0 the whole recording
-- @column detail VARCHAR: a sentence about it; null none
SELECT
    kind,
    CAST(SUM(amount) AS BIGINT) AS amount,
    COUNT(DISTINCT process) AS processes,
    MIN(detail) AS detail
FROM unseen
WHERE
    kind IN (
        'bad_record', 'bad_type', 'dropped', 'interrupted', 'kernel_dropped', 'no_memory', 'overwritten_ring',
        'refused_segment', 'unread_segment'
    )
GROUP BY kind
