-- 12 leaves from the miss (5500, the second point of 11) at 6000; its reply at 10000 is what 13 begins after at 11000;
-- 13's at 23000 is awaited by the reply at 25000, the third point. Across machines: the call of 12 lasted 4000, its
-- serving 2000: 1000 each way; of 13 12000 and 8000. The flush 20 leaves from the replies of both writes and nothing
-- awaits it; in it 21 is awaited by its end and 22, without a reply, by nothing.
SELECT parent_crumb, crumb, kind, across, from_seq, from_crumb, to_seq, to_crumb, since_seq, there_ns, back_ns
FROM branch ORDER BY parent_crumb, crumb
