// Sums the data's cells over what is selected: every number that follows the brush comes from here.
//
// Crossfilter rule: the table of a dimension follows all filters but its own, so that the other rows
// stay in sight to choose from.

import { HISTOGRAM_SIZE } from "../chart/histogram";
import { type CallKind, type IoData, STATES, type State } from "./data";
import type { Selection } from "./selection";

/** Sums of operations, one place a row of a table. */
export class Tally {
  readonly ops: Float64Array;
  readonly errors: Float64Array;
  readonly read: Float64Array;
  readonly written: Float64Array;
  readonly dur: Float64Array;
  readonly max: Float64Array;
  /** More than 0 if the duration of any operation is known; if not, `dur` and `max` are 0 and say nothing. */
  readonly timed: Float64Array;

  constructor(readonly length: number) {
    this.ops = new Float64Array(length);
    this.errors = new Float64Array(length);
    this.read = new Float64Array(length);
    this.written = new Float64Array(length);
    this.dur = new Float64Array(length);
    this.max = new Float64Array(length);
    this.timed = new Float64Array(length);
  }
}

/** Thread time in ns. */
export type SplitTime = Record<State, Float64Array>;

/** What happened in each time bucket of the whole run. */
export interface Series {
  readBytes: Float64Array;
  writeBytes: Float64Array;
  readOps: Float64Array;
  writeOps: Float64Array;
  otherOps: Float64Array;
}

export interface Sums {
  /** Buckets [from, to) that were summed. */
  from: number;
  to: number;
  total: Tally;
  files: Tally;
  processes: Tally;
  threads: Tally;
  calls: Tally;
  /** Latency histogram of each call that has one. */
  latency: Map<number, Float64Array>;
  /** The same over all selected calls. */
  latencyAll: Float64Array;
  series: Series;
  /** By thread, and by bucket over the selected threads. */
  threadTime: SplitTime;
  bucketTime: SplitTime;
}

const OTHER = 0;
const READ = 1;
const WRITE = 2;

const directionOf = (kind: CallKind): number => (kind === "read" ? READ : kind === "write" ? WRITE : OTHER);

const splitTime = (length: number): SplitTime =>
  Object.fromEntries(STATES.map((state) => [state, new Float64Array(length)])) as SplitTime;

export class Cube {
  readonly buckets: number;
  private readonly directions: Uint8Array;
  private readonly binFirst: Uint32Array;

  constructor(private readonly data: IoData) {
    this.buckets = data.run.buckets;
    this.directions = Uint8Array.from(data.calls.kind, directionOf);
    const bins = data.cells.bins;
    this.binFirst = new Uint32Array(bins.length + 1);
    for (let cell = 0; cell < bins.length; cell++) {
      this.binFirst[cell + 1] = this.binFirst[cell] + bins[cell];
    }
  }

  /** Sums what is selected. */
  sum(selection: Selection): Sums {
    const { files, processes, threads, calls } = this.data;
    const [from, to] = selection.span ?? [0, this.buckets];
    const sums: Sums = {
      from,
      to,
      total: new Tally(1),
      files: new Tally(files.path.length),
      processes: new Tally(processes.id.length),
      threads: new Tally(threads.id.length),
      calls: new Tally(calls.name.length),
      latency: new Map(),
      latencyAll: new Float64Array(HISTOGRAM_SIZE),
      series: {
        readBytes: new Float64Array(this.buckets),
        writeBytes: new Float64Array(this.buckets),
        readOps: new Float64Array(this.buckets),
        writeOps: new Float64Array(this.buckets),
        otherOps: new Float64Array(this.buckets),
      },
      threadTime: splitTime(threads.id.length),
      bucketTime: splitTime(this.buckets),
    };
    this.sumCells(selection, sums);
    this.sumSplit(selection, sums);
    return sums;
  }

  private sumCells(selection: Selection, sums: Sums): void {
    const { cells, threads } = this.data;
    const { file: onFile, thread: onThread, process: onProcess, call: onCall } = selection;
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      const inSpan = bucket >= sums.from && bucket < sums.to;
      for (let cell = cells.first[bucket]; cell < cells.first[bucket + 1]; cell++) {
        const file = cells.file[cell];
        const thread = cells.thread[cell];
        const process = threads.process[thread];
        const call = cells.call[cell];
        const fileOk = onFile === null || file === onFile;
        const threadOk = onThread === null || thread === onThread;
        const processOk = onProcess === null || process === onProcess;
        const callOk = onCall === null || call === onCall;
        const all = fileOk && threadOk && processOk && callOk;
        if (all) {
          this.addToSeries(sums.series, bucket, cell);
        }
        if (!inSpan) {
          continue;
        }
        if (all) {
          this.addTo(sums.total, 0, cell);
        }
        if (threadOk && processOk && callOk) {
          this.addTo(sums.files, file, cell);
        }
        if (fileOk && callOk && threadOk) {
          this.addTo(sums.processes, process, cell);
        }
        if (fileOk && callOk && processOk) {
          this.addTo(sums.threads, thread, cell);
        }
        if (fileOk && threadOk && processOk) {
          this.addTo(sums.calls, call, cell);
          this.addLatency(sums, call, cell, callOk);
        }
      }
    }
  }

  private addTo(tally: Tally, row: number, cell: number): void {
    const { cells } = this.data;
    tally.ops[row] += cells.ops[cell];
    tally.errors[row] += cells.errors[cell];
    tally.dur[row] += cells.dur[cell];
    tally.timed[row] += cells.bins[cell];
    if (cells.max[cell] > tally.max[row]) {
      tally.max[row] = cells.max[cell];
    }
    if (this.directions[cells.call[cell]] === READ) {
      tally.read[row] += cells.bytes[cell];
    } else {
      // Besides writes only fflush moves bytes, and it writes them.
      tally.written[row] += cells.bytes[cell];
    }
  }

  private addToSeries(series: Series, bucket: number, cell: number): void {
    const { cells } = this.data;
    const way = this.directions[cells.call[cell]];
    if (way === READ) {
      series.readOps[bucket] += cells.ops[cell];
      series.readBytes[bucket] += cells.bytes[cell];
    } else if (way === WRITE) {
      series.writeOps[bucket] += cells.ops[cell];
      series.writeBytes[bucket] += cells.bytes[cell];
    } else {
      series.otherOps[bucket] += cells.ops[cell];
      series.writeBytes[bucket] += cells.bytes[cell];
    }
  }

  private addLatency(sums: Sums, call: number, cell: number, callOk: boolean): void {
    const { bin, count } = this.data.cells;
    let histogram = sums.latency.get(call);
    if (!histogram) {
      histogram = new Float64Array(HISTOGRAM_SIZE);
      sums.latency.set(call, histogram);
    }
    for (let i = this.binFirst[cell]; i < this.binFirst[cell + 1]; i++) {
      histogram[bin[i]] += count[i];
      if (callOk) {
        sums.latencyAll[bin[i]] += count[i];
      }
    }
  }

  private sumSplit(selection: Selection, sums: Sums): void {
    const { split, threads } = this.data;
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      const inSpan = bucket >= sums.from && bucket < sums.to;
      for (let i = split.first[bucket]; i < split.first[bucket + 1]; i++) {
        const thread = split.thread[i];
        if (inSpan) {
          for (const state of STATES) {
            sums.threadTime[state][thread] += split[state][i];
          }
        }
        const threadOk = selection.thread === null || thread === selection.thread;
        const processOk = selection.process === null || threads.process[thread] === selection.process;
        if (threadOk && processOk) {
          for (const state of STATES) {
            sums.bucketTime[state][bucket] += split[state][i];
          }
        }
      }
    }
  }
}
