-- 201's waits: 101 alone made a call on file 1 in the last 5 ms (tid 100, of alpha). File 2: 101 and 301 both did. File 3: the
-- unlock is 20 ms old. File 4: who closed it had no lock. File 5: delta (pid 400) ended 0.5 ms before the first wait did; the
-- second failed; they are 4.5 and 2 ms. File 6: 501's fcntl. File 7: 60 us are no wait. Calls that didn't wait are left out.
-- 601 reads pipe 11 from eta alone, pipe 12 from two, pipe 13 from nobody known; each writer's reader is 601.
-- 701 and 801 are at the ends of sockets 21 and 22; of 23 and of the mutex nothing is known.
SELECT thread, call, object, peer, peer_name, n, time_ns
FROM waited_for
WHERE max_ns > 1000
ORDER BY thread, call, object, peer NULLS LAST
