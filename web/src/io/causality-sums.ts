// Sums of the view of causality over the time buckets that are selected, and which waits have an arrow.

import type { Causality } from "./data";

/** What a lane is drawn as, from its lower edge up, with what stands in the legend. */
export const SHADES = [
  { key: "read", name: "Reads", color: "kind-read" },
  { key: "write", name: "Writes", color: "kind-write" },
  { key: "flush", name: "Flushes", color: "kind-flush" },
  { key: "meta", name: "Metadata", color: "kind-meta" },
  { key: "map", name: "Mappings", color: "kind-map" },
  { key: "compute", name: "On a CPU", color: "split-compute" },
  { key: "queued", name: "Waiting for a CPU", color: "split-queued" },
  { key: "unexplained", name: "Not known", color: "split-unknown" },
  { key: "other", name: "Other calls", color: "muted" },
  { key: "meeting", name: "Waiting: collective, barrier", color: "wait-meeting" },
  { key: "message", name: "Waiting: message, one-sided access", color: "wait-message" },
  { key: "handover", name: "Waiting: pipe, semaphore, condition, file, thread", color: "wait-handover" },
  { key: "lock", name: "Waiting: lock", color: "wait-lock" },
  { key: "unrecorded", name: "Waiting: not recorded for what", color: "wait-unknown" },
  { key: "timer", name: "Asleep", color: "split-idle" },
  { key: "resume", name: "Going on after the signal", color: "wait-resume" },
] as const;
export type Shade = (typeof SHADES)[number]["key"];

const OF_STATE: Record<string, Shade> = {
  collective: "meeting",
  barrier: "meeting",
  "late sender": "message",
  "late receiver": "message",
  "late post": "message",
  "late complete": "message",
  lock: "lock",
  unexplained: "unrecorded",
  timer: "timer",
};

/** The shade of each kind of work. */
export function shadesOf(what: Causality["what"]): Shade[] {
  return what.work.map((work, i) =>
    work === "wait" ? (OF_STATE[what.state[i] ?? ""] ?? "handover") : (work as Shade),
  );
}

/** Time that a lane spent with something while all waited for it. */
export interface PathPart {
  lane: number;
  what: number;
  ns: number;
}

/** What was waited for in one way. */
export interface WaitedFor {
  /** Null: nothing recorded says who. */
  cause: number | null;
  state: string;
  n: number;
  ns: number;
  /** Lanes that waited. */
  by: number[];
}

export interface CausalSums {
  path: PathPart[];
  path_ns: number;
  /** Of it in waits that nothing recorded explains. */
  path_unexplained_ns: number;
  waited: WaitedFor[];
  waited_ns: number;
  /** Of it for somebody who is known, a lock or a time. */
  explained_ns: number;
}

/** Sums buckets [from, to); waits are those of lanes in `shown`. */
export function sumCausality(
  data: Causality,
  from: number,
  to: number,
  shown: ReadonlySet<number>,
): CausalSums {
  const { cells, what } = data;
  const path = new Map<string, PathPart>();
  const waited = new Map<string, WaitedFor>();
  const sums = { path_ns: 0, path_unexplained_ns: 0, waited_ns: 0, explained_ns: 0 };
  for (let i = cells.first[from]; i < cells.first[to]; i++) {
    const [lane, kind] = [cells.lane[i], cells.what[i]];
    const state = what.work[kind] === "wait" ? (what.state[kind] ?? "unexplained") : null;
    if (cells.path[i] > 0) {
      const key = `${lane} ${kind}`;
      const part = path.get(key) ?? { lane, what: kind, ns: 0 };
      part.ns += cells.path[i];
      path.set(key, part);
      sums.path_ns += cells.path[i];
      sums.path_unexplained_ns += state === "unexplained" ? cells.path[i] : 0;
    }
    if (state !== null && shown.has(lane)) {
      const key = `${what.cause[kind]} ${state}`;
      const row = waited.get(key) ?? { cause: what.cause[kind], state, n: 0, ns: 0, by: [] };
      row.n += cells.n[i];
      row.ns += cells.ns[i];
      if (!row.by.includes(lane)) {
        row.by.push(lane);
      }
      waited.set(key, row);
      sums.waited_ns += cells.ns[i];
      sums.explained_ns += state === "unexplained" ? 0 : cells.ns[i];
    }
  }
  const longest = (a: { ns: number }, b: { ns: number }) => b.ns - a.ns;
  return { path: [...path.values()].sort(longest), waited: [...waited.values()].sort(longest), ...sums };
}

/**
 * The waits of buckets [from, to) that get an arrow, in the order of their signals: the longest `most` between rows that differ.
 * `held` counts those that could have one, `all` those of the trail.
 */
export function chooseArrows(
  waits: Causality["waits"],
  from: number,
  to: number,
  within: (ns: number) => boolean,
  rowOf: ArrayLike<number>,
  most: number,
): { drawn: number[]; held: number; all: number } {
  const length = (i: number) => waits.signal[i] - waits.start[i];
  const held = waits.signal
    .map((_, i) => i)
    .filter((i) => within(waits.signal[i]) && rowOf[waits.lane[i]] !== rowOf[waits.cause[i]]);
  const drawn = [...held].sort((a, b) => length(b) - length(a) || a - b).slice(0, most);
  return {
    drawn: drawn.sort((a, b) => a - b),
    held: held.length,
    all: waits.first[to] - waits.first[from],
  };
}
