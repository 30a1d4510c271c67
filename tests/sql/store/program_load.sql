-- By the scheduler: the slices of kind kernel of each machine, if there are any.
SELECT * FROM program_load ORDER BY node
