-- /mnt/data/wal lies below both; the longer one holds it.
SELECT * FROM mount_file
