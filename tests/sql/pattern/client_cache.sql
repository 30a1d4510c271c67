-- alice: her read is of a page that she wrote; her writes before the sync are one page, that after it is one, and those
-- in the next microsecond are neighbours: 3. bob: his last read is of a page that he has. All of alice's are to file 1,
-- which bob uses too; of bob's, one.
-- @param write_back_ns=1000
SELECT client, reads, writes, bytes, small, sequential, shared, sent_reads, sent_writes FROM client_cache ORDER BY client
