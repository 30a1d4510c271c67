// Time: where in the recorded and live span one is, and how it moves. Changes of the cluster are marked on it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { time as duration } from "../format/units";
import type { Placed } from "./membership";
import { SPEEDS } from "./player";

export interface TimelineProps {
  start: number;
  end: number;
  moment: number;
  /** The other moment, if there are two panes. */
  than: number | null;
  following: boolean;
  playing: boolean;
  speed: number;
  waiting: boolean;
  live: boolean;
  changes: Placed[];
  onSeek: (moment: number) => void;
  onThan: (moment: number | null) => void;
  onPlay: (playing: boolean) => void;
  onSpeed: (speed: number) => void;
  onFollow: () => void;
}

/** How much of the span the slider covers. */
const WINDOWS: [number | null, string][] = [
  [null, "all"],
  [3_600_000, "1 h"],
  [600_000, "10 min"],
  [120_000, "2 min"],
];

const two = (n: number) => String(n).padStart(2, "0");

/** 14:03:07, in UTC as everywhere in the page. */
export function clock(ms: number): string {
  const date = new Date(ms);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
}

export function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The part of a span that a window of that width shows around a moment. */
export function windowOf(start: number, end: number, width: number | null, moment: number): [number, number] {
  if (width === null || width >= end - start) {
    return [start, Math.max(end, start + 1000)];
  }
  const from = Math.max(start, Math.min(end - width, moment - width * 0.75));
  return [from, from + width];
}

export function Timeline(props: TimelineProps) {
  const { start, end, moment, than, playing, following, changes } = props;
  const [width, setWidth] = useState<number | null>(null);
  const [pointer, setPointer] = useState<number | null>(null);
  const track = useRef<HTMLDivElement>(null);
  const held = useRef<[number, number] | null>(null);
  // while it is dragged the window stands still
  const [from, to] = held.current ?? windowOf(start, end, width, moment);
  const share = (ms: number) => `${(100 * (ms - from)) / (to - from)}%`;
  const within = (ms: number) => ms >= from && ms <= to;

  const at = (event: PointerEvent): number => {
    const bounds = track.current?.getBoundingClientRect();
    return bounds ? from + ((event.clientX - bounds.left) / bounds.width) * (to - from) : from;
  };
  const marks = useMemo(
    () =>
      changes.filter((change, i) => change.since_ms > start && (change.state !== "up" || i > 0)).slice(-400),
    [changes, start],
  );
  useEffect(() => {
    const release = () => {
      held.current = null;
    };
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", release);
    return () => {
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
    };
  }, []);

  return (
    <footer class="timeline">
      <button
        type="button"
        class="play"
        aria-label={playing ? "Pause" : "Play"}
        aria-pressed={playing}
        onClick={() => props.onPlay(!playing)}
      >
        <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
          {playing ? <path d="M5 3h4v14H5zM11 3h4v14h-4z" /> : <path d="M5 3l12 7-12 7z" />}
        </svg>
      </button>
      <label class="speed">
        <span class="hidden-label">Speed</span>
        <select
          value={props.speed}
          disabled={following}
          onChange={(event) => props.onSpeed(Number(event.currentTarget.value))}
        >
          {SPEEDS.map((speed) => (
            <option key={speed} value={speed}>
              {speed}×
            </option>
          ))}
        </select>
      </label>
      <div class="moment">
        <b data-moment={Math.round(moment)}>{moment > 0 ? clock(moment) : "–"}</b>
        <small>{moment > 0 ? `${day(moment)} UTC${props.waiting ? " · loading" : ""}` : ""}</small>
      </div>
      <div
        class="track"
        ref={track}
        role="slider"
        tabIndex={0}
        aria-label="Moment"
        aria-valuemin={start}
        aria-valuemax={end}
        aria-valuenow={Math.round(moment)}
        aria-valuetext={clock(moment)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          held.current = [from, to];
          if (event.altKey && than !== null) {
            props.onThan(at(event));
          } else {
            props.onSeek(at(event));
          }
        }}
        onPointerMove={(event) => {
          setPointer(at(event));
          if (held.current) {
            if (event.altKey && than !== null) {
              props.onThan(at(event));
            } else {
              props.onSeek(at(event));
            }
          }
        }}
        onPointerLeave={() => setPointer(null)}
      >
        <div class="rail" />
        <div class="past" style={{ width: share(Math.max(from, Math.min(to, moment))) }} />
        {marks.map(
          (change) =>
            within(change.since_ms) && (
              <i
                key={`${change.member} ${change.since_ms}`}
                class={`mark ${change.state}`}
                style={{ left: share(change.since_ms) }}
                title={`${clock(change.since_ms)} ${change.member}: ${change.detail ?? change.state}`}
              />
            ),
        )}
        {than !== null && within(than) && (
          <span
            class="handle than"
            style={{ left: share(than) }}
            title={`Beside: ${clock(than)}; Alt and drag moves it`}
          />
        )}
        {within(moment) && <span class="handle" style={{ left: share(moment) }} />}
        {pointer !== null && (
          <span class="pointed" style={{ left: share(Math.max(from, Math.min(to, pointer))) }}>
            {clock(pointer)}
          </span>
        )}
        <span class="edge left">{clock(from)}</span>
        <span class="edge right">{following ? "now" : clock(to)}</span>
      </div>
      <label class="window">
        <span class="hidden-label">Span of the slider</span>
        <select
          value={String(width)}
          title={`Recorded: ${duration((end - start) * 1e6)}`}
          onChange={(event) =>
            setWidth(event.currentTarget.value === "null" ? null : Number(event.currentTarget.value))
          }
        >
          {WINDOWS.map(([ms, name]) => (
            <option key={name} value={String(ms)}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <button
        type="button"
        class="button"
        aria-pressed={than !== null}
        onClick={() => props.onThan(than === null ? moment : null)}
        title="Show another moment beside this one (C)"
      >
        {than === null ? "Compare" : "One moment"}
      </button>
      {props.live && (
        <button
          type="button"
          class="button follow"
          aria-pressed={following}
          onClick={props.onFollow}
          title="Follow the live stream (L)"
        >
          Live
        </button>
      )}
    </footer>
  );
}
