-- Each wait with its object; a thread's handle is no peer that anybody knows.
SELECT thread, waits_for, call, object, peer, n, time_ns, max_ns FROM waited_for ORDER BY thread
