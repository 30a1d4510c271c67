-- Computing, the write, the message, the barrier and computing of thread 11; thread 21's with unknown CPU time has its length.
SELECT thread, at_ts, step, dur, kind, edge, call, path FROM annotated ORDER BY thread, at_ts, place
