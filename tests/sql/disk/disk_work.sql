-- Of sda three requests of 16384 bytes in four pieces. From their ends to the begins of the next ones it is 4096 (4096 to 8192),
-- 0, and 4096 (16384 to 20480). The disk has some from 110 to 300 and from 410 to 500: 280 ns, and none for 110 ns.
SELECT dev, requests, bytes, asked_bytes, round(request_bytes, 1) AS request_bytes, round(seek_bytes, 1) AS seek_bytes,
  round(service_ns, 1) AS service_ns, round(idle_ns, 1) AS idle_ns,
  round(cut_into, 2) AS cut_into, most_in_flight
FROM disk_work
ORDER BY dev
