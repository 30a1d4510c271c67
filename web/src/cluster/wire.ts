// What the server and the live stream send, as they send it: docs/serve.md.

/** A member at some moment: it holds until its next row. */
export interface Member {
  member: string;
  role: string;
  node: string;
  place: string | null;
  /** Where it stands. Recorded rows say it; of live ones it follows from the place. */
  host?: string | null;
  rack?: string | null;
  state: State;
  since_ms: number;
  detail: string | null;
}

export type State = "up" | "standby" | "down" | "failed" | "left";

/** Number, whose, metric, of which of its kind, smallest value of a histogram's bucket. */
export type Series = [number, string, string, string | null, number | null];

export interface Hello {
  version: number;
  now_ms: number;
  window_ms: number;
  members: Member[];
}

export interface LiveFrame {
  ts_ms: number;
  members?: Member[];
  series?: Series[];
  /** Pairs of a series' number and its value. */
  values: number[];
  /** How far the stream is behind now, in ms. */
  late_ms?: number;
  samples_late?: number;
}

export interface Recorded {
  members: Member[];
  series: Series[];
  frames: { ts_ms: number; values: number[] }[];
}

export interface Info {
  version: string | null;
  trail: string | null;
  live: boolean;
  collector: string | null;
  /** Whether the trail has measurements of a sweep. */
  sweep: boolean;
}

export interface Span {
  start_ms: number | null;
  end_ms: number | null;
  snapshot: number;
}

/** What values are of: members, or all of a host or rack together. */
export type Grain = "member" | "host" | "rack";
