// The whole run as a strip with the brushed span: drag to choose, drag the span or an edge to move it,
// arrow keys on an edge move it by a bucket (with Shift by ten).

import { useEffect, useRef } from "preact/hooks";
import { color, type Theme } from "../theme/theme";
import { prepare, useWidth } from "./canvas";
import { bucketTitle, type TimeAxis } from "./time-chart";
import "./brush-strip.css";

interface Props {
  axis: TimeAxis;
  /** What is drawn above and below the middle line, one value a bucket. */
  up: ArrayLike<number>;
  down: ArrayLike<number>;
  span: [number, number] | null;
  theme: Theme;
  onBrush: (from: number, to: number) => void;
}

const HEIGHT = 44;
/** Pixels around an edge that grab it. */
const GRIP = 6;

export function BrushStrip({ axis, up, down, span, theme, onBrush }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [from, to] = span ?? [0, axis.buckets];

  useEffect(() => {
    if (!canvas.current || width === 0) {
      return;
    }
    const context = prepare(canvas.current, width, HEIGHT);
    const middle = HEIGHT / 2;
    const half = (values: ArrayLike<number>, fill: string, sign: number) => {
      const most = Math.max(1, ...Array.from(values));
      context.fillStyle = fill;
      for (let b = 0; b < axis.buckets; b++) {
        if (values[b] > 0) {
          const x = (b / axis.buckets) * width;
          const w = Math.max(0.75, width / axis.buckets - (width / axis.buckets > 4 ? 1 : 0));
          // The square root keeps a quiet phase visible beside a burst.
          const h = Math.max(1, Math.sqrt(values[b] / most) * (middle - 3));
          context.fillRect(x, sign > 0 ? middle - h : middle + 0.5, w, h);
        }
      }
    };
    half(up, color("kind-read"), 1);
    half(down, color("kind-write"), -1);
  }, [width, up, down, axis, theme]);

  const bucketAt = (event: PointerEvent): number => {
    const bounds = box.current?.getBoundingClientRect();
    return bounds ? ((event.clientX - bounds.left) / bounds.width) * axis.buckets : 0;
  };

  const press = (event: PointerEvent) => {
    if (event.button !== 0 || !box.current) {
      return;
    }
    event.preventDefault();
    const strip = box.current;
    const anchor = bucketAt(event);
    const grip = (GRIP / strip.clientWidth) * axis.buckets;
    const near = (edge: number) => span !== null && Math.abs(anchor - edge) < grip;
    const moving = span !== null && anchor > from + grip && anchor < to - grip;
    const fixed = near(from) ? to : near(to) ? from : null;
    let frame = 0;
    const drag = (moved: PointerEvent) => {
      const at = bucketAt(moved);
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        if (moving) {
          const shift = Math.max(-from, Math.min(Math.round(at - anchor), axis.buckets - to));
          onBrush(from + shift, to + shift);
        } else {
          const other = fixed ?? anchor;
          // A click without a drag is no brush.
          if (fixed !== null || Math.abs(at - other) > grip / 2) {
            onBrush(Math.floor(Math.min(at, other)), Math.ceil(Math.max(at, other)));
          }
        }
      });
    };
    const release = () => {
      strip.removeEventListener("pointermove", drag);
      strip.removeEventListener("pointerup", release);
      strip.removeEventListener("pointercancel", release);
    };
    strip.setPointerCapture(event.pointerId);
    strip.addEventListener("pointermove", drag);
    strip.addEventListener("pointerup", release);
    strip.addEventListener("pointercancel", release);
  };

  const nudge = (edge: "from" | "to") => (event: KeyboardEvent) => {
    const step = event.shiftKey ? 10 : 1;
    const by = { ArrowLeft: -step, ArrowRight: step, Home: -axis.buckets, End: axis.buckets }[event.key] ?? 0;
    if (by === 0) {
      return;
    }
    event.preventDefault();
    if (edge === "from") {
      onBrush(Math.min(Math.max(0, from + by), to - 1), to);
    } else {
      onBrush(from, Math.max(Math.min(axis.buckets, to + by), from + 1));
    }
  };

  const percent = (bucket: number) => `${(100 * bucket) / axis.buckets}%`;
  const handle = (edge: "from" | "to", at: number) => (
    <div
      class="brush-handle"
      role="slider"
      tabIndex={0}
      aria-label={edge === "from" ? "Start of the time span" : "End of the time span"}
      aria-valuemin={0}
      aria-valuemax={axis.buckets}
      aria-valuenow={at}
      aria-valuetext={bucketTitle(axis, from, to)}
      style={{ left: percent(at) }}
      onKeyDown={nudge(edge)}
    />
  );

  return (
    <div class="brush-strip" ref={box} onPointerDown={press} style={{ height: `${HEIGHT}px` }}>
      <canvas ref={canvas} />
      {span && (
        <>
          <div class="brush-outside" style={{ left: 0, width: percent(from) }} />
          <div class="brush-outside" style={{ left: percent(to), right: 0 }} />
        </>
      )}
      <div
        class="brush-window"
        data-whole={span === null}
        style={{ left: percent(from), width: percent(to - from) }}
      />
      {handle("from", from)}
      {handle("to", to)}
    </div>
  );
}
