// The live stream: a WebSocket that is opened again when it is lost, with longer and longer pauses.

import type { Grain, Hello, LiveFrame } from "./wire";

export interface See {
  members: string[] | null;
  metrics: string[] | null;
  by: Grain;
  every_ms: number;
}

export type StreamState =
  /** There is none: a trail without a collector. */
  | { kind: "none" }
  | { kind: "connecting" }
  /** `behind`: ms between what happened and its being shown. */
  | { kind: "live"; behind: number }
  /** Connected, but nothing came for so long. */
  | { kind: "silent"; since: number }
  /** `at`: when it is tried again. */
  | { kind: "lost"; at: number; reason: string };

/** Close code of the server: this trail has no stream. */
const NO_STREAM = 4404;
const SILENT_MS = 4_000;
/** A connection that is dead without having said so. */
const DEAD_MS = 20_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

/** The pause before a try, the `tries`-th since it last worked; `luck` in 0..1 keeps pages from coming back at once. */
export function pause(tries: number, luck: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10)) * (0.8 + 0.4 * luck);
}

export class LiveStream {
  private socket: WebSocket | null = null;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  /** This machine's clock minus the collector's, in ms. */
  private ahead = 0;
  private see: See | null = null;
  private closed = false;
  state: StreamState = { kind: "connecting" };
  onHello: (hello: Hello) => void = () => {};
  onFrame: (frame: LiveFrame) => void = () => {};
  onState: (state: StreamState) => void = () => {};

  constructor(private url: string) {}

  open(see: See): void {
    this.see = see;
    this.connect();
    this.watch = setInterval(() => this.check(), 500);
  }

  /** What to send from now on. */
  look(see: See): void {
    this.see = see;
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify({ see }));
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.watch);
    this.socket?.close();
  }

  private connect(): void {
    this.say({ kind: "connecting" });
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.heard = Date.now();
    socket.onopen = () => {
      this.heard = Date.now();
      socket.send(JSON.stringify({ see: this.see }));
    };
    socket.onmessage = (event) => {
      if (this.socket === socket && typeof event.data === "string") {
        this.take(event.data);
      }
    };
    socket.onclose = (event) => {
      if (this.socket === socket) {
        this.lost(event.code, event.reason);
      }
    };
  }

  private take(text: string): void {
    this.heard = Date.now();
    const message = JSON.parse(text) as { hello?: Hello; frame?: LiveFrame };
    if (message.hello) {
      this.tries = 0;
      this.ahead = Date.now() - message.hello.now_ms;
      this.say({ kind: "live", behind: 0 });
      this.onHello(message.hello);
    } else if (message.frame) {
      const { frame } = message;
      const behind = frame.late_ms ?? Math.max(0, Date.now() - this.ahead - frame.ts_ms);
      this.onFrame(frame);
      this.say({ kind: "live", behind });
    }
  }

  private lost(code: number, reason: string): void {
    this.socket = null;
    if (this.closed) {
      return;
    }
    if (code === NO_STREAM) {
      this.close();
      this.say({ kind: "none" });
      return;
    }
    const wait = pause(this.tries, Math.random());
    this.tries += 1;
    this.say({ kind: "lost", at: Date.now() + wait, reason });
    this.timer = setTimeout(() => this.connect(), wait);
  }

  private check(): void {
    const quiet = Date.now() - this.heard;
    if (this.socket && quiet > DEAD_MS) {
      const socket = this.socket;
      this.socket = null;
      socket.close();
      this.lost(0, `nothing for ${Math.round(quiet / 1000)} s`);
    } else if (this.state.kind === "live" && quiet > SILENT_MS) {
      this.say({ kind: "silent", since: this.heard });
    } else if (this.state.kind === "lost" || this.state.kind === "silent") {
      // its seconds count down
      this.onState(this.state);
    }
  }

  private say(state: StreamState): void {
    this.state = state;
    this.onState(state);
  }
}

/** What the state is called. */
export function stateText(state: StreamState, now: number): string {
  switch (state.kind) {
    case "none":
      return "recorded";
    case "connecting":
      return "connecting …";
    case "live":
      return `live · ${(state.behind / 1000).toFixed(1)} s behind`;
    case "silent":
      return `stream silent for ${Math.round((now - state.since) / 1000)} s`;
    case "lost":
      return `stream lost, retrying in ${Math.max(0, Math.ceil((state.at - now) / 1000))} s`;
  }
}
