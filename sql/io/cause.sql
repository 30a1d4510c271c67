-- What each finding says of a cause: which calls it is about, how near to the cause it is, and what mending it saves.
-- One row a finding; module `diagnosis` groups by it.
--
-- `covers` are classes of calls: read, write, flush, open (and close), attribute (stat, access …), seek, name (the
-- other calls for names), fault, lock, file_lock, peer, sleep, cpu, error. Findings of one `family` look at one cause from
-- several sides. `specific` weighs a finding against others over the same calls: 1 names the cause, less a part of
-- it or a symptom. How `saves` becomes time says `mode`:
--
--     all       the calls are needless: the share `saves` of their time
--     merge     fewer, larger calls: `saves` of their time but for what moving the bytes takes (copy_bytes_per_s)
--     overlap   calls that reach the storage (device_ns each) wait beside each other, or aren't made: `saves` of their
--               time; of others the bytes move all the same, as in merge
--     task      as merge, or nothing in programs whose task it is to go through trees of files: theirs is the tree
--     slow      each call is slow: as all, where they take task_ns and more on average
--     none      nothing: a note, or a risk for the data
--
-- @dimension family, mode
-- @measure findings = count(*)
-- @column finding VARCHAR: name of the finding
-- @column family VARCHAR: findings of one cause
-- @column covers VARCHAR: classes of calls, with a blank before and after each
-- @column specific DOUBLE: how near it is to the cause, 0 to 1
-- @column saves DOUBLE share: of its time, what mending it saves
-- @column mode VARCHAR: how: all, merge, overlap, task, slow or none
SELECT * FROM (VALUES
    ('fsync_per_write', 'flush', ' flush ', 1e0, 0.9, 'all'),
    ('fsync_bound', 'flush', ' flush ', 0.8, 0.9, 'all'),
    ('synchronous_writes', 'flush', ' write ', 1e0, 0.9, 'all'),
    ('system_sync', 'flush', ' flush ', 1e0, 0.9, 'all'),
    ('small_direct', 'access', ' read write ', 1e0, 0.9, 'all'),
    ('backward_reads', 'access', ' read ', 1e0, 0.8, 'overlap'),
    ('strided_access', 'access', ' read write ', 0.95, 0.8, 'overlap'),
    ('random_reads', 'access', ' read ', 0.9, 0.8, 'overlap'),
    ('random_writes', 'access', ' write ', 0.9, 0.8, 'overlap'),
    ('random_stdio', 'access', ' read seek ', 1e0, 0.9, 'merge'),
    ('read_modify_write', 'access', ' read write ', 1e0, 0.8, 'merge'),
    ('mixed_access', 'access', ' read write ', 0.3, 0.5, 'merge'),
    ('seek_per_access', 'access', ' seek ', 0.7, 1e0, 'all'),
    ('small_reads', 'access', ' read ', 0.8, 0.9, 'merge'),
    ('readahead_reads', 'access', ' read ', 0.5, 0.9, 'merge'),
    ('small_writes', 'access', ' write ', 0.7, 0.9, 'merge'),
    ('tiny_appends', 'access', ' write ', 0.9, 0.95, 'merge'),
    ('stdio_buffer', 'access', ' read write ', 0.6, 0.7, 'merge'),
    ('stdio_flush', 'access', ' write ', 1e0, 0.95, 'merge'),
    ('unaligned_reads', 'access', ' read ', 0.3, 0.3, 'all'),
    ('unaligned_writes', 'access', ' write ', 0.3, 0.3, 'all'),
    ('short_transfers', 'access', ' read write ', 0.6, 0.5, 'all'),
    ('overwritten_data', 'access', ' write ', 1e0, 0.9, 'overlap'),
    ('rereads', 'access', ' read ', 0.8, 0.9, 'overlap'),
    ('eof_polling', 'access', ' read ', 1e0, 1e0, 'all'),
    ('unread_temporaries', 'access', ' write read open ', 1e0, 1e0, 'all'),
    ('shared_file', 'access', ' write ', 0.9, 0.7, 'all'),
    ('untimed_access', 'access', ' read write ', 0.9, 0e0, 'none'),
    ('slow_mount', 'access', ' read write ', 1e0, 0.8, 'all'),
    ('reopened_files', 'names', ' open ', 1e0, 1e0, 'all'),
    ('rewritten_in_place', 'names', ' open ', 0.9, 0.9, 'all'),
    ('repeated_stat', 'names', ' attribute ', 1e0, 1e0, 'all'),
    ('missing_files', 'names', ' open attribute ', 1e0, 0.9, 'all'),
    ('failing_calls', 'names', ' attribute name seek ', 1e0, 1e0, 'all'),
    ('small_files', 'names', ' open attribute read write ', 0.85, 0.8, 'task'),
    ('metadata_bound', 'names', ' open attribute seek name ', 0.2, 0.5, 'task'),
    ('slow_metadata', 'names', ' open attribute name ', 0.6, 0.5, 'slow'),
    ('lock_waits', 'lock', ' lock ', 1e0, 0.8, 'all'),
    ('file_lock', 'lock', ' file_lock ', 1e0, 0.9, 'all'),
    ('slow_peer', 'peer', ' peer ', 1e0, 0.9, 'all'),
    ('polling', 'sleep', ' sleep ', 1e0, 0.5, 'all'),
    ('mapped_files', 'fault', ' fault ', 1e0, 0.8, 'all'),
    ('held_up', 'balance', ' peer ', 1e0, 1e0, 'all'),
    ('slow_thread', 'balance', ' read write flush open attribute name ', 0.9, 1e0, 'all'),
    ('slow_process', 'balance', ' read write flush open attribute name ', 0.8, 1e0, 'all'),
    ('one_process', 'balance', ' read write ', 0.4, 0.5, 'all'),
    ('serial_io', 'balance', ' read write flush open attribute name ', 0.3, 0.5, 'all'),
    ('stalled', 'symptom', ' read write flush open attribute name ', 0.2, 0.5, 'all'),
    ('latency_outliers', 'symptom', ' read write flush ', 0.2, 0.5, 'all'),
    ('io_errors', 'error', ' error ', 1e0, 0e0, 'none'),
    ('failed_opens', 'descriptors', ' open ', 1e0, 1e0, 'all'),
    ('descriptor_leak', 'descriptors', ' open ', 0.9, 0e0, 'none'),
    ('storage_idle', 'cpu', ' cpu ', 1e0, 0e0, 'none')
) AS t(finding, family, covers, specific, saves, mode)
