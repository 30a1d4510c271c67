-- Reads of /dev/a in turn: rows 0, 2, 3, 4, 6. Row 2 follows the first, row 4 the second; row 6 nothing. Writes: row 5 follows row 1.
SELECT device, is_write, turn, ts, length, after_turn FROM block_link ORDER BY device, is_write, turn
