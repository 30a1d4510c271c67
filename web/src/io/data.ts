// What the I/O view draws, and where it comes from.
//
// `iotrail report --json` writes exactly this shape, the report carries it inside, and a server will
// send it: a view only knows `IoSource`. Tables are columns (arrays of equal length). Rows refer to
// files, processes, threads and calls by their index in those tables, because 63-bit ids don't fit a
// JavaScript number. Times are nanoseconds after the start of the run, sizes bytes.

/** One place that delivers the data of a trail. */
export interface IoSource {
  load(): Promise<IoData>;
}

export interface IoData {
  /** Version of this shape; a page refuses another one. */
  version: 1;
  /** Who wrote it, and when (ISO 8601). */
  made: { by: string; at: string };
  trail: { name: string; path: string; snapshot: number };
  run: Run;
  /** Whether the duration of any operation is known: of an imported trace without response times it isn't. */
  timed: boolean;
  recording: { node: string; name: string; value: string | null }[];
  unseen: {
    kind: string;
    process: number | null;
    file: number | null;
    amount: number;
    detail: string | null;
  }[];
  /** What holds the run up, the first card first. */
  diagnosis: Card[];
  calls: { name: string[]; kind: CallKind[]; meaning: string[] };
  files: { id: (string | null)[]; path: string[] };
  processes: Processes;
  threads: Threads;
  cells: Cells;
  split: Split;
  waits: Waits;
  /**
   * Operations under way at once, by bucket: the mean, null in trails without times; the most, null too where sorting all
   * of them takes too long. `overlaps`: those of one thread are.
   */
  depth: { mean: number[] | null; most: number[] | null; overlaps: boolean };
  /** Files that are no devices of a block trace: those have their map in `block`. */
  heat: { files: HeatFile[]; omitted: number };
  /** Requests to devices; null where the trail holds no block trace. */
  block: Block | null;
  /** Who waited for whom; null where the trail doesn't say (it was recorded without `--causal`). */
  causality: Causality | null;
  /** What was folded to keep the page small: the last row of `files` then stands for `files` others. */
  folded: { files: number };
}

export interface Run {
  /** ns since the epoch, as text: it doesn't fit a JavaScript number. */
  start: string;
  duration: number;
  /** Where the first time bucket begins: 0 or less, since buckets begin at whole multiples of their width. */
  origin: number;
  /** Width of a time bucket. */
  bucket: number;
  buckets: number;
}

export type CallKind = "read" | "write" | "flush" | "meta" | "map" | "wait";
export type Severity = "high" | "medium" | "low";

/** One cause: a row of module `diagnosis`, with the findings behind it. */
export interface Card {
  cause: string;
  severity: Severity;
  title: string;
  /** Where, in words; null all of the recording. */
  location: string | null;
  /** What the program is, if the advice is for it. */
  kind: string | null;
  process: number | null;
  thread: number | null;
  file: number | null;
  ops: number | null;
  bytes: number | null;
  cost: number | null;
  /** Time of the run that mending it saves, and its share of the run; null unknown. */
  gain: number | null;
  share: number | null;
  start: number | null;
  stop: number | null;
  evidence: string;
  advice: string;
  details: Detail[];
}

/** A finding behind a card; the leading one first. */
export interface Detail {
  finding: string;
  severity: Severity;
  title: string;
  cost: number | null;
  evidence: string;
}

export interface Processes {
  id: string[];
  node: string[];
  pid: number[];
  name: string[];
  role: (string | null)[];
  rank: (number | null)[];
  cmd: (string | null)[];
  start: number[];
  stop: (number | null)[];
  ended: string[];
  status: (number | null)[];
  user: (number | null)[];
  system: (number | null)[];
}

export interface Threads {
  id: string[];
  tid: number[];
  name: (string | null)[];
  process: number[];
  start: number[];
  stop: (number | null)[];
}

/**
 * File operations, summed by time bucket (of their start), thread, file and call; ordered by bucket.
 * Every number of the page that follows the brush is a sum of these, so it is exact for whole buckets.
 */
export interface Cells {
  /** Cells of bucket b are first[b] .. first[b + 1]. */
  first: number[];
  thread: number[];
  file: number[];
  call: number[];
  ops: number[];
  errors: number[];
  bytes: number[];
  /** Sum and maximum of `dur`. */
  dur: number[];
  max: number[];
  /** How many entries of `bin` and `count` belong to the cell: its latency histogram, 32 buckets an octave. */
  bins: number[];
  bin: number[];
  count: number[];
}

/** What each thread did with its time, by time bucket; ordered by bucket. */
export interface Split {
  first: number[];
  thread: number[];
  /** Whether CPU time is known of any thread; if not, compute, queued and fault are 0 and say nothing. */
  cpu: boolean;
  /** Whether waits were recorded; if not, sync and idle are 0 and say nothing. */
  waited: boolean;
  compute: number[];
  queued: number[];
  fault: number[];
  io: number[];
  sync: number[];
  idle: number[];
  unknown: number[];
}

/** What threads waited for longest over the whole run, the longest first. Times are ns. */
export interface Waits {
  thread: number[];
  what: string[];
  call: string[];
  count: number[];
  time: number[];
  max: number[];
}

/** What a thread can be doing. Each instant of its life is one of these. */
export const STATES = ["io", "sync", "compute", "queued", "fault", "idle", "unknown"] as const;
export type State = (typeof STATES)[number];

/** Where in a file, and when, bytes were read and written; ordered by bucket. */
export interface HeatFile {
  file: number;
  /** Height of an offset bucket in bytes. */
  width: number;
  bucket: number[];
  /** Index of the offset bucket. */
  pos: number[];
  reads: number[];
  writes: number[];
  readBytes: number[];
  writeBytes: number[];
}

/** Requests to devices: of an imported block trace, or of `iotrail record --kernel`. */
export interface Block {
  /** Bytes of a block, of which working set and miss ratios count. */
  page: number;
  /** The last stands for `folded` others, if there are any. */
  devices: {
    name: string[];
    node: (string | null)[];
    /** Its row in `files`; null of a disk that the kernel recorded. */
    file: (number | null)[];
    reads: number[];
    writes: number[];
    /** Flushes, discards and what else is no read or write. */
    others: number[];
    /** Reads and writes at no known offset, or of no length. */
    unplaced: number[];
    /** Times are multiples of so many ns; null where the trace has no times. */
    tick: (number | null)[];
  };
  folded: number;
  sizes: BlockRows & { size: number[]; n: number[]; bytes: number[] };
  sequential: BlockRows & { n: number[]; bytes: number[]; sequential: number[]; sequential_bytes: number[] };
  streams: BlockStreams | null;
  /** How many requests of its device and kind are looked back over for the one that a request follows. */
  look: number;
  /** Bins of the histogram of times between requests, 32 an octave. */
  gaps: BlockRows & { bin: number[]; n: number[] };
  /** Bytes used in `at` whose last use before was in `before`, -1 none; one block of `followed` was followed. */
  working: BlockRows & { followed: number; before: number[]; bytes: number[] };
  heat: BlockHeat[];
  curves: BlockCurve[];
}

/** Of a time bucket, device (a place in `devices`) and kind: 0 reads and writes, 1 reads, 2 writes. */
export interface BlockRows {
  at: number[];
  device: number[];
  kind: number[];
}

/** Streams whose length in requests is from 2^octave to below twice that; null where there are too many requests to follow. */
export interface BlockStreams extends BlockRows {
  octave: number[];
  /** Requests of the time bucket in such streams, and their bytes. */
  n: number[];
  bytes: number[];
  /** Streams that begin in the time bucket; all their requests and bytes; the most requests of one. */
  streams: number[];
  requests: number[];
  whole: number[];
  longest: number[];
}

/** As HeatFile, of a device from offset `base` on. */
export interface BlockHeat extends Omit<HeatFile, "file"> {
  device: number;
  base: number;
}

/** Miss ratios of an LRU cache by its size in bytes, over the whole trace. */
export interface BlockCurve {
  /** Null: one cache for all devices. */
  device: number | null;
  /** Blocks used, each time counted. */
  uses: number;
  size: number[];
  all: number[];
  read: number[] | null;
  write: number[] | null;
  /** Share of the blocks that were followed: 1 is exact. */
  rate: number;
  /** How far off a miss ratio is at most: four standard errors, of the size where they are largest. */
  error: number;
}

/** What a thread does, as in module `causal_cell`; calls on files by their kind. */
export type Work = CallKind | "compute" | "queued" | "unexplained" | "resume" | "other";

/** Who waited for whom, and what decided how long the run took. Lanes are threads; `lane` and `cause` are places in `lanes`. */
export interface Causality {
  /** Ranks first, by number. `folded` lanes are idle, or launch the others. */
  lanes: { thread: number[]; rank: (number | null)[]; folded: boolean[] };
  /** Threads that share the lane after the last; there is none if 0. */
  others: number;
  calls: string[];
  /** Kinds of work. `call` is a place in `calls`, `state` that of module `wait_state`; null none or unknown. */
  what: {
    work: Work[];
    state: (string | null)[];
    call: (number | null)[];
    file: (number | null)[];
    cause: (number | null)[];
    /** Several that have no place of their own on the page: their calls, files and causes are left out. */
    merged: boolean[];
  };
  /** By time bucket, lane and kind of work: calls or waits that begin, their time, and that on the critical path. */
  cells: { first: number[]; lane: number[]; what: number[]; n: number[]; ns: number[]; path: number[] };
  /** Waits in the order of their signals: the longest of each bucket. Of bucket b there are first[b + 1] - first[b] in the trail. */
  waits: {
    first: number[];
    lane: number[];
    cause: number[];
    call: (number | null)[];
    state: string[];
    start: number[];
    signal: number[];
    stop: number[];
  };
  /** The critical path: the longest stretches of each bucket. `kind` is that of the edge by which it came to this thread. */
  path: { lane: number[]; start: number[]; dur: number[]; kind: (string | null)[] };
}

/** Data inlined in the page by `iotrail report`: base64 of gzipped JSON. */
export class InlinedSource implements IoSource {
  constructor(private readonly element: HTMLElement) {}

  async load(): Promise<IoData> {
    const text = this.element.textContent.trim();
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const data = (await new Response(stream).json()) as IoData;
    if (data.version !== 1) {
      throw new Error(`The data has version ${data.version}, this page reads version 1.`);
    }
    // The text would otherwise stay in memory for as long as the page is open.
    this.element.textContent = "";
    return data;
  }
}

/** Whether all that was recorded are requests to devices: nothing is known of calls, or of who made them. */
export function hasOnlyRequests(data: IoData): boolean {
  return data.block !== null && data.cells.ops.length === 0;
}
