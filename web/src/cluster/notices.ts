// Notices of what is unusual, wherever it is: each member is compared with its own last minutes, and with what its
// peers of the same role do now against theirs. Of live and of recorded frames alike.
//
// For each member and watched number, five seconds' medians of the last five minutes give a usual value (their
// median) and how much it varies (their MAD, but at least a part of the median: a quiet number must not make small
// changes loud). If peers all do more, it is what they are asked for: the usual value grows by the median of their
// growth. A notice begins when thirty seconds in a row are beyond the limit, each the median of five, and ends when
// ten are back. `make bench NAME=notices` measures false notices and delays; docs/serve.md has the rule.

import { count, time } from "../format/units";
import { cpu, diskBusy, percent, type Reading, responseTime } from "./measures";
import { Samples } from "./samples";
import type { Member, Series } from "./wire";

interface Watch {
  id: string;
  name: string;
  metrics: string[];
  read: Reading;
  /** Less above the usual value than this is nobody's concern. */
  floor: number;
  format: (value: number) => string;
  /** The watched number that it follows from: while that is noticed, this says nothing new. */
  follows?: string;
}

/** Response times of fewer requests a second are those of single requests. */
const FEWEST_OPS = 5;

export const WATCHED: Watch[] = [
  {
    id: "load",
    name: "load",
    metrics: ["load", "cpus"],
    read: (samples, owner) => samples.sum("load", owner) / samples.sum("cpus", owner),
    floor: 0.25,
    format: (value) => count(value),
  },
  {
    id: "cpu",
    name: "CPU",
    metrics: ["daemon_cpu", "cpu", "cpus"],
    read: cpu,
    floor: 0.1,
    format: percent,
  },
  {
    id: "latency",
    name: "response time",
    metrics: ["op", "op_time"],
    read: (samples, owner) =>
      samples.sum("op", owner) >= FEWEST_OPS ? responseTime(samples, owner) : Number.NaN,
    floor: 1e6,
    format: (value) => time(value),
  },
  {
    id: "busy",
    name: "disk busy",
    metrics: ["disk_busy"],
    read: diskBusy,
    floor: 0.25,
    format: percent,
  },
  {
    id: "queue",
    name: "requests waiting",
    metrics: ["op_active"],
    read: (samples, owner) => samples.sum("op_active", owner),
    floor: 8,
    format: (value) => count(value),
    // Little's law
    follows: "latency",
  },
];

/** What detectors look at: to be asked for by member. */
export const NOTICE_METRICS = [...new Set([...WATCHED.flatMap((watch) => watch.metrics), "dropped"])].sort();

/** How many times its usual variation a number may be away; chosen by `make bench NAME=notices`. */
export const LIMIT = 5;
/** The least variation, as a part of the usual value. */
const LEAST_VARIATION = 0.12;
/** From MAD to the standard deviation of a normal distribution. */
const MAD_TO_SIGMA = 1.4826;
/** Seconds in a row that make a notice, and that end it. */
export const BEGINS_S = 30;
const ENDS_S = 10;
/** No request that ends is no matter of degree. */
const STUCK_S = 8;
const BLOCK_S = 5;
const BLOCKS = 60;
/** Before so many there is no usual value. */
const FEWEST_BLOCKS = 24;
/** So long nothing but the state of members is noticed. */
export const WARM_MS = FEWEST_BLOCKS * BLOCK_S * 1000;
/** A peer group of fewer says nothing. */
const FEWEST_PEERS = 5;
/** What lasts longer is usual by then. */
const LONGEST_MS = 600_000;
const STEP_MS = 900;
/** Nothing for so long: a jump in time, or a machine that was away. */
const GAP_MS = 30_000;
const MOST_KEPT = 200;

/** Whether a notice is of what is so at a moment. */
export const holdsAt = (notice: Notice, ms: number): boolean =>
  notice.since_ms <= ms && (notice.until_ms === null || notice.until_ms > ms);

export interface Notice {
  /** Who, what, since when: the same notice keeps it. */
  id: string;
  member: string;
  /** failed, down, or the name of a number. */
  what: string;
  /** When it began, in ms since the epoch. */
  since_ms: number;
  /** null: it still is so. */
  until_ms: number | null;
  /** How far from usual, in words. */
  text: string;
  /** A member that failed, or is down. */
  state: boolean;
  /** How many times its usual variation away, at most so far; Infinity of what should never be. */
  away: number;
}

/** One number of one member. */
class Course {
  private blocks = new Float64Array(BLOCKS);
  private filled = 0;
  private next = 0;
  private block: number[] = [];
  private recent = new Float64Array(BLOCK_S).fill(Number.NaN);
  private seen = 0;
  usual = Number.NaN;
  variation = Number.NaN;
  beyond = 0;
  within = 0;
  /** When the first second of those beyond was. */
  began = 0;
  notice: Notice | null = null;

  /** The median of the last five seconds: one that jumps neither begins nor interrupts a notice. */
  smooth(value: number): number {
    this.recent[this.seen % BLOCK_S] = value;
    this.seen += 1;
    return median(this.recent.slice(0, Math.min(this.seen, BLOCK_S)));
  }

  learn(value: number): void {
    this.block.push(value);
    if (this.block.length < BLOCK_S) {
      return;
    }
    this.blocks[this.next] = median(Float64Array.from(this.block));
    this.block.length = 0;
    this.next = (this.next + 1) % BLOCKS;
    this.filled = Math.min(BLOCKS, this.filled + 1);
    if (this.filled >= FEWEST_BLOCKS) {
      const sorted = this.blocks.slice(0, this.filled);
      this.usual = median(sorted);
      for (let i = 0; i < sorted.length; i++) {
        sorted[i] = Math.abs(sorted[i] - this.usual);
      }
      this.variation = Math.max(MAD_TO_SIGMA * median(sorted), LEAST_VARIATION * Math.abs(this.usual));
    }
  }

  /** What was usual isn't any more. */
  forget(): void {
    this.filled = 0;
    this.next = 0;
    this.block.length = 0;
    this.usual = Number.NaN;
    this.beyond = 0;
    this.within = 0;
  }
}

/** Sorts what it is given. */
function median(values: Float64Array): number {
  values.sort();
  const half = values.length >> 1;
  return values.length % 2 === 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

export class Detector {
  private samples = new Samples();
  /** By owner's number, one a watched number and one for requests that don't end. */
  private courses: Course[][] = [];
  private roles = new Map<string, string>();
  private states = new Map<string, Notice>();
  private last = Number.NEGATIVE_INFINITY;
  private found: Notice[] = [];
  /** Grows with each change of the notices. */
  changes = 0;

  constructor(
    private limit = LIMIT,
    private begins = BEGINS_S,
  ) {}

  /** Newest first. */
  get notices(): Notice[] {
    return [...this.found].sort((a, b) => b.since_ms - a.since_ms);
  }

  /** Rows of members, in order of time: one that failed or is down is always noticed. */
  members(rows: Member[]): void {
    for (const { member, role, state, since_ms, detail } of rows) {
      this.roles.set(member, role);
      const now = this.states.get(member);
      const wrong = state === "failed" || state === "down";
      if (!wrong) {
        if (now && now.since_ms <= since_ms) {
          this.end(now, since_ms);
          this.states.delete(member);
        }
      } else if (!now) {
        const text = detail ?? `is ${state}`;
        this.states.set(member, this.begin(member, state, since_ms, text, true, Number.POSITIVE_INFINITY));
      } else if (now.what !== state || (detail !== null && now.text !== detail)) {
        // from down to failed is one story
        now.what = state;
        now.text = detail ?? `is ${state}`;
        this.changes += 1;
      }
    }
  }

  /** Numbers of series start anew with a stream or an answer. */
  forgetSeries(): void {
    this.samples.forgetSeries();
  }

  declare(series: Series[]): void {
    this.samples.declare(series);
  }

  /** Values of a moment; judged once a second. */
  frame(ts: number, values: ArrayLike<number>): void {
    if (ts - this.last > GAP_MS) {
      for (const course of this.courses.flat()) {
        course.forget();
      }
    }
    this.samples.apply(ts, values);
    if (ts - this.last >= STEP_MS) {
      this.last = ts;
      this.judge(ts);
    }
  }

  private judge(ts: number): void {
    const { samples } = this;
    const { owners } = samples;
    while (this.courses.length < owners.length) {
      this.courses.push(Array.from({ length: WATCHED.length + 2 }, () => new Course()));
    }
    for (const [which, watch] of WATCHED.entries()) {
      const values = owners.map((_, owner) => watch.read(samples, owner));
      const growth = this.growthOfPeers(which, watch, values);
      for (const [owner, value] of values.entries()) {
        if (!Number.isNaN(value)) {
          const more = growth.get(this.roles.get(owners[owner]) ?? "") ?? 1;
          const course = this.courses[owner][which];
          const before = WATCHED.findIndex((one) => one.id === watch.follows);
          if (!course.notice && this.courses[owner][before]?.beyond) {
            course.beyond = 0;
          } else {
            this.compare(owners[owner], course, watch, value, more, ts);
          }
        }
      }
    }
    for (const [owner, name] of owners.entries()) {
      const [stuck, lost] = this.courses[owner].slice(WATCHED.length);
      this.stuck(name, stuck, owner, ts);
      const dropped = samples.sum("dropped", owner);
      this.follow(lost, dropped > 0 ? 1 : 0, name, "dropped", ts, Number.POSITIVE_INFINITY, 1, () => {
        return `${count(dropped)} records a second dropped by its agent`;
      });
    }
  }

  /** By role, how many times their usual value members have now; 1 if they have less. */
  private growthOfPeers(which: number, watch: Watch, values: number[]): Map<string, number> {
    const ratios = new Map<string, number[]>();
    for (const [owner, value] of values.entries()) {
      const { usual } = this.courses[owner][which];
      if (!Number.isNaN(value) && usual > watch.floor / 10) {
        const role = this.roles.get(this.samples.owners[owner]) ?? "";
        const known = ratios.get(role);
        if (known) {
          known.push(value / usual);
        } else {
          ratios.set(role, [value / usual]);
        }
      }
    }
    return new Map(
      [...ratios].map(([role, all]) => [
        role,
        all.length < FEWEST_PEERS ? 1 : Math.max(1, median(Float64Array.from(all))),
      ]),
    );
  }

  private compare(
    member: string,
    course: Course,
    watch: Watch,
    second: number,
    more: number,
    ts: number,
  ): void {
    const value = course.smooth(second);
    const usual = course.usual * more;
    const away = (value - usual) / (course.variation * more);
    const concerns = value - usual >= watch.floor;
    const side = concerns && away > this.limit ? 1 : concerns && away > this.limit / 2 ? 0 : -1;
    this.follow(course, side, member, watch.name, ts, away, this.begins, () => {
      return `${watch.format(value)}, usually ${watch.format(usual)}`;
    });
    // what is unusual must not become usual while it is looked at
    if (!course.notice && side < 1) {
      course.learn(second);
    }
  }

  /** Requests are in a member, and none ends, of one that usually ends some. */
  private stuck(member: string, course: Course, owner: number, ts: number): void {
    const ops = this.samples.sum("op", owner);
    const waits = this.samples.sum("op_active", owner);
    if (Number.isNaN(ops) || Number.isNaN(waits)) {
      return;
    }
    const hangs = waits >= 1 && ops === 0 && course.usual >= FEWEST_OPS;
    this.follow(
      course,
      hangs ? 1 : -1,
      member,
      "stuck",
      ts,
      Number.POSITIVE_INFINITY,
      STUCK_S,
      () => `${count(waits)} requests wait and none ends, usually ${count(course.usual)}/s`,
    );
    if (!hangs) {
      course.learn(ops);
    }
  }

  /** Counts seconds beyond (1), back (-1) and between (0), and begins and ends notices. */
  private follow(
    course: Course,
    side: number,
    member: string,
    what: string,
    ts: number,
    away: number,
    begins: number,
    text: () => string,
  ): void {
    const { notice } = course;
    if (side > 0) {
      course.began = course.beyond === 0 ? ts : course.began;
      course.beyond += 1;
      course.within = 0;
    } else if (!notice) {
      course.beyond = 0;
    } else if (side < 0) {
      course.within += 1;
    }
    if (!notice && course.beyond >= begins) {
      course.notice = this.begin(member, what, course.began, text(), false, away);
      course.within = 0;
    } else if (notice && course.within >= ENDS_S) {
      this.end(notice, ts);
      course.notice = null;
      course.beyond = 0;
    } else if (notice && ts - notice.since_ms > LONGEST_MS) {
      this.end(notice, ts);
      course.notice = null;
      course.forget();
    } else if (notice && away > notice.away) {
      notice.away = away;
      notice.text = text();
      this.changes += 1;
    }
  }

  private begin(
    member: string,
    what: string,
    since_ms: number,
    text: string,
    state: boolean,
    away: number,
  ): Notice {
    const id = `${member} ${what} ${since_ms}`;
    const notice: Notice = { id, member, what, since_ms, until_ms: null, text, state, away };
    this.found.push(notice);
    if (this.found.length > MOST_KEPT) {
      // what is over goes first
      const over = this.found.findIndex((each) => each.until_ms !== null);
      this.found.splice(Math.max(0, over), 1);
    }
    this.changes += 1;
    return notice;
  }

  private end(notice: Notice, ts: number): void {
    notice.until_ms = ts;
    this.changes += 1;
  }
}
