-- Eleven rows of files and two of waiting. Of /data/a: one open, three preads by thread 11 before and one inside of the
-- barrier (4 * 4096 bytes), one by thread 12 (2048). /data/b: thread 11's pwrite (1000 bytes), thread 12's that never
-- returned (0), an fsync. /data/c: 21's write, and a stat that failed. A barrier of MPI is the program's own, a sleep not.
SELECT call, kind, waits_for, path, timed, n, bytes, errors FROM tally ORDER BY call, path
