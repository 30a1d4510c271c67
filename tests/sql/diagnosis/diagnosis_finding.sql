-- Both claim the 4 ms of flushing, so they are one card, led by the one that names the cause: 0.9 * 1 against 0.9 * 0.8.
-- Mending saves 0.9 of 4 ms; the card counts all 4 ms.
-- @param pattern_ops=2
SELECT card, leads, finding, family, cost_ns, counted_ns, gain_ns FROM diagnosis_finding ORDER BY card, leads DESC
