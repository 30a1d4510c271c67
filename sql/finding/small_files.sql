-- Many small files: each costs an open, a close and mostly a stat, a directory entry and an inode, before
-- the first byte moves; they lie apart on the device, so read-ahead can't run from one to the next.
--
-- Counted are files that were opened and of which a program moved fewer than `small_file_bytes` (64 KiB is
-- where the fixed costs equal the transfer on a disk (about 0.5 ms at 120 MB/s) and exceed it on flash).
--
-- @param min_share DOUBLE 0.01: a smaller share of the working time is no finding
-- @param medium_share DOUBLE 0.05: share of the working time from which a finding is medium
-- @param high_share DOUBLE 0.2: share of the working time from which a finding is high
-- @param small_files BIGINT 1000: fewer small files are no finding
-- @param small_file_bytes BIGINT 65536 bytes: a file of which at most this much was moved is small
-- @requires effort, program_pattern
SELECT
    'small_files' AS finding,
    CASE
        WHEN f.cost_ns >= p.high_share * e.work_ns THEN 'high'
        WHEN f.cost_ns >= p.medium_share * e.work_ns THEN 'medium'
        ELSE 'low'
    END AS severity,
    concat(
        f.process_name, ': ', printf('%,d', f.files), ' small files, ',
        printf('%,d', CAST(round(1e0 * f.bytes / NULLIF(f.files, 0)) AS BIGINT)), ' bytes each, take ',
        printf('%,d', CAST(round(1e2 * f.cost_ns / e.work_ns) AS BIGINT)), ' % of the working time.'
    ) AS title,
    f.process_name AS program,
    f.process AS process,
    CAST(NULL AS BIGINT) AS thread,
    f.file AS file,
    f.ops AS ops,
    f.bytes AS bytes,
    f.cost_ns AS cost_ns,
    f.start_ts AS start_ts,
    f.end_ts AS end_ts,
    concat(
        printf('%,d', f.ops), ' calls for ', printf('%,.1f', CAST(f.bytes / 1048576e0 AS DECIMAL(18, 1))),
        ' MiB, ', printf('%,.1f', CAST(f.cost_ns / NULLIF(f.files, 0) / 1e3 AS DECIMAL(18, 1))),
        ' µs a file, ', printf('%,.3f', CAST(f.cost_ns / 1e9 AS DECIMAL(18, 3))), ' s in all, of which ',
        printf('%,.3f', CAST(f.part_ns / 1e9 AS DECIMAL(18, 3))), ' s for names and attributes; in ',
        f.place, '.'
    ) AS evidence,
    concat(
        'Put them together: an archive (tar, zip, squashfs mounted as a loop), a database (SQLite, ',
        'LMDB), a container format for data sets (HDF5, TFRecord, WebDataset, Parquet). If they must ',
        'stay apart: handle several at once (threads, io_uring), in the order of inodes or of the ',
        'archive, on flash.'
    ) AS advice
FROM program_pattern AS f
CROSS JOIN params AS p
CROSS JOIN effort AS e
WHERE f.pattern = 'small_files'
    AND f.bytes <= p.small_file_bytes * f.files
    AND f.files >= p.small_files
    AND f.cost_ns >= p.min_share * e.work_ns
