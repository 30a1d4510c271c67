-- @param time_slices=2
-- 151 s from 1 s on: three reads before 76.5 s. The first follows none; the second is the first step, so no stride
-- yet; the third and fourth go as far as the step before; the last goes back.
SELECT slice, kind, size, n, placed, consecutive, strided, jump FROM access_slice ORDER BY slice, size
