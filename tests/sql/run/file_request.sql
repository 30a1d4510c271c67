-- /data/a has five reads, one of them short; /data/b and /data/c one write each, the first of them by path. The fsync is of /data/b,
-- the write to it that never returned and the stat are left out.
SELECT device, path, ts, op, pos, length FROM file_request ORDER BY ts, device
