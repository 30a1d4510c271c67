-- sda was read as the program and as the kernel saw it, sdb written; a disk request is queued, issued and done. Work
-- of one's own and accesses that last begin and end.
SELECT record, component, name, moment FROM point_kind
WHERE moment IS NOT NULL AND (record = 'disk_op' OR name LIKE '%flush%') ORDER BY record, component, name, moment
