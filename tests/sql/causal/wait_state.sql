-- Rank 1 is blocked 250 until the message is sent, then 30 go by; at the barrier rank 0 is blocked 380, rank 1 not; the large message
-- waits 10 for its receiver. The sleep, the lock and the poll have no edge.
SELECT thread, ts, dur, state, edge, blocked_ns, after_ns, cause_thread, cause_ts FROM wait_state ORDER BY thread, ts
