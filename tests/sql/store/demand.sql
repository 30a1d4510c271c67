-- alice: CPU 800 + 900 / 3; cache 4096 + 4096 + a third of 12288 three times (flush, s2, s3); network 4196 +
-- floor(12388 / 3) twice + 33 of s2's 100; disk 3000 of s2's 9000, 4096 of its bytes, and none of its one request.
-- bob: CPU 1000 + 1900 + 700 + 900 + 600; cache 8192 + 512 + 8192 + 8192 + two thirds of 12288 three times; network
-- 100 + 200 + 150 + 8292 + 8292 + 8259 twice + 67; disk 4800 + 6000.
-- unattributed: CPU of the scrub 250 and without a breadcrumb 500; the write of 512 bytes.
SELECT client, resource, SUM(n) AS n, SUM(time_ns) AS time_ns, SUM(bytes) AS bytes, SUM(hits) AS hits
FROM demand GROUP BY ALL ORDER BY ALL
