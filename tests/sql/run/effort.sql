-- The sums of time_split: work is what threads lived less what they waited, 2300 - 250.
SELECT * FROM effort
