import { expect, test } from "vitest";
import { chooseArrows, shadesOf, sumCausality } from "../src/io/causality-sums";
import type { Causality } from "../src/io/data";

/** Two lanes and one that others share; buckets of 10 ns. Lane 1 waits for lane 0, and for what nobody recorded. */
function data(): Causality {
  return {
    lanes: { thread: [4, 7], rank: [0, 1], folded: [false, true] },
    others: 3,
    calls: ["pwrite", "MPI_Barrier"],
    what: {
      work: ["write", "wait", "wait", "resume"],
      state: [null, "collective", "unexplained", null],
      call: [0, 1, null, 1],
      file: [2, null, null, null],
      cause: [null, 0, null, null],
      merged: [false, false, false, false],
    },
    cells: {
      first: [0, 2, 4, 6],
      lane: [0, 1, 0, 1, 1, 2],
      what: [0, 1, 0, 1, 3, 2],
      n: [1, 1, 0, 0, 0, 1],
      ns: [10, 10, 5, 5, 4, 10],
      path: [10, 0, 5, 0, 4, 6],
    },
    waits: {
      first: [0, 0, 5, 6],
      lane: [1, 2, 1],
      cause: [0, 1, 0],
      call: [1, null, 1],
      state: ["collective", "condition", "collective"],
      start: [0, 11, 20],
      signal: [15, 16, 25],
      stop: [17, 19, 26],
    },
    path: { lane: [0, 1], start: [0, 15], dur: [15, 9], kind: [null, "collective"] },
  };
}

test("the whole run sums what is on the path and who was waited for", () => {
  const sums = sumCausality(data(), 0, 3, new Set([0, 1]));
  expect(sums.path).toEqual([
    { lane: 0, what: 0, ns: 15 },
    { lane: 2, what: 2, ns: 6 },
    { lane: 1, what: 3, ns: 4 },
  ]);
  expect([sums.path_ns, sums.path_unexplained_ns]).toEqual([25, 6]);
  expect(sums.waited).toEqual([{ cause: 0, state: "collective", n: 1, ns: 15, by: [1] }]);
  expect([sums.waited_ns, sums.explained_ns]).toEqual([15, 15]);
});

test("a span sums its buckets, and waits of lanes that are shown", () => {
  const sums = sumCausality(data(), 1, 3, new Set([1, 2]));
  expect(sums.path_ns).toBe(15);
  expect(sums.waited).toEqual([
    { cause: null, state: "unexplained", n: 1, ns: 10, by: [2] },
    { cause: 0, state: "collective", n: 0, ns: 5, by: [1] },
  ]);
  expect([sums.waited_ns, sums.explained_ns]).toEqual([15, 5]);
});

test("the longest waits between rows have arrows, in the order of their signals", () => {
  const { waits } = data();
  const all = () => true;
  expect(chooseArrows(waits, 0, 3, all, [0, 1, 2], 9)).toEqual({ drawn: [0, 1, 2], held: 3, all: 6 });
  expect(chooseArrows(waits, 0, 3, all, [0, 1, 2], 2)).toEqual({ drawn: [0, 1], held: 3, all: 6 });
  // lanes 1 and 2 are one row
  expect(chooseArrows(waits, 0, 3, all, [0, 1, 1], 9)).toEqual({ drawn: [0, 2], held: 2, all: 6 });
  expect(chooseArrows(waits, 1, 2, (ns) => ns < 20, [0, 1, 2], 9)).toEqual({
    drawn: [0, 1],
    held: 2,
    all: 5,
  });
});

test("each kind of work has its shade", () => {
  expect(shadesOf(data().what)).toEqual(["write", "meeting", "unrecorded", "resume"]);
});
