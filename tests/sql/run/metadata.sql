-- @param every_ns=500
-- @param storm_rate=3000000
-- Process 1 before 500: open and stat of 6 calls: 4e6 a second, but a third of the calls: no storm.
SELECT ts, process, n, all_n, opens, stats, names, directories, failed, time_ns, rate, storm FROM metadata
