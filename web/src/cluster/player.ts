// Time: what moment is shown, whether it moves, and the samples and members of that moment, from the live stream or
// from the trail. Following the stream, it is the stream's newest frame.

import { type AskError, askMembers, askSpan } from "./asker";
import { LiveStream, type StreamState } from "./live";
import { Membership } from "./membership";
import { Recording } from "./recording";
import { HOLD_MS, Samples } from "./samples";
import type { Grain } from "./wire";

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 30, 60];
const SPAN_MS = 2_000;
/** Frames are to be applied anew. */
const NOTHING = { chunk: -1, ts: Number.POSITIVE_INFINITY };

/** Frames are as far apart as can still be told apart at a speed. */
export const everyMs = (speed: number): number => (speed >= 30 ? 5_000 : speed >= 8 ? 2_000 : 1_000);

export interface Options {
  /** Address of the live stream; null there is none. */
  stream: string | null;
  trail: boolean;
}

export class Player {
  samples = new Samples();
  readonly membership = new Membership();
  private recording = new Recording();
  private stream: LiveStream | null = null;
  private query: { by: Grain; metrics: string[] } = { by: "member", metrics: [] };
  /** Moment shown, in ms since the epoch. */
  moment = 0;
  following = false;
  playing = false;
  speed = 1;
  /** Span of the trail; equal if it is empty. */
  start = 0;
  end = 0;
  waiting = false;
  error: AskError | null = null;
  state: StreamState = { kind: "none" };
  /** Chunk and frame up to which samples are. */
  private applied = { ...NOTHING };
  private timer = 0;
  private membersUpTo = 0;
  private closed = false;
  private ready = false;

  /** New samples or members at `moment`. */
  onSamples: () => void = () => {};
  /** Anything else: time, state, span. */
  onChange: () => void = () => {};

  constructor(private options: Options) {
    this.recording.onArrival = () => {
      // also what was shown before: a chunk that was asked for again may say more of the same moment
      this.applied = { ...NOTHING };
      this.advance(0);
    };
  }

  /** Starts at a moment; without one follows the stream, or is at the start of the trail. */
  async open(moment: number | null): Promise<void> {
    if (this.options.stream !== null) {
      const stream = new LiveStream(this.options.stream);
      this.stream = stream;
      stream.onState = (state) => {
        this.state = state;
        this.onChange();
      };
      stream.onHello = (hello) => {
        this.membership.add(hello.members);
        if (this.following) {
          // numbers of series start anew
          this.samples.forgetSeries();
          this.moment = Math.max(this.moment, hello.now_ms);
          this.onSamples();
        }
        this.end = Math.max(this.end, hello.now_ms);
        this.start = this.start || hello.now_ms;
      };
      stream.onFrame = (frame) => {
        this.membership.add(frame.members ?? []);
        this.end = Math.max(this.end, frame.ts_ms);
        if (this.following) {
          this.samples.declare(frame.series ?? []);
          this.samples.apply(frame.ts_ms, frame.values);
          this.moment = Math.max(this.moment, frame.ts_ms);
          this.onSamples();
        }
      };
      this.following = moment === null;
      stream.open(this.see());
    }
    if (this.options.trail) {
      await this.survey();
      if (moment !== null || !this.following) {
        // members are known before their samples
        this.moment = moment ?? this.start;
        this.onSamples();
      }
      this.timer = window.setInterval(() => void this.survey(), SPAN_MS);
    }
    this.ready = true;
    if (moment !== null) {
      this.seek(moment);
    } else if (!this.following) {
      this.seek(this.start);
    }
    this.onChange();
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.stream?.close();
    this.recording.forget();
  }

  /** What series are wanted from now on. */
  look(by: Grain, metrics: string[]): void {
    if (by === this.query.by && metrics.join() === this.query.metrics.join()) {
      return;
    }
    if (by !== this.query.by) {
      this.samples = new Samples();
      this.onSamples();
    }
    this.query = { by, metrics };
    this.again();
  }

  setSpeed(speed: number): void {
    this.speed = speed;
    this.again();
    this.onChange();
  }

  play(playing: boolean): void {
    this.playing = playing;
    if (!playing && this.following) {
      this.following = false;
    } else if (playing && !this.following && this.moment >= this.end && this.stream === null) {
      // at the end: from the start again
      this.seek(this.start);
    }
    this.onChange();
  }

  /** Shows what happens now. */
  follow(): void {
    if (this.stream) {
      this.following = true;
      this.playing = true;
      this.samples.clear();
      // all are declared anew when it says what it looks at
      this.samples.forgetSeries();
      this.stream.look(this.see());
      this.onChange();
    } else {
      this.seek(this.end);
    }
  }

  seek(moment: number): void {
    this.following = false;
    this.moment = Math.max(this.start, Math.min(this.end || moment, moment));
    this.advance(0);
    this.onChange();
  }

  /** So much real time went by, in ms. */
  advance(elapsed: number): void {
    if (this.following || !this.ready || !this.options.trail || this.closed || this.end === 0) {
      return;
    }
    const wanted = this.playing ? this.moment + elapsed * this.speed : this.moment;
    const target = Math.min(wanted, this.end);
    if (!this.show(target)) {
      return;
    }
    const moved = this.moment !== target;
    this.moment = target;
    if (this.playing && elapsed > 0 && wanted >= this.end) {
      if (this.stream && this.state.kind !== "lost") {
        this.follow();
      } else if (!this.stream) {
        this.playing = false;
      }
      this.onChange();
    } else if (moved) {
      this.onChange();
    }
  }

  /** Applies frames up to a moment; false if they aren't here yet. */
  private show(moment: number): boolean {
    const { recording, samples } = this;
    const number = recording.chunkOf(moment);
    // A moment shows what was said up to a while before: of its first frames that is the chunk before.
    const first = recording.chunkOf(moment - samples.hold);
    const behind = moment < this.applied.ts || this.applied.chunk < first;
    const numbers = behind ? range(first, number) : range(Math.max(first, this.applied.chunk), number);
    recording.only([...numbers, number + 1]);
    const chunks = numbers.map((each) => recording.chunk(each, this.end));
    const failed = chunks.find((chunk) => chunk.error && !chunk.found);
    this.error = failed?.error ?? null;
    if (this.playing) {
      recording.chunk(number + 1, this.end);
    }
    const waits = chunks.some((chunk) => !chunk.found && !chunk.error);
    if (waits !== this.waiting) {
      this.waiting = waits;
      this.onChange();
    }
    if (waits) {
      return false;
    }
    let changed = false;
    if (behind) {
      samples.clear();
      this.applied = { chunk: -1, ts: moment - samples.hold };
      changed = true;
    }
    for (const [i, chunk] of chunks.entries()) {
      if (!chunk.found) {
        continue;
      }
      if (chunk.found.members.length > 0 && this.applied.chunk !== numbers[i]) {
        this.membership.add(chunk.found.members);
      }
      const { applied } = this;
      const due = chunk.found.frames.filter((frame) => frame.ts_ms > applied.ts && frame.ts_ms <= moment);
      for (const frame of due) {
        if (chunk.bound?.samples !== samples) {
          chunk.bound = { samples, targets: samples.bind(chunk.found.names) };
        }
        samples.apply(frame.ts_ms, frame.values, chunk.bound.targets);
        applied.ts = frame.ts_ms;
        changed = true;
      }
      this.applied.chunk = numbers[i];
    }
    // values are forgotten though nothing comes
    const now = Math.max(samples.now, moment);
    changed ||= now - samples.now > samples.hold && samples.now > 0;
    samples.now = now;
    if (changed) {
      this.onSamplesAt(moment);
    }
    return true;
  }

  private onSamplesAt(moment: number): void {
    const before = this.moment;
    this.moment = moment;
    this.onSamples();
    this.moment = before;
  }

  /** Lets the recording ask for what is looked at, in chunks that fit the number of members. */
  private tune(): void {
    const many = this.query.by === "member" ? this.membership.size : 100;
    if (this.recording.look({ ...this.query, every_ms: everyMs(this.speed) }, many)) {
      this.applied = { ...NOTHING };
    }
  }

  private again(): void {
    this.tune();
    this.samples.hold = Math.max(HOLD_MS, 3.5 * everyMs(this.speed));
    if (this.following) {
      this.stream?.look(this.see());
    } else {
      this.advance(0);
    }
  }

  private see() {
    const many = this.membership.size > 300;
    return { members: null, metrics: this.query.metrics, by: this.query.by, every_ms: many ? 1_000 : 250 };
  }

  /** Looks how far the trail reaches. */
  private async survey(): Promise<void> {
    try {
      const span = await askSpan().answer;
      if (span.start_ms !== null && span.end_ms !== null) {
        this.start = this.start > 0 ? Math.min(this.start, span.start_ms) : span.start_ms;
        if (span.end_ms > this.membersUpTo) {
          const { members } = await askMembers(this.membersUpTo).answer;
          this.membership.add(members);
          this.membersUpTo = span.end_ms;
          this.tune();
        }
        this.end = Math.max(this.end, span.end_ms);
      }
      this.onChange();
    } catch {
      // it is asked again; what questions of frames say is shown
    }
  }
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}
