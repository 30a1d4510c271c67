// The newest value of each series: what the view is drawn from.
//
// A column holds one series of all owners (members, hosts or racks), so that a mark of ten thousand nodes is
// filled by a loop over arrays. A value is forgotten when it wasn't said again for a while: a daemon that
// hangs must not look as it did a minute ago.

import type { Names } from "./packing";
import type { Series } from "./wire";

/** How long a sum holds: agents sample once a second, and may be late. */
export const HOLD_MS = 3_500;

export interface Column {
  metric: string;
  name: string | null;
  least: number | null;
  number: number;
  /** By owner. */
  values: Float32Array;
  /** When it was said, in ms since the epoch, by owner. */
  said: Float64Array;
}

/** Where values of an answer go: its series' columns and owners by its own numbers, and what these are here. */
export interface Targets {
  names: Names;
  columns: number[];
  owners: number[];
}

export class Samples {
  readonly owners: string[] = [];
  private index = new Map<string, number>();
  private byMetric = new Map<string, Column[]>();
  private list: Column[] = [];
  /** Where values of the stream go. */
  private declared: { column: number[]; owner: number[] } = { column: [], owner: [] };
  private capacity = 256;
  /** Moment up to which frames were applied. */
  now = 0;
  /** A value holds so long. */
  hold = HOLD_MS;

  /** The number of an owner; made for a new one. */
  owner(name: string): number {
    const known = this.index.get(name);
    if (known !== undefined) {
      return known;
    }
    const number = this.owners.length;
    this.owners.push(name);
    this.index.set(name, number);
    if (number >= this.capacity) {
      this.capacity *= 2;
      for (const column of this.list) {
        column.values = grown(column.values, new Float32Array(this.capacity));
        column.said = grown(column.said, new Float64Array(this.capacity));
      }
    }
    return number;
  }

  find(name: string): number {
    return this.index.get(name) ?? -1;
  }

  /** Numbers of series mean something within one stream. */
  forgetSeries(): void {
    this.declared = { column: [], owner: [] };
  }

  /** Forgets all values, at a jump in time. */
  clear(): void {
    for (const column of this.list) {
      column.said.fill(Number.NEGATIVE_INFINITY);
    }
    this.now = 0;
  }

  declare(series: Series[]): void {
    for (const [number, owner, metric, name, least] of series) {
      this.declared.column[number] = this.column(metric, name, least).number;
      this.declared.owner[number] = this.owner(owner);
    }
  }

  /** Where values of an answer go. */
  bind(names: Names): Targets {
    return {
      names,
      columns: names.columns.map((column) => this.column(...column).number),
      owners: names.owners.map((owner) => this.owner(owner)),
    };
  }

  /** Pairs of a series' number and its value, of the stream or of an answer. */
  apply(ts: number, numbers: ArrayLike<number>, targets?: Targets): void {
    if (targets) {
      const { names, columns, owners } = targets;
      for (let i = 0; i + 1 < numbers.length; i += 2) {
        const number = numbers[i];
        this.put(columns[names.column[number]], owners[names.owner[number]], ts, numbers[i + 1]);
      }
    } else {
      const { column, owner } = this.declared;
      for (let i = 0; i + 1 < numbers.length; i += 2) {
        this.put(column[numbers[i]], owner[numbers[i]], ts, numbers[i + 1]);
      }
    }
    this.now = Math.max(this.now, ts);
  }

  /** A series that wasn't declared has neither column nor owner. */
  private put(column: number | undefined, owner: number | undefined, ts: number, value: number): void {
    if (column !== undefined && owner !== undefined) {
      const { values, said } = this.list[column];
      values[owner] = value;
      said[owner] = ts;
    }
  }

  columns(metric: string): readonly Column[] {
    return this.byMetric.get(metric) ?? [];
  }

  metrics(): string[] {
    return [...this.byMetric.keys()].sort();
  }

  /** A column's value of an owner; NaN if it has none, or none any more. */
  value(column: Column, owner: number): number {
    return this.now - column.said[owner] <= this.hold ? column.values[owner] : Number.NaN;
  }

  /** All of a metric together; NaN if nothing is known. */
  sum(metric: string, owner: number): number {
    let sum = Number.NaN;
    for (const column of this.columns(metric)) {
      const value = this.value(column, owner);
      if (!Number.isNaN(value)) {
        sum = Number.isNaN(sum) ? value : sum + value;
      }
    }
    return sum;
  }

  /** One of a metric's kinds. */
  of(metric: string, name: string, owner: number): number {
    for (const column of this.columns(metric)) {
      if (column.name === name) {
        return this.value(column, owner);
      }
    }
    return Number.NaN;
  }

  private column(metric: string, name: string | null, least: number | null): Column {
    // looked for among a metric's few: a key of all three would be a new text for each of many thousand series
    const columns = this.byMetric.get(metric);
    const known = columns?.find((column) => column.name === name && column.least === least);
    if (known) {
      return known;
    }
    const column: Column = {
      metric,
      name,
      least,
      number: this.list.length,
      values: new Float32Array(this.capacity),
      said: new Float64Array(this.capacity).fill(Number.NEGATIVE_INFINITY),
    };
    this.list.push(column);
    if (columns) {
      columns.push(column);
    } else {
      this.byMetric.set(metric, [column]);
    }
    return column;
  }
}

function grown<A extends Float32Array | Float64Array>(old: A, larger: A): A {
  if (larger instanceof Float64Array) {
    larger.fill(Number.NEGATIVE_INFINITY);
  }
  larger.set(old);
  return larger;
}
