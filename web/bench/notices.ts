// How often the detector of notices is wrong, and how soon it is right: quiet members, made and recorded, and faults.
//
// Made members are worse than quiet ones: each number is a lognormal around a level of its own, its logarithm is
// autocorrelated over seconds, requests of all members swell and sink together, and each member has bursts of some
// seconds of a heavy tail (Pareto, shape 1.5: compaction, scrubbing, garbage collection). The seed is fixed.

import { Detector, NOTICE_METRICS } from "../src/cluster/notices";
import type { Member, Recorded, Series } from "../src/cluster/wire";

/** mulberry32: enough for noise. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Fault = "slow disk" | "stuck OSD" | "load doubled" | null;
const FAULTS: Exclude<Fault, null>[] = ["slow disk", "stuck OSD", "load doubled"];

const METRICS: Record<string, string[]> = {
  host: ["load", "cpus", "cpu", "disk_busy"],
  osd: ["op", "op_time", "op_active", "daemon_cpu", "disk_busy"],
  client: ["op", "op_time", "op_active", "daemon_cpu"],
};

class Machine {
  private noise = 0;
  private slower = 0;
  private burst = 1;
  private left = 0;
  private load = 0.5;
  readonly demand: number;
  readonly latency: number;

  constructor(
    readonly name: string,
    readonly role: string,
    private luck: () => number,
  ) {
    this.demand = 0.08 + 0.3 * luck();
    this.latency = 1e6 * Math.exp(2 * luck());
  }

  private normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.luck())) * Math.cos(2 * Math.PI * this.luck());
  }

  /** The values of a second, in the order of METRICS. `tide` is what all are asked for. */
  second(tide: number, fault: Fault): number[] {
    this.noise = 0.8 * this.noise + 0.6 * 0.15 * this.normal();
    this.slower = 0.98 * this.slower + 0.2 * 0.12 * this.normal();
    if (this.left > 0) {
      this.left -= 1;
    } else {
      this.burst = 1;
      if (this.luck() < 1 / 240) {
        this.burst = Math.min(12, (1 - this.luck()) ** (-1 / 1.5));
        this.left = Math.floor(-3 * Math.log(1 - this.luck()));
      }
    }
    const asked = tide * (fault === "load doubled" ? 2 : 1);
    const w = Math.min(1, this.demand * asked * Math.exp(this.noise + this.slower) * Math.sqrt(this.burst));
    this.load += (w * 1.2 - this.load) / 60;
    const ops = fault === "stuck OSD" ? 0 : Math.max(0, Math.round(600 * w * (1 + 0.1 * this.normal())));
    const slow = fault === "slow disk" ? 3 : 1;
    const rt = (slow * this.latency * this.burst * Math.exp(0.25 * this.normal() + this.slower)) / (1.05 - w);
    const busy = Math.min(1, w * 0.9 * slow) * 1e9;
    const active = fault === "stuck OSD" ? 40 : Math.round((ops * rt) / 1e9);
    switch (this.role) {
      case "host":
        return [this.load * 16, 16, 16e9 * w, busy];
      case "osd":
        return [ops, ops * rt, active, w * 0.9e9, busy];
      default:
        return [ops, ops * rt, active, w * 0.5e9];
    }
  }
}

/** 40 members and a detector that looks at them. */
class Cluster {
  readonly machines: Machine[] = [];
  readonly detector: Detector;
  private tide = 0;
  private luck: () => number;
  ts = 0;

  constructor(seed: number, limit: number, begins: number) {
    this.luck = random(seed);
    this.detector = new Detector(limit, begins);
    const members: Member[] = [];
    for (const [role, many] of [
      ["host", 8],
      ["osd", 24],
      ["client", 8],
    ] as const) {
      for (let i = 0; i < many; i++) {
        const name = `${role}.${i}`;
        this.machines.push(new Machine(name, role, this.luck));
        members.push({ member: name, role, node: name, place: null, state: "up", since_ms: 0, detail: null });
      }
    }
    this.detector.members(members);
    let n = 0;
    this.detector.declare(
      this.machines.flatMap(({ name, role }) =>
        METRICS[role].map((metric): Series => [n++, name, metric, null, null]),
      ),
    );
  }

  second(faulty = -1, fault: Fault = null): void {
    this.ts += 1000;
    // over an hour, and over minutes
    const t = this.ts / 1000;
    this.tide = 0.995 * this.tide + 0.01 * (this.luck() - 0.5);
    const tide = Math.exp(0.35 * Math.sin((2 * Math.PI * t) / 3600) + this.tide);
    const values: number[] = [];
    let n = 0;
    for (const [i, machine] of this.machines.entries()) {
      for (const value of machine.second(tide, i === faulty ? fault : null)) {
        values.push(n++, value);
      }
    }
    this.detector.frame(this.ts, values);
  }
}

/** False notices of so many node-hours, by what. */
export function quiet(
  limit: number,
  begins: number,
  nodeHours: number,
  seed: number,
): { hours: number; found: Record<string, number> } {
  const found: Record<string, number> = {};
  const seen = new Set<string>();
  let hours = 0;
  for (let cluster = new Cluster(seed, limit, begins), known = -1; hours < nodeHours; ) {
    for (let i = 0; i < 3600; i++) {
      cluster.second();
      if (cluster.detector.changes !== known) {
        known = cluster.detector.changes;
        for (const notice of cluster.detector.notices) {
          if (!seen.has(notice.id)) {
            seen.add(notice.id);
            found[notice.what] = (found[notice.what] ?? 0) + 1;
          }
        }
      }
    }
    hours += cluster.machines.length;
  }
  return { hours, found };
}

/** Faults of a minute, after ten quiet ones: how many are noticed while they last, and after how many seconds. */
export function faults(limit: number, begins: number, each: number, seed: number) {
  return FAULTS.map((fault) => {
    const delays: number[] = [];
    for (let i = 0; i < each; i++) {
      const cluster = new Cluster(seed + i, limit, begins);
      // one of the OSDs, or of the hosts for the load of a machine
      const faulty = fault === "load doubled" ? i % 8 : 8 + (i % 24);
      for (let s = 0; s < 600; s++) {
        cluster.second();
      }
      const start = cluster.ts;
      const { name } = cluster.machines[faulty];
      for (let s = 0; s < 60; s++) {
        cluster.second(faulty, fault);
        if (cluster.detector.notices.some((one) => one.member === name && one.since_ms > start)) {
          delays.push(s + 1);
          break;
        }
      }
    }
    delays.sort((a, b) => a - b);
    return {
      fault,
      found: delays.length,
      of: each,
      median: delays[delays.length >> 1] ?? null,
      most: delays.at(-1) ?? null,
    };
  });
}

/** Notices of recorded frames, as `api/frames` gives them, by member and by what. */
export function recorded(
  limit: number,
  begins: number,
  frames: Recorded,
): { seconds: number; found: string[] } {
  const detector = new Detector(limit, begins);
  detector.members(frames.members);
  detector.declare(frames.series);
  for (const { ts_ms, values } of frames.frames) {
    detector.frame(ts_ms, values);
  }
  const [first, last] = [frames.frames[0], frames.frames.at(-1)];
  return {
    seconds: first && last ? (last.ts_ms - first.ts_ms) / 1000 : 0,
    found: detector.notices.map((notice) => `${notice.member} ${notice.what}: ${notice.text}`),
  };
}

export { NOTICE_METRICS };
