-- @param stream_requests=1
-- Looking back over one request, row 4 doesn't see row 2.
SELECT device, is_write, turn, after_turn FROM block_link WHERE after_turn IS NOT NULL ORDER BY device, is_write, turn
