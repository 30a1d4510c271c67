// Questions about requests to the server. A later question of the same asker gives up the one before.

import { useEffect, useState } from "preact/hooks";

/** Stretches of time before the moment, in seconds; 0 is all. */
export const SPANS = [10, 60, 300, 1800, 0];

export interface Filter {
  client: string | null;
  op: string | null;
  component: string | null;
  /** A machine or member that had a part in them. */
  through: string | null;
  start_ms: number | null;
  end_ms: number | null;
}

export interface Kind {
  component: string;
  op: string;
  client: string | null;
  n: number;
  unfinished: number;
  time_ns: number;
}

export interface Listed {
  ts_ms: number;
  dur: number;
  node: string;
  crumb: string;
  client: string | null;
  component: string;
  op: string;
  status: number | null;
  length: number | null;
}

export interface Overview {
  count: number;
  start_ms: number | null;
  end_ms: number | null;
  kinds: Kind[];
  slowest: Listed[];
}

export interface HeatMap {
  start_ms: number;
  every_ms: number;
  /** Column, least latency in ns, requests. */
  cells: [number, number, number][];
}

export interface Point {
  component: string;
  name: string;
  moment: string | null;
}

export interface Edge {
  source: Point;
  target: Point;
  kind: string;
  across: boolean;
  count: number;
  mean_ns: number | null;
  p50_ns: number | null;
  p99_ns: number | null;
  critical: number;
  critical_ns: number;
  share: number;
}

export interface LatencyGraph {
  requests: number;
  unfinished: number;
  head: string;
  legend: string[];
  dot: string;
  /** A colour of the drawing on a dark page. */
  dark: Record<string, string>;
  edges: Edge[];
}

export interface Line {
  indent: string;
  label: string;
  node: string;
  process: string | null;
  crumb: string;
  kind: string | null;
  at_ns: number | null;
  dur_ns: number | null;
  length: number | null;
  status: number | null;
  /** Since the path's first moment, for how long (null: never ended), ns. */
  bars: [number, number | null][];
}

export interface OnePath {
  head: string;
  node: string;
  crumb: string;
  span_ns: number;
  lines: Line[];
  holes: string[];
  clocks: string[];
  missing: string[];
}

export type Answer<T> =
  | { kind: "none" }
  | { kind: "waiting"; before: T | null }
  | { kind: "found"; found: T }
  | { kind: "refused"; error: string; hint: string | null };

/** What the server answers to `path`; null asks nothing. */
export function useAnswer<T>(path: string | null): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ kind: "none" });
  useEffect(() => {
    if (path === null) {
      setAnswer({ kind: "none" });
      return;
    }
    const abort = new AbortController();
    setAnswer((was) => ({ kind: "waiting", before: was.kind === "found" ? was.found : null }));
    fetch(path, { signal: abort.signal })
      .then(async (reply) => {
        const found = await reply.json();
        setAnswer(
          reply.ok && found.error === undefined
            ? { kind: "found", found }
            : { kind: "refused", error: found.error ?? reply.statusText, hint: found.hint ?? null },
        );
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) {
          setAnswer({ kind: "refused", error: `no answer from the server: ${error}`, hint: null });
        }
      });
    return () => abort.abort();
  }, [path]);
  return answer;
}

/** What is there of an answer, also while the next one is awaited. */
export function known<T>(answer: Answer<T>): T | null {
  return answer.kind === "found" ? answer.found : answer.kind === "waiting" ? answer.before : null;
}

/** A filter as the words of a question. */
export function words(filter: Filter, more: Record<string, string | number> = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...filter, ...more })) {
    if (value !== null) {
      given.set(name, String(value));
    }
  }
  return given.toString();
}
