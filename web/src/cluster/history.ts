// What the selected owners did in the last two minutes: replayed from the trail when it is looked at, and gone on with
// as samples come.

import { askFrames, type Question } from "./asker";
import type { Packed } from "./asker.worker";
import type { Reading } from "./measures";
import { Samples } from "./samples";
import type { Grain } from "./wire";

export const HISTORY_MS = 120_000;

export interface Course {
  ts: number[];
  values: (number | null)[];
}

/** The courses of some readings of one owner. */
export class History {
  private points: { ts: number; values: number[] }[] = [];
  private question: Question<Packed> | null = null;

  constructor(
    readonly owner: string,
    private readings: Reading[],
  ) {}

  /** Newer than what is there: appended. A jump empties it. */
  add(samples: Samples, moment: number): void {
    const last = this.points.at(-1);
    if (last && (moment < last.ts || moment > last.ts + HISTORY_MS)) {
      this.points = [];
    }
    if (last && moment - last.ts < 900) {
      return;
    }
    const owner = samples.find(this.owner);
    if (owner >= 0) {
      this.points.push({ ts: moment, values: this.readings.map((read) => read(samples, owner)) });
    }
    while (this.points.length > 0 && this.points[0].ts < moment - HISTORY_MS) {
      this.points.shift();
    }
  }

  /** Asks the trail for what was before a moment. */
  async fill(by: Grain, metrics: string[], moment: number): Promise<void> {
    this.question?.stop();
    const query = { by, metrics, every_ms: 1000, members: [this.owner] };
    this.question = askFrames(query, moment - HISTORY_MS, moment);
    const found = await this.question.answer;
    const samples = new Samples();
    const targets = samples.bind(found.names);
    const owner = samples.find(this.owner);
    if (owner < 0) {
      return;
    }
    const before = found.frames.map((frame) => {
      samples.apply(frame.ts_ms, frame.values, targets);
      return { ts: frame.ts_ms, values: this.readings.map((read) => read(samples, owner)) };
    });
    const end = before.at(-1)?.ts ?? 0;
    this.points = [...before, ...this.points.filter((point) => point.ts > end + 500)];
  }

  close(): void {
    this.question?.stop();
  }

  course(reading: number): Course {
    return {
      ts: this.points.map((point) => point.ts / 1000),
      values: this.points.map((point) => {
        const value = point.values[reading];
        return Number.isNaN(value) ? null : value;
      }),
    };
  }
}
