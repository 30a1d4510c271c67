// What the view says of an owner, from the newest values of its series: ratios and sums of a few of them, which the
// live stream doesn't carry. Rates come by the second, so that a time a second is a share.

import { bytes, count, rate, time } from "../format/units";
import type { Samples } from "./samples";

export type Reading = (samples: Samples, owner: number) => number;

export interface Colouring {
  id: string;
  name: string;
  meaning: string;
  metrics: string[];
  read: Reading;
  format: (value: number) => string;
  /** A share: its scale is 0 to 1, not what was seen. */
  share: boolean;
}

export const percent = (share: number): string =>
  Number.isNaN(share) ? "–" : `${share < 0.0995 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;

const either = (...readings: Reading[]): Reading => {
  return (samples, owner) => {
    for (const read of readings) {
      const value = read(samples, owner);
      if (!Number.isNaN(value)) {
        return value;
      }
    }
    return Number.NaN;
  };
};
const sum =
  (metric: string): Reading =>
  (samples, owner) =>
    samples.sum(metric, owner);
const ratio =
  (part: string, whole: string): Reading =>
  (samples, owner) => {
    const divisor = samples.sum(whole, owner);
    return divisor > 0 ? samples.sum(part, owner) / divisor : Number.NaN;
  };
/** Of a machine: what its CPUs did, without waiting for disks. */
const machineCpu: Reading = (samples, owner) => {
  const cpus = samples.sum("cpus", owner);
  const idle = samples.of("cpu", "iowait", owner);
  const busy = samples.sum("cpu", owner) - (Number.isNaN(idle) ? 0 : idle);
  // the kernel counts ticks of 10 ms, which may come to more than the time between two samples
  return Math.min(1, busy / 1e9 / cpus);
};
const shareOfTime =
  (metric: string): Reading =>
  (samples, owner) =>
    samples.sum(metric, owner) / 1e9;

/** Of a daemon the share of one core, of a machine that of all its cores. */
export const cpu = either(shareOfTime("daemon_cpu"), machineCpu);

export const responseTime: Reading = (samples, owner) => ratio("op_time", "op")(samples, owner);

/** Bytes a second received and sent: of messages, of a machine's interfaces where it has no messages. */
export const received = either(sum("message_in"), sum("network_in"));
export const sent = either(sum("message_out"), sum("network_out"));

export const COLOURINGS: Colouring[] = [
  {
    id: "cpu",
    name: "CPU",
    meaning: "A daemon's use of one core; of a machine's cores the share in use.",
    metrics: ["daemon_cpu", "cpu", "cpus"],
    read: cpu,
    format: percent,
    share: true,
  },
  {
    id: "load",
    name: "Load",
    meaning: "Load average by CPU of a machine; of a daemon the requests in it.",
    metrics: ["load", "cpus", "op_active"],
    read: either(ratio("load", "cpus"), sum("op_active")),
    format: (value) => count(value),
    share: false,
  },
  {
    id: "busy",
    name: "Disk busy",
    meaning: "Share of time in which a disk had something to do.",
    metrics: ["disk_busy"],
    read: shareOfTime("disk_busy"),
    format: percent,
    share: true,
  },
  {
    id: "latency",
    name: "Response time",
    meaning: "Mean time of the requests of a second.",
    metrics: ["op", "op_time"],
    read: responseTime,
    format: (value) => time(value),
    share: false,
  },
  {
    id: "ops",
    name: "Requests",
    meaning: "Requests of clients completed a second.",
    metrics: ["op"],
    read: sum("op"),
    format: (value) => `${count(value)}/s`,
    share: false,
  },
  {
    id: "network",
    name: "Network",
    meaning: "Bytes received and sent a second.",
    metrics: ["message_in", "message_out", "network_in", "network_out"],
    read: (samples, owner) => received(samples, owner) + sent(samples, owner),
    format: rate,
    share: false,
  },
  {
    id: "memory",
    name: "Memory",
    meaning: "Resident memory of a daemon; what a machine's programs use.",
    metrics: ["daemon_memory", "memory_used"],
    read: either(sum("daemon_memory"), sum("memory_used")),
    format: (value) => bytes(value),
    share: false,
  },
  {
    id: "space",
    name: "Space used",
    meaning: "Share of the space that is used.",
    metrics: ["space_used", "space_size"],
    read: ratio("space_used", "space_size"),
    format: percent,
    share: true,
  },
];

export const spaceUsed = ratio("space_used", "space_size");
export const diskBusy = shareOfTime("disk_busy");
export const cacheHits: Reading = (samples, owner) => {
  const hit = samples.sum("cache_hit", owner);
  const all = hit + samples.sum("cache_miss", owner);
  return all > 0 ? hit / all : Number.NaN;
};
export const writeLatency = (size: "small" | "large"): Reading => {
  return (samples, owner) => {
    const writes = samples.of("write", size, owner);
    return writes > 0 ? samples.of("write_time", size, owner) / writes : Number.NaN;
  };
};

/** Operations of an MDS that have a slice of their own; what isn't named is the last. */
export const SLICES: { name: string; ops: string[]; color: string }[] = [
  { name: "open", ops: ["open"], color: "kind-read" },
  { name: "lookup, stat", ops: ["lookup", "getattr", "stat", "lookupino"], color: "kind-meta" },
  { name: "readdir", ops: ["readdir"], color: "split-sync" },
  { name: "create", ops: ["create", "mkdir", "mknod", "symlink"], color: "kind-write" },
  { name: "unlink", ops: ["unlink", "rmdir", "rename"], color: "kind-flush" },
  { name: "other", ops: [], color: "kind-wait" },
];

const SLICE_OF = new Map(SLICES.flatMap((slice, i) => slice.ops.map((op): [string, number] => [op, i])));

/** Operations a second by slice, into `out` from `at`; their sum. */
export function slices(samples: Samples, owner: number, out: Float32Array, at: number): number {
  let all = 0;
  out.fill(0, at, at + SLICES.length);
  for (const column of samples.columns("op")) {
    const value = samples.value(column, owner);
    if (value > 0) {
      out[at + (SLICE_OF.get(column.name ?? "") ?? SLICES.length - 1)] += value;
      all += value;
    }
  }
  if (all > 0) {
    for (let i = 0; i < SLICES.length; i++) {
      out[at + i] /= all;
    }
  }
  return all;
}

/** Sizes of requests at which a bar of the histogram begins. */
export const SIZES = [0, 1024, 8192, 32768, 131072, 524288];
export const SIZE_NAMES = ["< 1 KiB", "1–8 KiB", "8–32 KiB", "32–128 KiB", "128–512 KiB", "≥ 512 KiB"];

/** Requests by size, reads then writes, as parts of the most, into `out` from `at`; the most. */
export function sizes(samples: Samples, owner: number, out: Float32Array, at: number): number {
  const bars = SIZES.length;
  out.fill(0, at, at + 2 * bars);
  for (const column of samples.columns("io_size")) {
    const value = samples.value(column, owner);
    if (value > 0 && column.least !== null) {
      let bar = bars - 1;
      while (bar > 0 && SIZES[bar] > column.least) {
        bar -= 1;
      }
      out[at + bar + (column.name === "write" ? bars : 0)] += value;
    }
  }
  let most = 0;
  for (let i = 0; i < 2 * bars; i++) {
    most = Math.max(most, out[at + i]);
  }
  if (most > 0) {
    for (let i = 0; i < 2 * bars; i++) {
      out[at + i] /= most;
    }
  }
  return most;
}

/** The smallest of 1, 2, 5 times a power of ten that is at least a value: where a scale ends. */
export function nice(value: number): number {
  if (!(value > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((digit) => digit * power >= value * 0.999) ?? 10);
}

/** The same for bytes: a power of two. */
export function niceBytes(value: number): number {
  return value > 1 ? 2 ** Math.ceil(Math.log2(value) - 1e-9) : 1;
}

/** What can be switched on and off, in the order of the legend. */
export const TOGGLES = [
  "traffic",
  "replica",
  "pie",
  "space",
  "busy",
  "sizes",
  "values",
  "cache",
  "journal",
  "names",
] as const;
export type Toggle = (typeof TOGGLES)[number];

const METRICS_OF: Record<Toggle, string[]> = {
  traffic: ["message_in", "message_out", "network_in", "network_out", "op", "op_time"],
  replica: ["replica_in", "replica_out", "replica_op", "replica_time"],
  pie: ["op"],
  space: ["space_used", "space_size"],
  busy: ["disk_busy"],
  sizes: ["io_size"],
  values: ["write", "write_time"],
  cache: ["cache_hit", "cache_miss", "cache_dirty"],
  journal: ["journal_flush", "journal_time", "export"],
  names: [],
};

/** The metrics that colours and switched-on marks need: no others are asked for. */
export function needed(colouring: Colouring, off: ReadonlySet<Toggle>): string[] {
  const names = new Set(colouring.metrics);
  for (const toggle of TOGGLES) {
    if (!off.has(toggle)) {
      for (const metric of METRICS_OF[toggle]) {
        names.add(metric);
      }
    }
  }
  return [...names].sort();
}

/** Those with the largest finite values, the largest first: by one pass, for there may be ten thousand. */
export function highest<T>(all: readonly T[], most: number, read: (one: T) => number): [T, number][] {
  const found: [T, number][] = [];
  for (const one of all) {
    const value = read(one);
    if (!Number.isFinite(value) || (found.length === most && value <= found[most - 1][1])) {
      continue;
    }
    const at = found.findIndex(([, other]) => other < value);
    found.splice(at < 0 ? found.length : at, 0, [one, value]);
    found.length = Math.min(found.length, most);
  }
  return found;
}
