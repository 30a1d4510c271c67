import { describe, expect, it } from "vitest";
import { percentile } from "../src/chart/histogram";
import { Cube } from "../src/io/cube";
import type { IoData } from "../src/io/data";
import { concerns } from "../src/io/diagnosis";
import { clampSpan, fromHash, type Selection, toHash, WHOLE } from "../src/io/selection";
import { compare } from "../src/table/table";

/** Two processes (one with two threads), two files, a read and a write; four buckets of 10 ns. */
function data(): IoData {
  const rows: [
    bucket: number,
    thread: number,
    file: number,
    call: number,
    ops: number,
    bytes: number,
    bin: number,
  ][] = [
    [0, 0, 0, 0, 1, 100, 10],
    [0, 1, 1, 1, 2, 200, 20],
    [1, 0, 0, 1, 3, 300, 30],
    [3, 2, 1, 0, 4, 400, 40],
  ];
  return {
    version: 1,
    timed: true,
    made: { by: "iotrail", at: "2026-01-01T00:00:00+00:00" },
    trail: { name: "x.trail", path: "x.trail", snapshot: 1 },
    run: { start: "1760000000000000000", duration: 38, origin: -2, bucket: 10, buckets: 4 },
    recording: [],
    unseen: [],
    diagnosis: [],
    calls: { name: ["pread", "pwrite"], kind: ["read", "write"], meaning: ["", ""] },
    files: { id: ["11", null], path: ["/a", "(no file)"] },
    processes: {
      id: ["21", "22"],
      node: ["n", "n"],
      pid: [1, 2],
      name: ["p", "q"],
      role: [null, null],
      rank: [null, null],
      cmd: [null, null],
      start: [0, 0],
      stop: [null, null],
      ended: ["exit", "exit"],
      status: [0, 0],
      user: [null, null],
      system: [null, null],
    },
    threads: {
      id: ["31", "32", "33"],
      tid: [1, 2, 3],
      name: [null, null, null],
      process: [0, 0, 1],
      start: [0, 0, 0],
      stop: [null, null, null],
    },
    cells: {
      first: [0, 2, 3, 3, 4],
      thread: rows.map((r) => r[1]),
      file: rows.map((r) => r[2]),
      call: rows.map((r) => r[3]),
      ops: rows.map((r) => r[4]),
      errors: [0, 1, 0, 0],
      bytes: rows.map((r) => r[5]),
      dur: rows.map((r) => r[4] * r[6]),
      max: rows.map((r) => r[6]),
      bins: [1, 1, 1, 1],
      bin: rows.map((r) => r[6]),
      count: rows.map((r) => r[4]),
    },
    split: {
      first: [0, 2, 3, 3, 4],
      thread: [0, 1, 0, 2],
      cpu: true,
      waited: true,
      queued: [1, 0, 0, 0],
      fault: [0, 1, 0, 0],
      idle: [0, 0, 1, 0],
      unknown: [0, 0, 0, 1],
      compute: [5, 6, 7, 8],
      io: [3, 2, 1, 0],
      sync: [0, 0, 2, 2],
    },
    waits: { thread: [], what: [], call: [], count: [], time: [], max: [] },
    depth: { mean: null, most: null, overlaps: false },
    heat: { files: [], omitted: 0 },
    block: null,
    causality: null,
    folded: { files: 0 },
  };
}

const select = (part: Partial<Selection>): Selection => ({ ...WHOLE, ...part });

describe("sums", () => {
  const cube = new Cube(data());

  it("of the whole run are all cells", () => {
    const sums = cube.sum(WHOLE);
    expect(sums.total.ops[0]).toBe(10);
    expect(sums.total.errors[0]).toBe(1);
    expect(sums.total.read[0]).toBe(500);
    expect(sums.total.written[0]).toBe(500);
    expect(sums.total.max[0]).toBe(40);
    expect([...sums.processes.ops]).toEqual([6, 4]);
    expect([...sums.series.readBytes]).toEqual([100, 0, 0, 400]);
    expect(percentile(sums.latencyAll, 0.5)).toBe(30);
  });

  it("of a span are its buckets; series stay whole to brush on", () => {
    const sums = cube.sum(select({ span: [1, 3] }));
    expect(sums.total.ops[0]).toBe(3);
    expect([...sums.calls.ops]).toEqual([0, 3]);
    expect([...sums.series.readOps]).toEqual([1, 0, 0, 4]);
    expect([...sums.threadTime.compute]).toEqual([7, 0, 0]);
    expect([...sums.bucketTime.io]).toEqual([5, 1, 0, 0]);
  });

  it("of a dimension ignore its own filter and follow the others", () => {
    const sums = cube.sum(select({ file: 1 }));
    expect([...sums.files.ops]).toEqual([4, 6]);
    expect([...sums.threads.ops]).toEqual([0, 2, 4]);
    expect([...sums.calls.ops]).toEqual([4, 2]);
    const both = cube.sum(select({ file: 1, process: 1 }));
    expect(both.total.ops[0]).toBe(4);
    expect([...both.files.ops]).toEqual([0, 4]);
    expect([...both.processes.ops]).toEqual([2, 4]);
  });
});

describe("selection", () => {
  it("survives the hash by ids", () => {
    const selection = select({ span: [1, 3], file: 0, process: 1, thread: 2, call: 1 });
    expect(toHash(selection, data())).toBe("span=1-3&file=11&process=22&thread=33&call=pwrite");
    expect(fromHash(`#${toHash(selection, data())}`, data())).toEqual(selection);
    expect(fromHash("#file=none", data()).file).toBe(1);
  });

  it("drops what isn't there", () => {
    expect(fromHash("#span=x&file=99&call=", data())).toEqual(WHOLE);
    expect(fromHash("#span=0-99", data()).span).toBeNull();
    expect(fromHash("#span=9-99", data()).span).toEqual([3, 4]);
  });

  it("keeps a span inside the run", () => {
    expect(clampSpan(-3, 2, 4)).toEqual([0, 2]);
    expect(clampSpan(2, 2, 4)).toEqual([2, 3]);
    expect(clampSpan(0, 4, 4)).toBeNull();
  });
});

describe("cards of the diagnosis", () => {
  const card = (part: object) => ({
    cause: "f",
    location: null,
    kind: null,
    gain: null,
    share: null,
    details: [],
    severity: "low" as const,
    title: "",
    process: null,
    thread: null,
    file: null,
    ops: null,
    bytes: null,
    cost: null,
    start: null,
    stop: null,
    evidence: "",
    advice: "",
    ...part,
  });

  it("concern a selection they overlap", () => {
    const f = card({ start: 0, stop: 7, file: 0 });
    expect(concerns(f, select({ span: [0, 1] }), data())).toBe(true);
    expect(concerns(f, select({ span: [1, 2] }), data())).toBe(false);
    expect(concerns(f, select({ file: 1 }), data())).toBe(false);
    expect(concerns(f, select({ process: 1 }), data())).toBe(true);
  });
});

describe("table order", () => {
  it("puts large numbers and early text first, null last", () => {
    expect([1, null, 3].sort(compare)).toEqual([3, 1, null]);
    expect(["b10", "b9", "a"].sort(compare)).toEqual(["a", "b9", "b10"]);
  });
});
