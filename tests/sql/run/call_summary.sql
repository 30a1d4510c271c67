-- pread: 100+100+40+30+20 = 290; sorted 20 30 40 100 100: the 3rd of 5 is the median, 40 lies in the bucket
-- from 40 (one ns wide below 64); 100 in the one from 100 (two wide from 64 to 128).
-- pwrite: 60 returned, the other lasts 100 until its thread ends. stat failed.
SELECT * FROM call_summary ORDER BY call
