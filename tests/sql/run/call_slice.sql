-- @param tail_share=0.5
-- Five preads: 4 slices (4 * 4 <= 8 * 5, and at most 5), the first of two (20 and 100 ns at 200), whose slower half
-- is its tail. Gaps: thread 11 has 50 ns from 150, 60 from 440, 40 from 560, 50 from 800; thread 12 80 from 220,
-- thread 21 100 from 200. By time: 50 100 | 80 | 60 40 | 50.
SELECT call, kind, slice, slices, n, body_ns, tail_ns FROM call_slice
WHERE call IN ('pread', '(between calls)') ORDER BY call, slice
