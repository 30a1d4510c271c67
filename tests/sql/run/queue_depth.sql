-- @param every_ns=250
-- 0–250: open 50, 21's write 100, 11's read from 200: 50, 12's read 20 = 220 in flight of 250; at 200, 21's
-- write ends as two reads begin: 2 at most. 250–500: rest of the read 50, read 100, stat 30, read 40 = 220;
-- stat beside a read: 2. 500–750: write 60, fsync 150. 750–1000: fsync 50, the unfinished 100, read 30 = 180;
-- the unfinished (800–900) beside the read (870–900), the fsync ends as it begins. 1000: nothing.
SELECT * FROM queue_depth ORDER BY ts
