-- s1's records of crumb 70, since the start of its clock (2 hours): the serving 100-8100, CPU with it, the miss at 300,
-- the read as the program and the kernel saw it, the reply at 8000. What has no crumb (the write of 512) isn't there.
SELECT ts - 7200000000000 AS since, dur, record, component, kind, name, place, length, issued - 7200000000000 AS issued
FROM record WHERE node = 's1' ORDER BY ts, record
