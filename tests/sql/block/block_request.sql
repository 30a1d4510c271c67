-- Rows 0 to 7 and 9 of the trace, and the kernel's two writes; no flush, no program. Row 9 has no place, for it has no length.
SELECT device, is_write, ts, dur, trace_row, pos, length FROM block_request ORDER BY ts, trace_row
