// What the page is narrowed to: a span of time buckets, and at most one file, process, thread and call.
//
// It lives in the URL's hash, so that a view can be bookmarked and sent. There, files, processes and
// threads stand by id and calls by name, which mean the same in every report and server of the trail.

import type { IoData } from "./data";

export interface Selection {
  /** Buckets [from, to); null the whole run. */
  span: [number, number] | null;
  file: number | null;
  process: number | null;
  thread: number | null;
  call: number | null;
}

export type Dimension = "file" | "process" | "thread" | "call";

export const WHOLE: Selection = { span: null, file: null, process: null, thread: null, call: null };

export function isWhole(selection: Selection): boolean {
  return Object.values(selection).every((value) => value === null);
}

/** A span as the page keeps it: within the run, at least one bucket, null if it is all of it. */
export function clampSpan(from: number, to: number, buckets: number): [number, number] | null {
  const first = Math.max(0, Math.min(Math.round(from), buckets - 1));
  const last = Math.max(first + 1, Math.min(Math.round(to), buckets));
  return first === 0 && last === buckets ? null : [first, last];
}

export function toHash(selection: Selection, data: IoData): string {
  const parts = new URLSearchParams();
  if (selection.span) {
    parts.set("span", selection.span.join("-"));
  }
  if (selection.file !== null) {
    parts.set("file", data.files.id[selection.file] ?? "none");
  }
  if (selection.process !== null) {
    parts.set("process", data.processes.id[selection.process]);
  }
  if (selection.thread !== null) {
    parts.set("thread", data.threads.id[selection.thread]);
  }
  if (selection.call !== null) {
    parts.set("call", data.calls.name[selection.call]);
  }
  return parts.toString();
}

/** Reads a hash; what doesn't exist in this data is left out. */
export function fromHash(hash: string, data: IoData): Selection {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const indexIn = (values: (string | null)[], name: string): number | null => {
    const wanted = parts.get(name);
    if (wanted === null) {
      return null;
    }
    const index = values.indexOf(wanted === "none" ? null : wanted);
    return index < 0 ? null : index;
  };
  const span = /^(\d+)-(\d+)$/.exec(parts.get("span") ?? "");
  return {
    span: span ? clampSpan(Number(span[1]), Number(span[2]), data.run.buckets) : null,
    file: indexIn(data.files.id, "file"),
    process: indexIn(data.processes.id, "process"),
    thread: indexIn(data.threads.id, "thread"),
    call: indexIn(data.calls.name, "call"),
  };
}
