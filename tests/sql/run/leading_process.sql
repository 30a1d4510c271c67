-- Process 1 reads 4 x 4096 + 2048 and writes 1000 bytes in 7 calls (the write that never returned included); its calls
-- take 50 + 100 + 100 + 40 + 60 + 200 + 30 of thread 11 and 20 + 30 of thread 12. Process 2 lives 500 of its 1000 ns,
-- half of them, and so is its peer: 100 bytes in 100 ns.
SELECT * FROM leading_process ORDER BY measure
