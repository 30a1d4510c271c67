-- Steps of 8192: the first has none before it to compare with, so random; two strided; back to 0: random.
-- Of as many strided as random ones, strided names the pattern.
SELECT path, kind, pattern, n, sequential, strided, random, sequential_share FROM pattern
