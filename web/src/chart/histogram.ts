// The log-linear histogram of every latency distribution: 32 buckets an octave, as in
// crates/format/src/hist.rs and sql/. Histograms merge by adding counts.

const PER_OCTAVE = 32;

/** Buckets that a latency below 2^53 ns can fall into. */
export const HISTOGRAM_SIZE = 49 * PER_OCTAVE;

/** Smallest value of bucket `index`; the bucket ends before `lowerBound(index + 1)`. */
export function lowerBound(index: number): number {
  if (index < 2 * PER_OCTAVE) {
    return index;
  }
  const shift = Math.floor(index / PER_OCTAVE) - 1;
  return (PER_OCTAVE + (index % PER_OCTAVE)) * 2 ** shift;
}

/** The bucket that holds `value`. */
export function bucketOf(value: number): number {
  const whole = Math.floor(value);
  if (whole < PER_OCTAVE) {
    return Math.max(whole, 0);
  }
  // Exact, unlike Math.log2, which rounds 2^k - 1 up for large k.
  let shift = 0;
  let mantissa = whole;
  while (mantissa >= 2 * PER_OCTAVE) {
    mantissa = Math.floor(mantissa / 2);
    shift += 1;
  }
  return shift * PER_OCTAVE + mantissa;
}

/** Lower bound of the first bucket whose cumulative count reaches the share `p`; null if nothing is counted. */
export function percentile(counts: Float64Array, p: number): number | null {
  let total = 0;
  for (const count of counts) {
    total += count;
  }
  if (total === 0) {
    return null;
  }
  let cumulative = 0;
  for (let index = 0; index < counts.length; index++) {
    cumulative += counts[index];
    // In integers, as module percentiles: 0.99 * 100 must not round to above 99.
    if (counts[index] > 0 && cumulative * 1000 >= total * Math.round(p * 1000)) {
      return lowerBound(index);
    }
  }
  return null;
}
