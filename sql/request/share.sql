-- Which requests a breadcrumb works for, and what part of its cost each of them owes.
-- The whole of a breadcrumb is 2^30 parts. Each row owes those in [lo, hi), and the rows of a breadcrumb cover all
-- of them, so that an amount is billed in integers whose sum is exact: a row owes f(hi) - f(lo), f(x) being
-- amount * x / 2^30 rounded down. Steps double: 1, 2, 4 … 64 stitches up. What leads in a circle or on beyond
-- that is owed by no request.
--
-- @requires crumb_parent, service_op
-- @order node, crumb, lo
-- @dimension node, crumb, root_node, root_crumb, client
-- @measure n = count(*)
-- @column node VARCHAR: machine of the breadcrumb
-- @column crumb BIGINT: breadcrumb
-- @column root_node VARCHAR: machine of the request; null no request
-- @column root_crumb BIGINT: the request's breadcrumb; null no request
-- @column client VARCHAR: user on whose behalf; null none, or the trail doesn't hold the request
-- @column lo BIGINT: first of its parts of 1,073,741,824
-- @column hi BIGINT: end of its parts
WITH parent AS (
    SELECT node, crumb, parent_node, parent_crumb, lo, hi
    FROM crumb_parent
    WHERE hi > lo
),

-- the parts of a breadcrumb's parents are the whole: of one of them the first is the first
child AS (
    SELECT node, crumb
    FROM parent
    WHERE lo = 0
),

-- step_N: N stitches up, or less where that is done: a request, or a circle, which has none
step_1 AS (
    SELECT
        p.node,
        p.crumb,
        p.parent_node AS root_node,
        p.parent_crumb AS root_crumb,
        p.lo,
        p.hi,
        c.crumb IS NULL AS done
    FROM parent AS p
    LEFT JOIN child AS c ON c.node = p.parent_node AND c.crumb = p.parent_crumb
),

step_2 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_1 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

step_4 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_2 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1 WHERE done
        UNION ALL
        SELECT * FROM step_2
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

step_8 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_4 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1 WHERE done
        UNION ALL
        SELECT * FROM step_2 WHERE done
        UNION ALL
        SELECT * FROM step_4
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

step_16 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_8 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1 WHERE done
        UNION ALL
        SELECT * FROM step_2 WHERE done
        UNION ALL
        SELECT * FROM step_4 WHERE done
        UNION ALL
        SELECT * FROM step_8
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

step_32 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_16 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1 WHERE done
        UNION ALL
        SELECT * FROM step_2 WHERE done
        UNION ALL
        SELECT * FROM step_4 WHERE done
        UNION ALL
        SELECT * FROM step_8 WHERE done
        UNION ALL
        SELECT * FROM step_16
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

step_64 AS (
    SELECT
        o.node,
        o.crumb,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_node END AS root_node,
        CASE WHEN a.root_node = o.node AND a.root_crumb = o.crumb THEN NULL ELSE a.root_crumb END AS root_crumb,
        o.lo + ((a.lo * (o.hi - o.lo) + 1073741823) >> 30) AS lo,
        o.lo + ((a.hi * (o.hi - o.lo) + 1073741823) >> 30) AS hi,
        a.done OR (a.root_node = o.node AND a.root_crumb = o.crumb) AS done
    FROM (SELECT * FROM step_32 WHERE NOT done) AS o
    INNER JOIN (
        SELECT * FROM step_1 WHERE done
        UNION ALL
        SELECT * FROM step_2 WHERE done
        UNION ALL
        SELECT * FROM step_4 WHERE done
        UNION ALL
        SELECT * FROM step_8 WHERE done
        UNION ALL
        SELECT * FROM step_16 WHERE done
        UNION ALL
        SELECT * FROM step_32
    ) AS a ON a.node = o.root_node AND a.crumb = o.root_crumb
    WHERE (a.hi * (o.hi - o.lo) + 1073741823) >> 30 > (a.lo * (o.hi - o.lo) + 1073741823) >> 30
),

owed AS (
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_1 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_2 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_4 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_8 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_16 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_32 WHERE done
    UNION ALL
    SELECT node, crumb, root_node, root_crumb, lo, hi FROM step_64 WHERE done
    UNION ALL
    SELECT node, crumb, NULL, NULL, lo, hi FROM step_64 WHERE NOT done
),

root AS (
    SELECT s.node, s.crumb, MIN(s.client) AS client
    FROM service_op AS s
    ANTI JOIN child AS c ON c.node = s.node AND c.crumb = s.crumb
    WHERE s.crumb <> 0
    GROUP BY s.node, s.crumb
)

SELECT o.node, o.crumb, o.root_node, o.root_crumb, r.client, o.lo, o.hi
FROM owed AS o
LEFT JOIN root AS r ON r.node = o.root_node AND r.crumb = o.root_crumb
UNION ALL
SELECT node, crumb, node, crumb, client, 0, 1073741824
FROM root
