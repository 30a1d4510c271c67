-- Every call as in README.md, but the read inside the barrier (870), and the unfinished write until 900.
SELECT thread, call, kind, since_ts, until_ts FROM busy ORDER BY thread, since_ts
