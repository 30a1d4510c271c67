// How files, processes and threads are called on the page.

import type { IoData } from "./data";

export function processName(data: IoData, row: number): string {
  const rank = data.processes.rank[row];
  return `${data.processes.name[row]} · ${rank === null ? `pid ${data.processes.pid[row]}` : `rank ${rank}`}`;
}

export function threadName(data: IoData, row: number): string {
  const name = data.threads.name[row] ?? data.processes.name[data.threads.process[row]];
  return `${name} · tid ${data.threads.tid[row]}`;
}

/** The end of a path in at most `length` characters: what tells files apart stands at the end. */
export function shortPath(path: string, length: number): string {
  return path.length <= length ? path : `…${path.slice(path.length - length + 1)}`;
}
