-- Only the read at 0 comes again, after 101 s.
SELECT n, bytes, once_bytes, again_bytes FROM reread
