-- What to do about a cause in a program of a kind (module `program_kind`), in that program's own settings.
-- A finding without a row for the kind keeps its general advice.
--
-- @dimension kind, finding
-- @measure advices = count(*)
-- @column kind VARCHAR: kind of program
-- @column finding VARCHAR: finding that leads the card
-- @column advice VARCHAR: what to do
SELECT k.kind, f.finding, k.advice
FROM (VALUES
    ('postgresql', 'flush', 'PostgreSQL waits for its write-ahead log at each COMMIT. Put many statements into one transaction (BEGIN … COMMIT, COPY instead of INSERT). With many clients: commit_delay = 1000 and commit_siblings, so that commits share a flush. If the last commits may be lost in a crash (never consistency): synchronous_commit = off. Put pg_wal on a disk with power-loss protection.'),
    ('mariadb', 'flush', 'InnoDB flushes its log at each COMMIT, and the binary log too. Put many statements into one transaction. If a second of commits may be lost in a crash: innodb_flush_log_at_trx_commit = 2 and sync_binlog = 0 (or 100). With many clients: binlog_group_commit_sync_delay lets commits share a flush. Put the logs on a disk with power-loss protection.'),
    ('sqlite', 'flush', 'SQLite flushes for each transaction. Put many statements into one transaction (BEGIN … COMMIT; Python: one commit for all inserts, executemany). PRAGMA journal_mode=WAL with PRAGMA synchronous=NORMAL flushes at checkpoints only: a crash of the machine may lose the last transactions, never consistency.'),
    ('redis', 'flush', 'Redis flushes its append-only file for each command (appendfsync always). appendfsync everysec loses a second at most; with always, pipeline commands so that one flush serves many. no-appendfsync-on-rewrite yes avoids waiting for a rewrite.'),
    ('rocksdb', 'flush', 'RocksDB flushes its log for each write with WriteOptions::sync. Write batches (WriteBatch), let several writers share a flush (they do if they write at once), or sync every some writes; manual_wal_flush and wal_bytes_per_sync smooth what is left.'),
    ('mongodb', 'flush', 'MongoDB flushes its journal for each write with j: true. Use bulkWrite, or write concern w: majority without j, or a longer storage.journal.commitIntervalMs.'),
    ('python', 'flush', 'Python: collect records and call os.fsync once for many (or once a second from a thread), instead of after each write. For a database file, one transaction for many rows.'),
    ('java', 'flush', 'Java: call FileChannel.force or FileDescriptor.sync once for many records, not for each; open without the modes "rws", "rwd" and StandardOpenOption.SYNC.'),
    ('postgresql', 'random', 'PostgreSQL reads pages at random places. Larger shared_buffers, an index that covers the query (INCLUDE) or CLUSTER by the order of access, effective_io_concurrency of 100 and more on SSDs (bitmap scans read ahead); EXPLAIN (ANALYZE, BUFFERS) names the node that reads.'),
    ('mariadb', 'random', 'InnoDB reads pages at random places. Larger innodb_buffer_pool_size first (three quarters of memory on a machine of its own), then indexes that cover the query, innodb_read_io_threads and innodb_io_capacity for the device.'),
    ('sqlite', 'random', 'SQLite reads pages at random places. PRAGMA cache_size=-262144 (256 MiB), PRAGMA mmap_size, an index that covers the query, VACUUM to bring tables into order; EXPLAIN QUERY PLAN shows scans.'),
    ('rocksdb', 'random', 'RocksDB reads blocks at random places. A larger block cache (BlockBasedTableOptions::block_cache), bloom filters for point look-ups, optimize_filters_for_hits, MultiGet with async_io to keep reads in flight.'),
    ('sqlite', 'file_lock', 'Only one connection of SQLite writes at a time. Keep write transactions short (no work or network calls between BEGIN and COMMIT), begin them with BEGIN IMMEDIATE, set PRAGMA journal_mode=WAL so that readers don’t wait for the writer, and PRAGMA busy_timeout so that the wait is short.'),
    ('python', 'file_lock', 'Hold the lock for the change only (with a short block around it), do slow work before or after. fcntl.lockf with a range locks a part; a queue (multiprocessing.Queue, a database) needs no lock file.'),
    ('shell', 'file_lock', 'flock keeps the lock as long as the command runs: lock only the step that needs it (flock FILE short-command), or a file for each task; flock -s for readers.'),
    ('python', 'small', 'Python: open(path, "rb", buffering=1 << 20) or "wb" with the same; read(1 << 20) and split in memory; don’t use os.read, os.write or buffering=0 for small pieces; no flush=True in loops.'),
    ('java', 'small', 'Java: wrap the stream in BufferedOutputStream or BufferedInputStream (new BufferedOutputStream(out, 1 << 20)), or use a FileChannel with a ByteBuffer of 64 KiB and more; each write of FileOutputStream is a system call.'),
    ('node', 'small', 'Node.js: a stream (fs.createWriteStream with highWaterMark: 1 << 20) collects small writes; cork() and uncork() around many; fs.writeSync of one Buffer instead of many strings.'),
    ('sqlite', 'small', 'SQLite moves a page at a time: PRAGMA page_size=16384 (then VACUUM), a larger PRAGMA cache_size, and many rows a transaction make fewer and larger requests.'),
    ('shell', 'small', 'A shell reads and writes line by line: give whole files to one command (sed, awk, sort) instead of a loop with read and echo.'),
    ('mpi', 'small', 'MPI: collective calls (MPI_File_read_all, MPI_File_write_all) merge the ranks’ small requests; ROMIO hints romio_cb_read and romio_cb_write = enable, cb_buffer_size = 16777216; HDF5: larger chunks.'),
    ('python', 'reopened_files', 'Open the file once, before the loop, and keep it open; logging.FileHandler does. To read it often, keep its contents (functools.cache) and reload when os.stat says it changed.'),
    ('node', 'reopened_files', 'fs.appendFileSync and fs.writeFileSync open and close the file each time: open once (fs.openSync or fs.createWriteStream with flags: "a") and write to that.'),
    ('shell', 'reopened_files', 'Redirect the whole loop, done >> file, instead of each command in it; or open once: exec 3>> file, then echo >&3.'),
    ('nginx', 'reopened_files', 'nginx: open_file_cache max=10000 inactive=60s; open_file_cache_valid 60s; keeps descriptors of what is served often; access_log with buffer=64k.'),
    ('java', 'reopened_files', 'Keep the FileChannel or the Writer open instead of Files.write or new FileWriter for each record; log frameworks: immediateFlush=false and one appender.'),
    ('python', 'repeated_stat', 'os.path.exists, isfile and getmtime are a stat each: ask once before the loop, keep the answer; os.scandir gives attributes with the names.'),
    ('nginx', 'repeated_stat', 'nginx: open_file_cache keeps attributes too.'),
    ('python', 'missing_files', 'Fewer directories in sys.path and PYTHONPATH; import by full path; a zip of the modules. Own search: os.scandir each directory once and look names up in a set.'),
    ('python', 'small_files', 'Store many samples in one file: a zip or tar that is read in order, SQLite, LMDB, HDF5, Parquet; PyTorch: WebDataset, several num_workers that read ahead.'),
    ('mpi', 'small_files', 'One shared file (MPI_File_write_all, parallel HDF5 or NetCDF, ADIOS2) instead of a file for each rank and step.'),
    ('python', 'lock_waits', 'Do slow calls outside of the with lock: block; give each thread its own file and connection; queue.Queue hands work over without a lock around I/O.'),
    ('node', 'slow_peer', 'Node.js: start the requests together (Promise.all with a bound on how many), with a keep-alive agent (new http.Agent({ keepAlive: true })); then look at the service that answers.'),
    ('python', 'slow_peer', 'Ask for several things at once: asyncio.gather, a thread pool (concurrent.futures), a session that keeps connections (requests.Session, httpx.Client); then look at the service that answers.'),
    ('postgresql', 'slow_peer', 'PostgreSQL waits for its client or replica: pg_stat_activity.wait_event says ClientRead or SyncRep; fewer round trips (one statement for many rows, pipeline mode of libpq).'),
    ('shell', 'slow_peer', 'The command before the pipe sets the pace: look at what it waits for; run parts side by side (xargs -P, GNU parallel).'),
    ('python', 'mapped_files', 'numpy.memmap and mmap read a page for each fault: read the parts that are needed with one read each, in order; mmap.madvise(mmap.MADV_WILLNEED) ahead, MADV_SEQUENTIAL for scans; sort the indices before a gather.'),
    ('java', 'mapped_files', 'MappedByteBuffer reads a page for each fault: load() before use if it fits in memory, or FileChannel.read into a direct buffer in the order of the file.'),
    ('mpi', 'slow_process', 'Look at the node and the part of the file of the rank that lags; share the work out by bytes, not by files; MPI_File_write_all with cb_nodes of one a node.')
) AS k(kind, cause, advice)
INNER JOIN (VALUES
    ('fsync_per_write', 'flush'), ('fsync_bound', 'flush'), ('synchronous_writes', 'flush'), ('random_reads', 'random'),
    ('small_reads', 'small'), ('readahead_reads', 'small'), ('small_writes', 'small'), ('tiny_appends', 'small'),
    ('stdio_flush', 'small'), ('reopened_files', 'reopened_files'), ('repeated_stat', 'repeated_stat'),
    ('missing_files', 'missing_files'), ('small_files', 'small_files'), ('lock_waits', 'lock_waits'),
    ('file_lock', 'file_lock'), ('slow_peer', 'slow_peer'), ('mapped_files', 'mapped_files'),
    ('slow_process', 'slow_process')
) AS f(finding, cause) ON f.cause = k.cause
