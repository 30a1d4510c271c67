import { describe, expect, it } from "vitest";
import { powers } from "../src/chart/axis";
import { bucketOf } from "../src/chart/histogram";
import { sumBlock, sumBytes } from "../src/io/block-sums";
import type { Block } from "../src/io/data";

/** Two devices, four buckets. Device 0: a block read in 0, 1 and 3, one written in 1; device 1: one read in 2. */
function block(): Block {
  return {
    page: 4096,
    devices: {
      name: ["a", "b"],
      node: ["n", "n"],
      file: [0, 1],
      reads: [3, 1],
      writes: [1, 0],
      others: [0, 0],
      unplaced: [0, 0],
      tick: [1, 1],
    },
    folded: 0,
    look: 16,
    sizes: {
      at: [0, 1, 1, 2, 3],
      device: [0, 0, 0, 1, 0],
      kind: [1, 1, 2, 1, 1],
      size: [4096, 4096, 4096, 512, 4096],
      n: [1, 1, 1, 1, 1],
      bytes: [4096, 4096, 4096, 512, 4096],
    },
    sequential: {
      at: [0, 1],
      device: [0, 0],
      kind: [1, 1],
      n: [1, 1],
      bytes: [4096, 4096],
      sequential: [0, 1],
      sequential_bytes: [0, 4096],
    },
    streams: {
      at: [0, 1],
      device: [0, 0],
      kind: [1, 1],
      octave: [1, 1],
      n: [1, 1],
      bytes: [4096, 4096],
      streams: [1, 0],
      requests: [2, 0],
      whole: [8192, 0],
      longest: [2, 0],
    },
    gaps: { at: [1, 3], device: [0, 0], kind: [1, 0], bin: [bucketOf(100), 9999], n: [1, 1] },
    working: {
      followed: 1,
      at: [0, 1, 1, 3, 0, 1, 3, 1, 2, 2],
      device: [0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
      kind: [0, 0, 0, 0, 1, 1, 1, 2, 0, 1],
      before: [-1, 0, -1, 1, -1, 0, 1, -1, -1, -1],
      bytes: [4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096],
    },
    heat: [],
    curves: [],
  };
}

describe("the block view", () => {
  it("sums devices and buckets that are selected", () => {
    const whole = sumBlock(block(), null, 0, 4, 4);
    expect(whole.requests).toEqual({
      all: { n: 5, bytes: 16896 },
      read: { n: 4, bytes: 12800 },
      write: { n: 1, bytes: 4096 },
    });
    expect(whole.sizes.map((row) => row.size)).toEqual([512, 4096]);
    const one = sumBlock(block(), 1, 0, 4, 4);
    expect(one.requests.all).toEqual({ n: 1, bytes: 512 });
    expect(one.streams?.all.streams).toBe(0);
  });

  it("has the bytes of each bucket, of all devices", () => {
    expect(sumBytes(block(), 4)).toEqual({ read: [4096, 4096, 512, 4096], write: [0, 4096, 0, 0] });
  });

  it("counts a stream where it begins and its requests where they are", () => {
    const late = sumBlock(block(), null, 1, 4, 4);
    expect(late.streams?.read).toMatchObject({ n: 1, streams: 0, requests: 0 });
    expect(late.sequential.read).toMatchObject({ n: 1, placed: 1 });
    const early = sumBlock(block(), null, 0, 1, 4);
    expect(early.streams?.read).toMatchObject({ n: 1, streams: 1, requests: 2, whole: 8192, longest: 2 });
  });

  it("counts a block once in any span", () => {
    const used = (from: number, to: number) => {
      const { all, read, write } = sumBlock(block(), null, from, to, 4).working;
      return [all.bytes, read.bytes, write.bytes].map((n) => n / 4096);
    };
    expect(used(0, 4)).toEqual([3, 2, 1]);
    expect(used(1, 4)).toEqual([3, 2, 1]);
    expect(used(2, 4)).toEqual([2, 2, 0]);
    expect(Array.from(sumBlock(block(), null, 1, 4, 4).working.all.grown)).toEqual([0, 8192, 12288, 12288]);
    expect(Array.from(sumBlock(block(), null, 1, 4, 4).working.all.each)).toEqual([0, 8192, 4096, 4096]);
  });

  it("keeps gaps beyond the histogram in its last bin", () => {
    const { all, read } = sumBlock(block(), null, 0, 4, 4).gaps;
    expect(all.at(-1)).toBe(1);
    expect(read[bucketOf(100)]).toBe(1);
  });
});

describe("powers of two of an axis", () => {
  it("are at most as many as fit", () => {
    expect(powers(4096, 32768, 10)).toEqual([4096, 8192, 16384, 32768]);
    expect(powers(4096, 1 << 30, 4).length).toBeLessThanOrEqual(5);
    expect(powers(4096, 4096, 4)).toEqual([4096]);
  });
});
