-- Every finding: the rows of all modules `finding_*`. Module `diagnosis` makes cards of them.
--
-- @materialize
-- @requires finding_backward_reads, finding_descriptor_leak, finding_eof_polling, finding_failed_opens,
--     finding_failing_calls, finding_file_lock, finding_fsync_bound, finding_fsync_per_write, finding_held_up, finding_io_errors,
--     finding_latency_outliers, finding_lock_waits, finding_mapped_files, finding_metadata_bound,
--     finding_missing_files, finding_mixed_access, finding_one_process, finding_overwritten_data, finding_polling,
--     finding_random_reads, finding_random_stdio, finding_random_writes, finding_read_modify_write,
--     finding_readahead_reads, finding_reopened_files, finding_repeated_stat, finding_rereads,
--     finding_rewritten_in_place, finding_seek_per_access, finding_serial_io, finding_shared_file,
--     finding_short_transfers, finding_slow_metadata, finding_slow_mount, finding_slow_peer, finding_slow_process,
--     finding_slow_thread, finding_small_direct, finding_small_files, finding_small_reads, finding_small_writes,
--     finding_stalled, finding_stdio_buffer, finding_stdio_flush, finding_storage_idle, finding_strided_access,
--     finding_synchronous_writes, finding_system_sync, finding_tiny_appends, finding_unaligned_reads,
--     finding_unaligned_writes, finding_unread_temporaries, finding_untimed_access
-- @order cost_ns DESC
-- @dimension finding, severity, program
-- @measure findings = count(*); cost_ns = sum(cost_ns)
-- @column finding VARCHAR: name of the finding
-- @column severity VARCHAR: high, medium or low
-- @column title VARCHAR: one sentence with the numbers
-- @column program VARCHAR: name of the program it is about; null all
-- @column process BIGINT: process it is about; null several
-- @column thread BIGINT: thread it is about; null several
-- @column file BIGINT: file it is about; null several
-- @column ops BIGINT: calls concerned; null none
-- @column bytes BIGINT bytes: bytes concerned; null none
-- @column cost_ns BIGINT ns: time it accounts for; null unknown
-- @column start_ts BIGINT ns: start of the first call concerned
-- @column end_ts BIGINT ns: end of the last call concerned
-- @column evidence VARCHAR: the figures, in words
-- @column advice VARCHAR: what to do about it
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_backward_reads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_descriptor_leak
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_eof_polling
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_failed_opens
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_failing_calls
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_file_lock
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_fsync_bound
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_fsync_per_write
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_held_up
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_io_errors
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_latency_outliers
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_lock_waits
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_mapped_files
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_metadata_bound
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_missing_files
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_mixed_access
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_one_process
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_overwritten_data
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_polling
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_random_reads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_random_stdio
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_random_writes
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_read_modify_write
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_readahead_reads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_reopened_files
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_repeated_stat
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_rereads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_rewritten_in_place
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_seek_per_access
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_serial_io
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_shared_file
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_short_transfers
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_slow_metadata
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_slow_mount
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_slow_peer
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_slow_process
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_slow_thread
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_small_direct
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_small_files
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_small_reads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_small_writes
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_stalled
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_stdio_buffer
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_stdio_flush
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_storage_idle
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_strided_access
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_synchronous_writes
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_system_sync
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_tiny_appends
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_unaligned_reads
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_unaligned_writes
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_unread_temporaries
UNION ALL
SELECT
    finding, severity, title, program, process, thread, file, ops, bytes, cost_ns, start_ts, end_ts, evidence, advice
FROM finding_untimed_access
