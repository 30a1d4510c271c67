-- 801 sends a byte; 701 and 801 receive one each. What goes through pipes is no network.
SELECT * FROM program_load ORDER BY node
