// Requests by time and latency: a column a stretch of time, a row a quarter of an octave, darker where there are more.

import { useEffect, useRef } from "preact/hooks";
import { prepare, useWidth } from "../chart/canvas";
import { viridis } from "../chart/colormap";
import { count, time } from "../format/units";
import type { Theme } from "../theme/theme";
import type { HeatMap } from "./ask";

const HEIGHT = 180;
const LEFT = 58;
const BOTTOM = 18;
/** Rows of an octave. */
const ROWS = 4;

interface Props {
  map: HeatMap;
  end: number;
  theme: Theme;
  /** A click on a moment. */
  onMoment: (ms: number) => void;
}

const row = (ns: number): number => Math.floor(Math.log2(Math.max(ns, 1)) * ROWS);
const ns = (at: number): number => 2 ** (at / ROWS);
const clock = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

export function HeatChart({ map, end, theme, onMoment }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const columns = Math.max(1, Math.ceil((end - map.start_ms) / map.every_ms));
  const cells = new Map<string, number>();
  let [low, high, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const [column, least, n] of map.cells) {
    const at = row(least);
    const key = `${column} ${at}`;
    const sum = (cells.get(key) ?? 0) + n;
    cells.set(key, sum);
    low = Math.min(low, at);
    high = Math.max(high, at + 1);
    most = Math.max(most, sum);
  }
  useEffect(() => {
    if (!canvas.current || width <= LEFT) {
      return;
    }
    const draw = prepare(canvas.current, width, HEIGHT);
    draw.clearRect(0, 0, width, HEIGHT);
    const style = getComputedStyle(canvas.current);
    const wide = (width - LEFT) / columns;
    const tall = (HEIGHT - BOTTOM) / Math.max(1, high - low);
    for (const [key, n] of cells) {
      const [column, at] = key.split(" ").map(Number);
      draw.fillStyle = viridis(Math.log1p(n) / Math.log1p(most), theme === "light");
      const top = (high - at - 1) * tall;
      draw.fillRect(LEFT + column * wide, top, Math.max(wide - 0.5, 1), Math.max(tall - 0.5, 1));
    }
    draw.fillStyle = style.getPropertyValue("--muted");
    draw.font = `11px ${style.getPropertyValue("--sans")}`;
    draw.textAlign = "right";
    draw.textBaseline = "middle";
    const step = Math.max(ROWS, Math.ceil((high - low) / 6 / ROWS) * ROWS);
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
      draw.fillText(time(ns(at)), LEFT - 6, Math.max(6, (high - at) * tall));
    }
    draw.textBaseline = "alphabetic";
    draw.textAlign = "left";
    draw.fillText(clock(map.start_ms), LEFT, HEIGHT - 4);
    draw.textAlign = "right";
    draw.fillText(clock(end), width, HEIGHT - 4);
  });
  const at = (event: MouseEvent): { ms: number; key: string } => {
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    const column = Math.floor(((event.clientX - rect.left - LEFT) / (width - LEFT)) * columns);
    const tall = (HEIGHT - BOTTOM) / Math.max(1, high - low);
    const found = high - 1 - Math.floor((event.clientY - rect.top) / tall);
    return { ms: map.start_ms + (column + 1) * map.every_ms, key: `${column} ${found}` };
  };
  return (
    <div ref={box}>
      <canvas
        ref={canvas}
        class="heat-map"
        role="img"
        aria-label={`Requests by time and latency, ${count(map.cells.reduce((sum, cell) => sum + cell[2], 0))} in all`}
        style={{ height: `${HEIGHT}px` }}
        onClick={(event) => onMoment(Math.min(at(event).ms, end))}
        onMouseMove={(event) => {
          const { ms, key } = at(event);
          const n = cells.get(key);
          const latency = Number(key.split(" ")[1]);
          event.currentTarget.title = n
            ? `${count(n)} requests of ${time(ns(latency))} to ${time(ns(latency + 1))}, until ${clock(ms)}`
            : "";
        }}
      />
    </div>
  );
}
