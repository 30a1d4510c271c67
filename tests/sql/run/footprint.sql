-- /data/a: 18432 bytes read (as in reread.sql), 12288 different ones. /data/b: the write that returned;
-- the other never did. /data/c: one write.
SELECT path, kind, ops, bytes, distinct_bytes, time_ns FROM footprint ORDER BY path, kind
