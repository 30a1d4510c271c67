// Asks the server and takes its answer apart, away from the thread that draws: a minute of a thousand members is
// ten megabytes of JSON.

import { type Names, pack } from "./packing";
import type { Member } from "./wire";

export interface Packed {
  members: Member[];
  names: Names;
  /** Pairs of a series' number and its value. */
  frames: { ts_ms: number; values: Float64Array }[];
}

type Asked = { id: number; url: string } | { id: number; stop: true };

const running = new Map<number, AbortController>();

async function ask(id: number, url: string): Promise<void> {
  const abort = new AbortController();
  running.set(id, abort);
  try {
    const answer = await fetch(url, { signal: abort.signal });
    const found = await answer.json();
    if (!answer.ok) {
      postMessage({ id, error: found.error ?? answer.statusText, hint: found.hint ?? null });
      return;
    }
    const transfer: Transferable[] = [];
    if (found.frames) {
      found.names = pack(found.series);
      delete found.series;
      transfer.push(found.names.column.buffer, found.names.owner.buffer);
      for (const frame of found.frames) {
        frame.values = Float64Array.from(frame.values);
        transfer.push(frame.values.buffer);
      }
    }
    postMessage({ id, found }, { transfer });
  } catch (error) {
    postMessage({ id, error: error instanceof Error ? error.message : String(error), hint: null });
  } finally {
    running.delete(id);
  }
}

self.onmessage = (event: MessageEvent<Asked>) => {
  const asked = event.data;
  if ("stop" in asked) {
    running.get(asked.id)?.abort();
  } else {
    void ask(asked.id, asked.url);
  }
};
