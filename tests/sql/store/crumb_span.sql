-- A serving replies (10, 50), work of one's own ends (20), a call returns (21) or doesn't (22).
SELECT crumb, reply_seq, reply_ts - first_ts AS took, call_seq, return_seq, return_ts - call_ts AS called
FROM crumb_span WHERE crumb IN (10, 20, 21, 22, 50) ORDER BY crumb
