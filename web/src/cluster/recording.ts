// Recorded time, in chunks of some frames: those around the moment shown are kept, the next one is asked for early.

import { type AskError, askFrames, type Query, type Question } from "./asker";
import type { Packed } from "./asker.worker";
import type { Samples, Targets } from "./samples";

interface Chunk {
  question: Question<Packed> | null;
  found: Packed | null;
  /** Where its values go in the samples they were applied to last. */
  bound: { samples: Samples; targets: Targets } | null;
  error: AskError | null;
  /** When it was asked for. */
  asked: number;
  /** The trail had grown beyond it by then: it won't change. */
  final: boolean;
  used: number;
}

const KEPT = 24;
/** A chunk that the trail still grows into is asked for again so often. */
const AGAIN_MS = 2_000;
/** Rows become visible this long after they happened: batches travel, the collector seals each 5 s. */
export const SETTLED_MS = 12_000;

/** Frames of a chunk: fewer of many members, so that an answer stays small. */
export function chunkFrames(members: number): number {
  return [30, 15, 8, 4].find((frames) => frames * members <= 12_000) ?? 2;
}

export class Recording {
  private chunks = new Map<number, Chunk>();
  private query: Query = { by: "member", metrics: [], every_ms: 1000 };
  private frames = 30;
  private uses = 0;
  onArrival: () => void = () => {};

  /** What is asked for from now on; whether that is something else than before. */
  look(query: Query, members: number): boolean {
    const frames = chunkFrames(members);
    if (JSON.stringify(query) === JSON.stringify(this.query) && frames === this.frames) {
      return false;
    }
    this.forget();
    this.query = query;
    this.frames = frames;
    return true;
  }

  forget(): void {
    for (const chunk of this.chunks.values()) {
      chunk.question?.stop();
    }
    this.chunks.clear();
  }

  get length(): number {
    return this.frames * this.query.every_ms;
  }

  /** The number of the chunk that has the newest frame at a moment. */
  chunkOf(ms: number): number {
    return Math.ceil(ms / this.length) - 1;
  }

  /** A chunk if it is there; else it is asked for. `end`: where the trail ends now. */
  chunk(number: number, end: number): Chunk {
    let chunk = this.chunks.get(number);
    const again =
      chunk &&
      !chunk.final &&
      !chunk.question &&
      (chunk.error || end > chunk.asked) &&
      Date.now() - chunk.asked > AGAIN_MS;
    if (!chunk || again) {
      chunk = this.ask(number, end, chunk?.found ?? null);
    }
    this.uses += 1;
    chunk.used = this.uses;
    return chunk;
  }

  /** Gives up what is asked for and no longer wanted. */
  only(numbers: number[]): void {
    for (const [number, chunk] of this.chunks) {
      if (chunk.question && !chunk.found && !numbers.includes(number)) {
        chunk.question.stop();
        this.chunks.delete(number);
      }
    }
  }

  private ask(number: number, end: number, before: Packed | null): Chunk {
    const start = number * this.length;
    const question = askFrames(this.query, start, start + this.length);
    const chunk: Chunk = {
      question,
      found: before,
      bound: null,
      error: null,
      asked: Date.now(),
      final: start + this.length < end - SETTLED_MS,
      used: 0,
    };
    this.chunks.set(number, chunk);
    question.answer.then(
      (found) => {
        chunk.found = found;
        chunk.bound = null;
        chunk.question = null;
        this.onArrival();
      },
      (error: AskError) => {
        chunk.error = error;
        chunk.final = false;
        chunk.question = null;
        this.onArrival();
      },
    );
    if (this.chunks.size > KEPT) {
      const oldest = [...this.chunks].reduce((a, b) => (a[1].used <= b[1].used ? a : b));
      oldest[1].question?.stop();
      this.chunks.delete(oldest[0]);
    }
    return chunk;
  }
}
