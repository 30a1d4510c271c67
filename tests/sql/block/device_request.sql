-- Rows 0 to 9 of the trace, row 8 a flush; of the kernel's disks sda, whose flush has no place. What a program says counts only
-- where no kernel is.
SELECT device, ts, dur, op, pos, length, flags FROM device_request ORDER BY ts, device, pos
