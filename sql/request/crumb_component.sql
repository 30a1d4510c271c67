-- The part of the system that a breadcrumb is in: one row a breadcrumb that a component posted an operation of.
--
-- @requires service_op
-- @order node, crumb
-- @dimension node, component
-- @measure n = count(*)
-- @column node VARCHAR: machine
-- @column crumb BIGINT: breadcrumb
-- @column component VARCHAR: who served it, or else worked on it, or else called
SELECT
    node,
    crumb,
    COALESCE(
        MIN(component) FILTER (WHERE kind = 'server'),
        MIN(component) FILTER (WHERE kind = 'internal'),
        MIN(component)
    ) AS component
FROM service_op
WHERE crumb <> 0
GROUP BY node, crumb
