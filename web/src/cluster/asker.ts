// Questions to the server, through the worker that takes answers apart.

import type { Packed } from "./asker.worker";
import type { Grain, Info, Member, Span } from "./wire";

export class AskError extends Error {
  constructor(
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

interface Answer {
  id: number;
  found?: never;
  error?: string;
  hint?: string | null;
}

interface Waiting {
  resolve: (found: never) => void;
  reject: (error: AskError) => void;
}

const waiting = new Map<number, Waiting>();
let number = 0;
let running: Worker | null = null;

function worker(): Worker {
  if (!running) {
    running = new Worker(new URL("./asker.worker.ts", import.meta.url), { type: "module" });
    running.onmessage = (event: MessageEvent<Answer>) => {
      const { id, found, error, hint } = event.data;
      const asker = waiting.get(id);
      waiting.delete(id);
      if (error !== undefined) {
        asker?.reject(new AskError(error, hint ?? null));
      } else {
        asker?.resolve(found as never);
      }
    };
  }
  return running;
}

/** An answer that may be given up: then it never comes. */
export interface Question<T> {
  answer: Promise<T>;
  stop: () => void;
}

function ask<T>(path: string): Question<T> {
  number += 1;
  const id = number;
  const answer = new Promise<T>((resolve, reject) => {
    waiting.set(id, { resolve: resolve as (found: never) => void, reject });
  });
  worker().postMessage({ id, url: new URL(path, location.href).href });
  return {
    answer,
    stop: () => {
      if (waiting.delete(id)) {
        worker().postMessage({ id, stop: true });
      }
    },
  };
}

export interface Query {
  by: Grain;
  metrics: string[];
  every_ms: number;
  members?: string[];
}

export const askInfo = (): Question<Info> => ask("api/info");
export const askSpan = (): Question<Span> => ask("api/span");
export const askMembers = (since: number): Question<{ members: Member[] }> =>
  ask(`api/members?at_ms=${Math.max(0, Math.floor(since))}`);

/** Where the frames after `start` up to `end` are. */
export function framesPath(query: Query, start: number, end: number): string {
  const words = new URLSearchParams({
    start_ms: String(Math.max(0, Math.floor(start))),
    end_ms: String(Math.max(0, Math.floor(end))),
    every_ms: String(query.every_ms),
    by: query.by,
    metrics: query.metrics.join(","),
  });
  if (query.members) {
    words.set("members", query.members.join(","));
  }
  return `api/frames?${words}`;
}

export const askFrames = (query: Query, start: number, end: number): Question<Packed> =>
  ask(framesPath(query, start, end));
