// Series of an answer as arrays: texts once each, and for each series the numbers of its own. Made where the answer is
// taken apart, so that the thread that draws never goes through hundreds of thousands of small arrays of texts.

import type { Series } from "./wire";

export interface Names {
  owners: string[];
  columns: [metric: string, name: string | null, least: number | null][];
  /** By number of the series: its column's, and its owner's. */
  column: Uint32Array<ArrayBuffer>;
  owner: Uint32Array<ArrayBuffer>;
}

/** Numbers of series are from 0 on, without gaps. */
export function pack(series: Series[]): Names {
  const names: Names = {
    owners: [],
    columns: [],
    column: new Uint32Array(series.length),
    owner: new Uint32Array(series.length),
  };
  const owners = new Map<string, number>();
  const columns = new Map<string, number>();
  for (const [number, owner, metric, name, least] of series) {
    names.owner[number] = numbered(owners, owner, () => names.owners.push(owner));
    const key = JSON.stringify([metric, name, least]);
    names.column[number] = numbered(columns, key, () => names.columns.push([metric, name, least]));
  }
  return names;
}

function numbered(known: Map<string, number>, key: string, add: () => void): number {
  const found = known.get(key);
  if (found !== undefined) {
    return found;
  }
  known.set(key, known.size);
  add();
  return known.size - 1;
}
