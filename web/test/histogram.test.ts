import { describe, expect, it } from "vitest";
import { bucketOf, HISTOGRAM_SIZE, lowerBound, percentile } from "../src/chart/histogram";

describe("buckets", () => {
  it("are those of crates/format/src/hist.rs", () => {
    // bucket_of(value) in Rust: shift * 32 + (value >> shift), shift = octave - 5
    const known: [number, number][] = [
      [0, 0],
      [31, 31],
      [32, 32],
      [63, 63],
      [64, 64],
      [65, 64],
      [66, 65],
      [1000, 4 * 32 + 62],
      [1_000_000, 14 * 32 + 61],
    ];
    for (const [value, bucket] of known) {
      expect(bucketOf(value)).toBe(bucket);
    }
  });

  it("touch, and hold the values between their bounds", () => {
    for (let index = 0; index < HISTOGRAM_SIZE - 1; index++) {
      expect(bucketOf(lowerBound(index))).toBe(index);
      expect(bucketOf(lowerBound(index + 1) - 1)).toBe(index);
    }
  });

  it("hold the largest exact integer", () => {
    expect(bucketOf(Number.MAX_SAFE_INTEGER)).toBeLessThan(HISTOGRAM_SIZE);
  });
});

describe("percentile", () => {
  const counts = (values: number[]) => {
    const histogram = new Float64Array(HISTOGRAM_SIZE);
    for (const value of values) {
      histogram[bucketOf(value)] += 1;
    }
    return histogram;
  };

  it("is the lower bound of the first bucket that reaches the share", () => {
    // Values below 64 have a bucket each, so the result is the value itself.
    const hundred = counts(Array.from({ length: 50 }, (_, i) => i + 1).flatMap((v) => [v, v]));
    expect(percentile(hundred, 0.5)).toBe(25);
    expect(percentile(hundred, 0.99)).toBe(50);
    expect(percentile(hundred, 0)).toBe(1);
    expect(percentile(hundred, 1)).toBe(50);
  });

  it("takes the 99th of 100 and the 999th of 1,000, not their neighbours", () => {
    const values = (n: number) => counts([...Array.from({ length: n - 1 }, () => 10), 20]);
    expect(percentile(values(100), 0.99)).toBe(10);
    expect(percentile(values(1000), 0.999)).toBe(10);
  });

  it("of nothing is null", () => {
    expect(percentile(new Float64Array(HISTOGRAM_SIZE), 0.5)).toBeNull();
  });
});
