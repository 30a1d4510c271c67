SELECT node, dev FROM disk_twice ORDER BY node, dev
