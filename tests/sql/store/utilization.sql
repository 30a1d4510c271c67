-- The head's 2 CPUs have 20000 in a bucket of 10000: slices of 800 and 1000 begin in its first. sdb's 12000 from 1000 on
-- are 9000 and 3000. At a byte a nanosecond the head sends 4196 + 100 first, and 2 * 12388 from 41100 on: more than fits.
-- How many CPUs the others have is not recorded.
-- @param every_ns=10000
-- @param link_bytes_s=1000000000
SELECT node, resource, place, ts % 1000000, busy_ns, capacity_ns, share, queued_ns, bytes FROM utilization
ORDER BY node, resource, place, ts
