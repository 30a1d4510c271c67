// Shares by a size on a logarithmic axis, as steps: each value holds from its size up to the next.

import { useEffect, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes } from "../format/units";
import { color, type Theme } from "../theme/theme";
import { powers } from "./axis";
import { useWidth } from "./canvas";
import { Tooltip, type TooltipAt, TooltipRows } from "./tooltip";
import "./time-chart.css";

export interface CurveSeries {
  name: string;
  /** Custom property of theme.css. */
  color: string;
  /** One share (0 to 1) a size. */
  values: number[];
}

interface Props {
  label: string;
  /** Sizes in bytes, ascending. */
  size: number[];
  series: CurveSeries[];
  height: number;
  theme: Theme;
}

const percent = (share: number): string => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 2 : 1)} %`;

export function CurveChart({ label, size, series, height, theme }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);

  useEffect(() => {
    if (!box.current || width === 0) {
      return;
    }
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const muted = color("muted");
    const grid = color("line");
    const axis = {
      stroke: muted,
      font: "11px Inter Report, system-ui, sans-serif",
      grid: { stroke: grid, width: 1 },
      ticks: { show: false },
    };
    // a curve of one size is drawn over an octave
    const sizes = size.length > 1 ? size : [size[0], 2 * size[0]];
    const chart = new uPlot(
      {
        width,
        height,
        legend: { show: false },
        padding: [10, 24, 0, 0],
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
        scales: {
          x: { time: false, distr: 3, log: 2, range: [sizes[0], sizes[sizes.length - 1]] },
          y: { range: [0, 1.02] },
        },
        axes: [
          {
            ...axis,
            size: 26,
            gap: 4,
            space: 60,
            splits: (_u, _axis, min, max) => powers(min, max, width / 90),
            // uPlot labels few ticks of a logarithmic axis by itself
            filter: (_u, ticks) => ticks,
            values: (_u, ticks) => ticks.map((t) => bytes(t).replace(/\.0+ /, " ")),
          },
          {
            ...axis,
            size: 84,
            gap: 6,
            space: 28,
            values: (_u, ticks) => ticks.map((t) => `${Math.round(100 * t)} %`),
          },
        ],
        series: [
          {},
          ...series.map((s) => ({
            label: s.name,
            stroke: color(s.color),
            width: 1.75,
            points: { show: false },
            ...(stepped ? { paths: stepped } : {}),
          })),
        ],
      },
      [
        sizes,
        ...series.map((s) => (size.length > 1 ? s.values : [s.values[0], s.values[0]])),
      ] as uPlot.AlignedData,
      box.current,
    );
    const move = (event: PointerEvent) => {
      const at = chart.cursor.idx;
      if (at === null || at === undefined) {
        setTooltip(null);
        return;
      }
      const i = Math.min(at, size.length - 1);
      setTooltip({
        x: event.clientX,
        y: event.clientY,
        content: (
          <TooltipRows
            title={`A cache of ${bytes(size[i])}`}
            rows={series.map((s): [string, string, string] => [s.name, percent(s.values[i]), color(s.color)])}
          />
        ),
      });
    };
    const leave = () => setTooltip(null);
    chart.over.addEventListener("pointermove", move);
    chart.over.addEventListener("pointerleave", leave);
    return () => {
      chart.over.removeEventListener("pointermove", move);
      chart.over.removeEventListener("pointerleave", leave);
      chart.destroy();
    };
  }, [width, size, series, height, theme]);

  return (
    <figure class="time-chart">
      <div ref={box} style={{ height: `${height}px` }} role="img" aria-label={label} />
      <Tooltip at={tooltip} />
    </figure>
  );
}
