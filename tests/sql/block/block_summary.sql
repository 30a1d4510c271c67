-- Eleven reads and writes, nine of them placed; 4 sequential. Gaps of all: 0, 10, 10, 50, 50, 50, 110, 120: the fourth is 50, the
-- eighth 120. Working set: five blocks of /dev/a and two of sda.
SELECT * FROM block_summary ORDER BY kind
