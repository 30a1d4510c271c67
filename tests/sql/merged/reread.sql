-- Two of three reads on machine a read the page again; on machine b the file is another one.
SELECT node, path, n, bytes, again_bytes FROM reread ORDER BY node
