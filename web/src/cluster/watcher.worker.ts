// Looks for what is unusual, away from the thread that draws: at the live stream all the time, by a connection of its
// own, and in recorded time at the minutes before the moment shown.

import { framesPath } from "./asker";
import { LiveStream } from "./live";
import { Detector, NOTICE_METRICS, type Notice, WARM_MS } from "./notices";
import { chunkFrames, SETTLED_MS } from "./recording";
import type { Recorded } from "./wire";

/** What the page says: first where to look, then each time what it shows. */
export type Told =
  | { base: string; stream: string | null }
  | { moment: number; following: boolean; start: number; end: number };

/** Recorded time is looked at from so long before the moment on. */
const BEFORE_MS = 600_000;
const QUERY = { by: "member" as const, metrics: NOTICE_METRICS, every_ms: 1000 };
const TELL_MS = 500;

let base = "";
let live: Detector | null = null;
/** From when on the live detector knows what is usual. */
let knows = Number.POSITIVE_INFINITY;
let past = new Detector();
/** The stretch of recorded time that was looked at. */
let from = 0;
let upto = 0;
let wanted = 0;
let asking = false;

function watchStream(url: string): void {
  const detector = new Detector();
  live = detector;
  const stream = new LiveStream(url);
  stream.onHello = (hello) => {
    knows = Math.min(knows, hello.now_ms + WARM_MS);
    detector.forgetSeries();
    detector.members(hello.members);
  };
  stream.onFrame = (frame) => {
    detector.members(frame.members ?? []);
    detector.declare(frame.series ?? []);
    detector.frame(frame.ts_ms, frame.values);
  };
  stream.open({ members: null, ...QUERY });
}

async function watchPast(): Promise<void> {
  if (asking) {
    return;
  }
  asking = true;
  try {
    let frames = 10;
    while (upto < wanted) {
      const started = from;
      const end = Math.min(upto + frames * QUERY.every_ms, wanted);
      const answer = await fetch(new URL(framesPath(QUERY, upto, end), base));
      if (!answer.ok) {
        return;
      }
      const found = (await answer.json()) as Recorded;
      if (from !== started) {
        // somebody jumped meanwhile
        continue;
      }
      past.members(
        [...found.members].sort((a, b) => a.since_ms - b.since_ms).filter((m) => m.since_ms <= end),
      );
      past.forgetSeries();
      past.declare(found.series);
      for (const frame of found.frames) {
        past.frame(frame.ts_ms, frame.values);
      }
      upto = end;
      frames = 2 * chunkFrames(new Set(found.members.map((member) => member.member)).size);
    }
  } catch {
    // the server is away: asked again with the next word of the page
  } finally {
    asking = false;
  }
}

function look(moment: number, following: boolean, start: number, end: number): void {
  // whole seconds, as samples are; what the stream showed since is known from there
  const settled = Math.min(moment, live ? Math.min(end - SETTLED_MS, knows) : end);
  const until = Math.floor(settled / 1000) * 1000;
  if (following || until <= start) {
    return;
  }
  if (until < from || until > upto + BEFORE_MS || upto === 0) {
    past = new Detector();
    from = Math.floor(Math.max(start - 1000, until - BEFORE_MS) / 1000) * 1000;
    upto = from;
  }
  wanted = until;
  void watchPast();
}

let told = "";
setInterval(() => {
  const now = `${live?.changes} ${from} ${past.changes}`;
  if (now !== told) {
    told = now;
    const all = new Map<string, Notice>();
    for (const notice of [...past.notices, ...(live?.notices ?? [])]) {
      all.set(notice.id, notice);
    }
    postMessage([...all.values()].sort((a, b) => b.since_ms - a.since_ms));
  }
}, TELL_MS);

self.onmessage = ({ data }: MessageEvent<Told>) => {
  if ("base" in data) {
    base = data.base;
    if (data.stream !== null) {
      watchStream(data.stream);
    }
  } else {
    look(data.moment, data.following, data.start, data.end);
  }
};
