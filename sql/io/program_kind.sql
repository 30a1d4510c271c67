-- What a program is, where advice can be given for it: by the name of its executable, by MPI's ranks, and by the
-- files of libraries that keep data (SQLite's journal, RocksDB's manifest). A program may be several.
--
-- @materialize
-- @requires activity, process
-- @dimension program, kind
-- @measure programs = count(*)
-- @column program VARCHAR: name of the executable
-- @column kind VARCHAR: postgresql, mariadb, sqlite, rocksdb, redis, mongodb, java, python, node, shell, nginx, mpi, tree
--     (goes through trees of files: tar, cp, git …)
-- @column place BIGINT: which kind to advise for first: a store of data before the language it is used from
SELECT program, kind, CAST(place AS BIGINT) AS place
FROM (
    SELECT DISTINCT p.name AS program, k.kind, k.place
    FROM process AS p
    INNER JOIN (VALUES
        ('postgres', 'postgresql', 1), ('postmaster', 'postgresql', 1), ('mysqld', 'mariadb', 1), ('mariadbd', 'mariadb', 1),
        ('redis-server', 'redis', 1), ('redis-check-rdb', 'redis', 1), ('valkey-server', 'redis', 1),
        ('mongod', 'mongodb', 1), ('sqlite3', 'sqlite', 2), ('java', 'java', 5), ('node', 'node', 5), ('nodejs', 'node', 5),
        ('nginx', 'nginx', 1), ('sh', 'shell', 6), ('bash', 'shell', 6), ('dash', 'shell', 6), ('zsh', 'shell', 6),
        ('ksh', 'shell', 6), ('busybox', 'shell', 6),
        ('tar', 'tree', 9), ('bsdtar', 'tree', 9), ('cp', 'tree', 9), ('mv', 'tree', 9), ('rm', 'tree', 9), ('rsync', 'tree', 9),
        ('git', 'tree', 9), ('git-remote-http', 'tree', 9), ('hg', 'tree', 9), ('find', 'tree', 9), ('grep', 'tree', 9),
        ('rg', 'tree', 9), ('ls', 'tree', 9), ('du', 'tree', 9), ('chmod', 'tree', 9), ('chown', 'tree', 9),
        ('make', 'tree', 9), ('ninja', 'tree', 9), ('zip', 'tree', 9), ('unzip', 'tree', 9), ('dpkg', 'tree', 9),
        ('dpkg-deb', 'tree', 9), ('updatedb', 'tree', 9), ('restic', 'tree', 9), ('borg', 'tree', 9), ('cpio', 'tree', 9)
    ) AS k(name, kind, place) ON k.name = p.name
    UNION
    SELECT name, 'python', 5 FROM process WHERE name LIKE 'python%' OR name LIKE 'pypy%'
    UNION
    SELECT name, 'mpi', 4 FROM process WHERE rank IS NOT NULL
    UNION
    SELECT a.process_name, 'sqlite', 2
    FROM activity AS a
    SEMI JOIN activity AS b
        ON b.process_name = a.process_name AND (a.path = concat(b.path, '-journal') OR a.path = concat(b.path, '-wal'))
    WHERE a.path LIKE '%-journal' OR a.path LIKE '%-wal'
    UNION
    SELECT process_name, 'rocksdb', 2
    FROM activity
    WHERE path LIKE '%/MANIFEST-0%'
) AS named
WHERE program IS NOT NULL
