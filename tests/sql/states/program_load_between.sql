-- @param load_from_ns=9000
-- @param load_until_ns=9750
-- Of 5,500 ns on a CPU in 10,000 thread 11 has 7.5 % here, of 350 in 9,500 thread 12 the last 500 ns, and 14 7.5 % of 6,000.
SELECT cpu_ns FROM program_load
