-- A gap is from where the same client's last access of the same file ended: alice's write at 400 follows her read of
-- 0 to 100. Asking for attributes is no access.
SELECT ts, client, kind, file, pos, length, gap_bytes FROM request_access ORDER BY ts
