-- Threads with the files they used, numbered: one row a thread and file.
-- Modules that sort or group millions of calls do so by these small numbers and join names afterwards:
-- sorting by node, thread and file takes twice as long. Thread ids are 63-bit hashes, so a thread and a
-- file name one row in trails of several machines too; the same file id on two machines is two numbers.
--
-- @materialize
-- @requires activity, thread_life
-- @column thread_file BIGINT: number of the thread and file, from 1
-- @column file_number BIGINT: number of the machine and file, from 1
-- @column node VARCHAR: machine
-- @column process BIGINT: process of the thread; null unknown
-- @column process_name VARCHAR: name of its executable; 'unknown process' without one
-- @column thread BIGINT: thread
-- @column until_ts BIGINT ns: end of the thread's life; null unknown
-- @column file BIGINT: file; null is for calls on files the recorder could not name
-- @column path VARCHAR: path of the file; '(unknown file)' without one
WITH used AS (
    SELECT
        thread,
        file,
        MAX(node) AS node,
        MAX(process) AS process,
        MAX(process_name) AS process_name,
        MAX(path) AS path
    FROM activity
    GROUP BY thread, file
)

SELECT
    CAST(ROW_NUMBER() OVER (ORDER BY u.thread NULLS LAST, u.file NULLS LAST) AS BIGINT) AS thread_file,
    CAST(DENSE_RANK() OVER (ORDER BY u.node NULLS LAST, u.file NULLS LAST) AS BIGINT) AS file_number,
    u.node,
    u.process,
    u.process_name,
    u.thread,
    t.end_ts AS until_ts,
    u.file,
    u.path
FROM used AS u
LEFT JOIN thread_life AS t ON t.node = u.node AND t.thread = u.thread
