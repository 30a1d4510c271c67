// Series over time in steps of a bucket. Charts on one page share a cursor; dragging brushes a span.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { moment } from "../format/units";
import { color, type Theme } from "../theme/theme";
import { useWidth } from "./canvas";
import { Tooltip, type TooltipAt, TooltipRows } from "./tooltip";
import "./time-chart.css";

export interface TimeSeries {
  name: string;
  /** Custom property of theme.css. */
  color: string;
  /** One value a bucket. */
  values: ArrayLike<number>;
  fill?: boolean;
}

/** The run's time axis: bucket b covers origin + b * bucket .. origin + (b + 1) * bucket. */
export interface TimeAxis {
  origin: number;
  bucket: number;
  buckets: number;
  duration: number;
}

export interface TimeChartProps {
  label: string;
  axis: TimeAxis;
  series: TimeSeries[];
  /** Buckets [from, to) in sight. */
  span: [number, number];
  format: (value: number) => string;
  height: number;
  theme: Theme;
  /** Values are parts of a whole and lie on top of each other. */
  stacked?: boolean;
  /** The axis has round numbers of bytes. */
  binary?: boolean;
  onBrush: (from: number, to: number) => void;
}

const CURSOR = "iotrail-time";
const POWERS_OF_TWO = Array.from({ length: 54 }, (_, i) => 2 ** i);

/** Start and end of a bucket as text. */
export function bucketTitle(axis: TimeAxis, from: number, to: number): string {
  const step = axis.bucket;
  // The first and the last bucket reach beyond the run.
  const start = Math.max(0, axis.origin + from * step);
  const stop = Math.min(axis.duration, axis.origin + to * step);
  return `${moment(start, step / 10)} – ${moment(stop, step / 10)}`;
}

function stack(series: TimeSeries[]): Float64Array[] {
  const sums: Float64Array[] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(Float64Array.from(values, (value, i) => value + (below ? below[i] : 0)));
  }
  return sums;
}

export function TimeChart(props: TimeChartProps) {
  const { label, axis, series, span, format, height, theme, stacked, binary } = props;
  const [box, width] = useWidth<HTMLDivElement>();
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  // The chart's callbacks outlive a render; they read what is current.
  const current = useRef(props);
  current.current = props;

  useEffect(() => {
    if (!box.current || width === 0) {
      return;
    }
    const [from, to] = span;
    const edges = Float64Array.from(
      { length: to - from + 1 },
      (_, i) => axis.origin + (from + i) * axis.bucket,
    );
    const drawn = stacked ? stack(series) : series.map((s) => s.values);
    // A step needs a right edge: the last value is repeated at the end of its bucket.
    const columns = drawn.map((values) =>
      Float64Array.from({ length: to - from + 1 }, (_, i) => values[Math.min(from + i, to - 1)]),
    );
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const muted = color("muted");
    const grid = color("line");
    const shape = (s: TimeSeries): uPlot.Series => {
      const stroke = color(s.color);
      return {
        label: s.name,
        stroke,
        width: stacked ? 0 : 1.25,
        points: { show: false },
        ...(stepped ? { paths: stepped } : {}),
        ...(stacked ? { fill: stroke } : s.fill ? { fill: `${stroke}30` } : {}),
      };
    };
    // Higher layers of a stack are drawn first, so that the lower ones cover them.
    const order = series.map((_, i) => (stacked ? series.length - 1 - i : i));
    const chart = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        padding: [10, 24, 0, 0],
        cursor: {
          sync: { key: CURSOR },
          drag: { x: true, y: false, setScale: false },
          points: { show: !stacked, size: 6 },
          y: false,
        },
        scales: {
          x: { time: false, range: [edges[0], edges[edges.length - 1]] },
          y: {
            range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1],
          },
        },
        axes: [
          {
            stroke: muted,
            font: "11px Inter Report, system-ui, sans-serif",
            size: 26,
            gap: 4,
            space: 90,
            grid: { stroke: grid, width: 1 },
            ticks: { show: false },
            values: (_u, ticks) =>
              ticks.map((t) => moment(t, ticks.length > 1 ? ticks[1] - ticks[0] : t || 1)),
          },
          {
            stroke: muted,
            font: "11px Inter Report, system-ui, sans-serif",
            size: 84,
            gap: 6,
            space: 28,
            ...(binary ? { incrs: POWERS_OF_TWO } : {}),
            grid: { stroke: grid, width: 1 },
            ticks: { show: false },
            values: (_u, ticks) => ticks.map((t) => format(t)),
          },
        ],
        series: [{}, ...order.map((i) => shape(series[i]))],
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width < 3) {
                return;
              }
              const edge = (px: number) => (u.posToVal(px, "x") - axis.origin) / axis.bucket;
              const first = Math.floor(edge(u.select.left) + 0.2);
              const last = Math.ceil(edge(u.select.left + u.select.width) - 0.2);
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              current.current.onBrush(first, last);
            },
          ],
        },
      },
      [edges, ...order.map((i) => columns[i])] as uPlot.AlignedData,
      box.current,
    );
    const move = (event: PointerEvent) => {
      const bounds = chart.over.getBoundingClientRect();
      const at = chart.posToVal(event.clientX - bounds.left, "x");
      const bucket = Math.floor((at - axis.origin) / axis.bucket);
      if (bucket < from || bucket >= to) {
        setTooltip(null);
        return;
      }
      const rows = current.current.series.map((s): [string, string, string] => [
        s.name,
        current.current.format(s.values[bucket]),
        `var(--${s.color})`,
      ]);
      setTooltip({
        x: event.clientX,
        y: event.clientY,
        content: <TooltipRows title={bucketTitle(axis, bucket, bucket + 1)} rows={rows} />,
      });
    };
    const leave = () => setTooltip(null);
    chart.over.addEventListener("pointermove", move);
    chart.over.addEventListener("pointerleave", leave);
    return () => chart.destroy();
    // Series change with every selection: the chart is cheap to make anew (under 2 ms for 500 buckets).
  }, [box, width, height, theme, stacked, binary, axis, series, span[0], span[1], format]);

  return (
    <figure class="time-chart" aria-label={label}>
      <div ref={box} style={{ height: `${height}px` }} role="img" aria-label={label} />
      <Tooltip at={tooltip} />
    </figure>
  );
}

/** Names of series beside their colours. */
export function Legend({ entries }: { entries: { name: string; color: string; value?: string }[] }) {
  return (
    <ul class="legend">
      {entries.map((entry) => (
        <li key={entry.name}>
          <i class="swatch" style={{ background: `var(--${entry.color})` }} />
          {entry.name}
          {entry.value !== undefined && <b>{entry.value}</b>}
        </li>
      ))}
    </ul>
  );
}
