-- Five reads of a page each, the last of one that was read four uses before: the smallest cache holds 16 pages
-- and serves it, a fifth of the bytes.
SELECT size, bytes, hit_bytes, hit_share FROM cache
