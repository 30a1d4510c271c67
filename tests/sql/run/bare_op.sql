-- As op, without names.
SELECT ts, dur, thread, call, kind, file, moved, bucket FROM bare_op ORDER BY thread, ts
