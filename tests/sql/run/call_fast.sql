-- @param fast_share=0.5
-- Five preads took 20, 30, 40, 100 and 100 ns: the fastest 2.5 are 20, 30 and half of 40, 70 ns. Of the two pwrites one
-- returned (60 ns). One call of each of the others: at least one is averaged.
SELECT call, kind, n, fast_n, fast_ns FROM call_fast ORDER BY call
