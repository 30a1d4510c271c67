-- The metrics that agents sample: one row a metric.
-- A metric is either a level, the value at a moment, or a sum over the stretch of time that its row says, of which a
-- view shows the sum a second: time a second is a share.
--
-- @materialize
-- @order metric
-- @dimension role, unit
-- @measure n = count(*)
-- @column metric VARCHAR: name, as in table node_sample
-- @column role VARCHAR: whose: host, osd, mds, client, mon, nfs; daemon for every process of a cluster
-- @column unit VARCHAR: ns, bytes, ops, 1 (a plain number)
-- @column level BOOLEAN: whether it is a level; else a sum
-- @column per VARCHAR: what column name tells apart; null nothing
-- @column histogram BOOLEAN: whether column least tells buckets apart, of which value is the count
-- @column meaning VARCHAR: one line
SELECT *
FROM (
    VALUES
    ('load', 'host', '1', TRUE, NULL, FALSE, 'Load average of the last minute.'),
    ('cpus', 'host', '1', TRUE, NULL, FALSE, 'CPUs online.'),
    ('cpu', 'host', 'ns', FALSE, 'user, system, iowait, steal', FALSE, 'CPU time used, or spent waiting for disks.'),
    ('memory_size', 'host', 'bytes', TRUE, NULL, FALSE, 'Memory of the machine.'),
    ('memory_used', 'host', 'bytes', TRUE, NULL, FALSE, 'Memory that programs can''t have any more.'),
    ('network_in', 'host', 'bytes', FALSE, 'interface', FALSE, 'Bytes received.'),
    ('network_out', 'host', 'bytes', FALSE, 'interface', FALSE, 'Bytes sent.'),
    ('disk_read', 'host', 'bytes', FALSE, 'disk', FALSE, 'Bytes read from a disk.'),
    ('disk_write', 'host', 'bytes', FALSE, 'disk', FALSE, 'Bytes written to a disk.'),
    ('disk_ops', 'host', 'ops', FALSE, 'disk', FALSE, 'Requests a disk completed.'),
    ('disk_busy', 'host', 'ns', FALSE, 'disk', FALSE, 'Time a disk had something to do; of an OSD the disk it stands on.'),
    ('space_size', 'host', 'bytes', TRUE, 'where it is mounted', FALSE, 'Size of a file system, or of an OSD.'),
    ('space_used', 'host', 'bytes', TRUE, 'where it is mounted', FALSE, 'What of that is used.'),
    ('daemon_cpu', 'daemon', 'ns', FALSE, NULL, FALSE, 'CPU time of the process.'),
    ('daemon_memory', 'daemon', 'bytes', TRUE, NULL, FALSE, 'Resident memory of the process.'),
    ('message_in', 'daemon', 'bytes', FALSE, NULL, FALSE, 'Bytes of messages received, from whomever.'),
    ('message_out', 'daemon', 'bytes', FALSE, NULL, FALSE, 'Bytes of messages sent, to whomever.'),
    ('replica_in', 'osd', 'bytes', FALSE, NULL, FALSE, 'Bytes written here as a replica of another OSD.'),
    ('replica_out', 'osd', 'bytes', FALSE, NULL, FALSE, 'Bytes sent to replicas; known where all requests are.'),
    ('op', 'daemon', 'ops', FALSE, 'operation', FALSE, 'Requests of clients completed.'),
    ('op_time', 'daemon', 'ns', FALSE, 'operation', FALSE, 'Time they took in the daemon.'),
    ('op_bytes', 'daemon', 'bytes', FALSE, 'read or write', FALSE, 'Bytes of data of requests of clients.'),
    ('replica_op', 'osd', 'ops', FALSE, NULL, FALSE, 'Writes completed here as a replica.'),
    ('replica_time', 'osd', 'ns', FALSE, NULL, FALSE, 'Time they took.'),
    ('op_active', 'daemon', 'ops', TRUE, NULL, FALSE, 'Requests in the daemon.'),
    ('write', 'osd', 'ops', FALSE, 'small (under 1 KiB) or large', FALSE, 'Writes of clients, as all requests tell.'),
    ('write_time', 'osd', 'ns', FALSE, 'small or large', FALSE, 'Time until their replies.'),
    ('store_commit', 'osd', 'ops', FALSE, 'transaction or database', FALSE, 'Transactions that BlueStore committed, and commits of its database, one for many.'),
    ('store_commit_time', 'osd', 'ns', FALSE, 'transaction or database', FALSE, 'Time they took.'),
    ('io_size', 'osd', 'ops', FALSE, 'read or write', TRUE, 'Requests by their bytes.'),
    ('cache_hit', 'client', 'ops', FALSE, NULL, FALSE, 'Reads that the client''s cache held.'),
    ('cache_miss', 'client', 'ops', FALSE, NULL, FALSE, 'Reads that it didn''t.'),
    ('cache_dirty', 'client', 'bytes', TRUE, NULL, FALSE, 'Bytes written and not yet flushed.'),
    ('journal_flush', 'mds', 'ops', FALSE, NULL, FALSE, 'Journal writes that became durable.'),
    ('journal_time', 'mds', 'ns', FALSE, NULL, FALSE, 'Time they took.'),
    ('export', 'mds', 'ops', FALSE, 'out or in', FALSE, 'Subtrees migrated to other MDSs and from them.'),
    ('forward', 'mds', 'ops', FALSE, NULL, FALSE, 'Requests sent on to another MDS.'),
    ('inodes', 'mds', '1', TRUE, NULL, FALSE, 'Inodes in the cache.'),
    ('sessions', 'mds', '1', TRUE, NULL, FALSE, 'Sessions of clients.'),
    ('shipped', 'host', 'ops', FALSE, NULL, FALSE, 'Records that the agent sent.'),
    ('dropped', 'host', 'ops', FALSE, NULL, FALSE, 'Records that the agent had to drop.'),
    ('spooled', 'host', 'bytes', TRUE, NULL, FALSE, 'Bytes in the agent''s spool.')
) AS m (metric, role, unit, level, per, histogram, meaning)
