-- Two requests of /data/proc/b and of /dev/sda, one read of /data/a and its flush; nothing of pipes, sockets, terminals, /proc, /sys
-- and of devices without storage, nor of calls that moved nothing, failed or have no offset.
SELECT device, path, ts, op, pos, length FROM file_request ORDER BY ts
