-- Two pruned messages and one: 100 + 100 + 200 bytes.
SELECT receiver, SUM(n) AS n, SUM(bytes) AS bytes
FROM message GROUP BY receiver
