// Sums the rows of the block view over the devices and the time buckets that are selected.

import { HISTOGRAM_SIZE } from "../chart/histogram";
import type { Block } from "./data";

/** Rows of `kind`: reads and writes together, reads, writes. */
export const KINDS = ["all", "read", "write"] as const;
export type BlockKind = (typeof KINDS)[number];
export type ByKind<T> = Record<BlockKind, T>;

export interface Requests {
  n: number;
  bytes: number;
}

export interface Streams {
  /** Requests in the span that are in streams, and their bytes. */
  n: number;
  bytes: number;
  /** Streams that begin in the span, with their requests and bytes wherever they are; the most requests of one. */
  streams: number;
  requests: number;
  whole: number;
  longest: number;
  /** Streams that begin in the span, by the power of two of their requests. */
  byOctave: number[];
}

export interface WorkingSet {
  /** Different bytes used in the span. */
  bytes: number;
  /** The same up to and with each bucket, from the start of the span. */
  grown: Float64Array;
  /** Different bytes used in each bucket. */
  each: Float64Array;
}

export interface BlockSums {
  requests: ByKind<Requests>;
  /** Reads and writes by size, the smallest first. */
  sizes: { size: number; read: Requests; write: Requests }[];
  /** Requests that go on where another ended, and those whose place is known. */
  sequential: ByKind<{ n: number; placed: number; bytes: number; placedBytes: number }>;
  streams: ByKind<Streams> | null;
  gaps: ByKind<Float64Array>;
  working: ByKind<WorkingSet>;
}

/** Bytes read and written in each bucket, of all devices. */
export function sumBytes(block: Block, buckets: number): { read: number[]; write: number[] } {
  const sums = { read: new Array<number>(buckets).fill(0), write: new Array<number>(buckets).fill(0) };
  const { at, kind, bytes } = block.sizes;
  for (let i = 0; i < at.length; i++) {
    sums[kind[i] === 2 ? "write" : "read"][at[i]] += bytes[i];
  }
  return sums;
}

const byKind = <T>(make: () => T): ByKind<T> => ({ all: make(), read: make(), write: make() });

/** Sums buckets [from, to) of a device, or of all (null). */
export function sumBlock(
  block: Block,
  device: number | null,
  from: number,
  to: number,
  buckets: number,
): BlockSums {
  const chosen = (rows: { at: number[]; device: number[] }, i: number): boolean =>
    rows.at[i] >= from && rows.at[i] < to && (device === null || rows.device[i] === device);
  const sums: BlockSums = {
    requests: byKind(() => ({ n: 0, bytes: 0 })),
    sizes: [],
    sequential: byKind(() => ({ n: 0, placed: 0, bytes: 0, placedBytes: 0 })),
    streams: block.streams && sumStreams(block.streams, chosen),
    gaps: byKind(() => new Float64Array(HISTOGRAM_SIZE)),
    working: sumWorking(block, chosen, from, to, buckets),
  };
  const sizes = new Map<number, { size: number; read: Requests; write: Requests }>();
  const { sizes: rows, sequential, gaps } = block;
  for (let i = 0; i < rows.at.length; i++) {
    if (chosen(rows, i)) {
      const size = rows.size[i];
      const row = sizes.get(size) ?? { size, read: { n: 0, bytes: 0 }, write: { n: 0, bytes: 0 } };
      sizes.set(size, row);
      const kind = rows.kind[i] === 2 ? "write" : "read";
      for (const sum of [row[kind], sums.requests[kind], sums.requests.all]) {
        sum.n += rows.n[i];
        sum.bytes += rows.bytes[i];
      }
    }
  }
  sums.sizes = [...sizes.values()].sort((a, b) => a.size - b.size);
  for (let i = 0; i < sequential.at.length; i++) {
    if (chosen(sequential, i)) {
      for (const kind of [KINDS[sequential.kind[i]], "all"] as const) {
        const sum = sums.sequential[kind];
        sum.n += sequential.sequential[i];
        sum.placed += sequential.n[i];
        sum.bytes += sequential.sequential_bytes[i];
        sum.placedBytes += sequential.bytes[i];
      }
    }
  }
  for (let i = 0; i < gaps.at.length; i++) {
    if (chosen(gaps, i)) {
      // the last bin takes what is longer than 104 days
      sums.gaps[KINDS[gaps.kind[i]]][Math.min(gaps.bin[i], HISTOGRAM_SIZE - 1)] += gaps.n[i];
    }
  }
  return sums;
}

type Chosen = (rows: { at: number[]; device: number[] }, i: number) => boolean;

function sumStreams(rows: NonNullable<Block["streams"]>, chosen: Chosen): ByKind<Streams> {
  const sums = byKind<Streams>(() => ({
    n: 0,
    bytes: 0,
    streams: 0,
    requests: 0,
    whole: 0,
    longest: 0,
    byOctave: [],
  }));
  for (let i = 0; i < rows.at.length; i++) {
    if (chosen(rows, i)) {
      for (const kind of [KINDS[rows.kind[i]], "all"] as const) {
        const sum = sums[kind];
        sum.n += rows.n[i];
        sum.bytes += rows.bytes[i];
        sum.streams += rows.streams[i];
        sum.requests += rows.requests[i];
        sum.whole += rows.whole[i];
        sum.longest = Math.max(sum.longest, rows.longest[i]);
        sum.byOctave[rows.octave[i]] = (sum.byOctave[rows.octave[i]] ?? 0) + rows.streams[i];
      }
    }
  }
  return sums;
}

function sumWorking(
  { working }: Block,
  chosen: Chosen,
  from: number,
  to: number,
  buckets: number,
): ByKind<WorkingSet> {
  const sums = byKind<WorkingSet>(() => ({
    bytes: 0,
    grown: new Float64Array(buckets),
    each: new Float64Array(buckets),
  }));
  for (let i = 0; i < working.at.length; i++) {
    if (chosen(working, i)) {
      const sum = sums[KINDS[working.kind[i]]];
      sum.each[working.at[i]] += working.bytes[i];
      if (working.before[i] < from) {
        // not used before in the span
        sum.bytes += working.bytes[i];
        sum.grown[working.at[i]] += working.bytes[i];
      }
    }
  }
  for (const kind of KINDS) {
    const { grown } = sums[kind];
    for (let bucket = from + 1; bucket < to; bucket++) {
      grown[bucket] += grown[bucket - 1];
    }
  }
  return sums;
}
