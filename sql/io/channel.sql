-- What descriptors stand for and is no file: pipes, sockets, events, by the names that /proc and strace give them
-- (pipe:[4711], socket:[4712], anon_inode:[eventpoll], TCP:[...]). Calls on them are no calls on files.
-- crates/format/src/path.rs (is_file_name) draws the same line.
--
-- @materialize
-- @requires file
-- @column node VARCHAR: machine
-- @column file BIGINT: its id
SELECT node, file
FROM file
WHERE path NOT LIKE '/%' AND (path LIKE '%:[%]' OR path LIKE 'anon_inode:%')
GROUP BY node, file
