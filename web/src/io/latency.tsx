// Latency of each call: a histogram (or its cumulative share) on one logarithmic axis, and percentiles.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, useWidth } from "../chart/canvas";
import { lowerBound, percentile } from "../chart/histogram";
import { Tooltip, type TooltipAt, TooltipRows } from "../chart/tooltip";
import { exact, share, time } from "../format/units";
import { color, type Theme } from "../theme/theme";
import type { Sums } from "./cube";
import type { ViewProps } from "./page";
import { Choices, Section } from "./section";

export const PERCENTILES: [number, string][] = [
  [0.5, "p50"],
  [0.9, "p90"],
  [0.99, "p99"],
  [0.999, "p99.9"],
];
const HEIGHT = 40;
/** Calls shown before "all calls" is asked for. */
const FEW = 8;

type Shape = "histogram" | "cumulative";

type Props = ViewProps & { sums: Sums; theme: Theme };

export function Latency({ data, selection, sums, theme, onChoose }: Props) {
  const [shape, setShape] = useState<Shape>("histogram");
  const [all, setAll] = useState(false);
  const calls = useMemo(
    () => [...sums.latency.keys()].sort((a, b) => sums.calls.dur[b] - sums.calls.dur[a]),
    [sums],
  );
  const range = useMemo(() => axisRange([...sums.latency.values()]), [sums]);
  const shown = all ? calls : calls.filter((call, i) => i < FEW || call === selection.call);
  return (
    <Section
      id="latency"
      title="Latency of calls"
      note="Most time first. 32 buckets an octave: a percentile is the lower bound of its bucket, at most 3.1 % below the value."
      tools={
        <Choices<Shape>
          label="Draw latency as"
          value={shape}
          onChange={setShape}
          options={[
            ["histogram", "Histogram"],
            ["cumulative", "Cumulative"],
          ]}
        />
      }
    >
      <div class="panel">
        {calls.length === 0 ? (
          <p class="table-empty">No finished file operation here.</p>
        ) : (
          <table class="latency">
            <thead>
              <tr>
                <th scope="col">Call</th>
                <th scope="col" class="latency-axis">
                  <span class="hidden-label">Distribution</span>
                  <LogAxis range={range} />
                </th>
                <th scope="col" class="numeric">
                  Operations
                </th>
                {PERCENTILES.map(([, name]) => (
                  <th scope="col" class="numeric" key={name}>
                    {name}
                  </th>
                ))}
                <th scope="col" class="numeric">
                  max
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((call) => {
                const counts = sums.latency.get(call) ?? new Float64Array();
                const name = data.calls.name[call];
                const longest = sums.calls.timed[call] > 0 ? sums.calls.max[call] : null;
                return (
                  <tr key={call} data-call={name} data-chosen={selection.call === call}>
                    <th scope="row">
                      <button
                        type="button"
                        class="lane-choose"
                        aria-pressed={selection.call === call}
                        title={data.calls.meaning[call]}
                        onClick={() => onChoose("call", selection.call === call ? null : call)}
                      >
                        <i class="swatch" style={{ background: `var(--kind-${data.calls.kind[call]})` }} />
                        {name}
                      </button>
                    </th>
                    <td>
                      <Ridge
                        counts={counts}
                        range={range}
                        shape={shape}
                        colorName={`kind-${data.calls.kind[call]}`}
                        theme={theme}
                        name={name}
                      />
                    </td>
                    <td class="numeric" title={exact(sums.calls.ops[call])} data-value={sums.calls.ops[call]}>
                      {exact(sums.calls.ops[call])}
                    </td>
                    {PERCENTILES.map(([p, label]) => {
                      const value = percentile(counts, p);
                      return (
                        <td
                          class="numeric"
                          key={label}
                          title={`${exact(value)} ns`}
                          data-percentile={label}
                          data-value={value ?? ""}
                        >
                          {time(value)}
                        </td>
                      );
                    })}
                    <td
                      class="numeric"
                      title={`${exact(longest)} ns`}
                      data-percentile="max"
                      data-value={longest ?? ""}
                    >
                      {time(longest)}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        )}
        {calls.length > FEW && (
          <button type="button" class="button more no-print" onClick={() => setAll(!all)}>
            {all ? `The ${FEW} calls of most time` : `All ${calls.length} calls`}
          </button>
        )}
      </div>
    </Section>
  );
}

/** Whole decades that hold all histograms, as powers of ten. */
export function axisRange(histograms: Float64Array[]): [number, number] {
  let least = Number.POSITIVE_INFINITY;
  let most = 1;
  for (const counts of histograms) {
    const first = counts.findIndex((n) => n > 0);
    const last = counts.findLastIndex((n) => n > 0);
    if (first >= 0) {
      least = Math.min(least, Math.max(1, lowerBound(first)));
      most = Math.max(most, lowerBound(last + 1));
    }
  }
  const from = Number.isFinite(least) ? Math.floor(Math.log10(least)) : 0;
  return [from, Math.max(from + 1, Math.ceil(Math.log10(most)))];
}

const position = (ns: number, [from, to]: [number, number]): number =>
  (Math.log10(Math.max(ns, 1)) - from) / (to - from);

export function LogAxis({ range: [from, to] }: { range: [number, number] }) {
  const decades = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  // Labels of neighbouring decades would touch on a long axis.
  const every = decades.length > 8 ? 2 : 1;
  const last = decades.length - 1;
  return (
    <div class="log-axis" aria-hidden="true">
      {decades.map((decade, i) =>
        i === last || (i % every === 0 && last - i >= every) ? (
          <span
            key={decade}
            data-edge={i === 0 ? "first" : i === last ? "last" : ""}
            style={{ left: `${(100 * (decade - from)) / (to - from)}%` }}
          >
            {time(10 ** decade)
              .replace(".00", "")
              .replace(".0", "")}
          </span>
        ) : null,
      )}
    </div>
  );
}

interface RidgeProps {
  counts: Float64Array;
  range: [number, number];
  shape: Shape;
  colorName: string;
  theme: Theme;
  name: string;
  /** What is distributed, and what is counted. */
  of?: string;
  noun?: string;
}

export function Ridge({
  counts,
  range,
  shape,
  colorName,
  theme,
  name,
  of = "latency",
  noun = "Operations",
}: RidgeProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  const total = useMemo(() => counts.reduce((a, b) => a + b, 0), [counts]);
  // Drawn bins are 3 pixels wide: finer than the eye needs, coarser than most buckets.
  const bins = useMemo(() => {
    const sums = new Float64Array(Math.max(1, Math.ceil(width / 3)));
    for (let i = 0; i < counts.length; i++) {
      if (counts[i] > 0) {
        const x = position((lowerBound(i) + lowerBound(i + 1)) / 2, range);
        sums[Math.max(0, Math.min(sums.length - 1, Math.floor(x * sums.length)))] += counts[i];
      }
    }
    return sums;
  }, [counts, range[0], range[1], width]);

  useEffect(() => {
    if (!canvas.current || width === 0) {
      return;
    }
    const context = prepare(canvas.current, width, HEIGHT);
    const floor = HEIGHT - 2;
    context.strokeStyle = color("line");
    context.lineWidth = 1;
    for (let decade = range[0]; decade <= range[1]; decade++) {
      const x = Math.round(((decade - range[0]) / (range[1] - range[0])) * (width - 1)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, HEIGHT);
      context.stroke();
    }
    const fill = color(colorName);
    const step = width / bins.length;
    context.fillStyle = fill;
    if (shape === "histogram") {
      const most = Math.max(...bins);
      bins.forEach((n, i) => {
        if (n > 0) {
          const h = Math.max(1.5, (n / most) * (floor - 4));
          context.fillRect(i * step, floor - h, Math.max(1, step - 0.6), h);
        }
      });
    } else {
      context.beginPath();
      context.moveTo(0, floor);
      let sum = 0;
      bins.forEach((n, i) => {
        context.lineTo(i * step, floor - (sum / total) * (floor - 4));
        sum += n;
        context.lineTo(i * step, floor - (sum / total) * (floor - 4));
      });
      context.lineTo(width, floor - (sum / total) * (floor - 4));
      context.strokeStyle = fill;
      context.lineWidth = 1.75;
      context.stroke();
      context.lineTo(width, floor);
      context.closePath();
      context.globalAlpha = 0.15;
      context.fill();
      context.globalAlpha = 1;
    }
    context.fillStyle = color("text");
    for (const p of [0.5, 0.99]) {
      const at = percentile(counts, p);
      if (at !== null) {
        const x = position(at, range) * width;
        context.fillRect(Math.round(x), floor - 1, 1.5, 3);
        context.beginPath();
        context.moveTo(x - 3.5, HEIGHT);
        context.lineTo(x + 4.5, HEIGHT);
        context.lineTo(x + 0.5, HEIGHT - 5);
        context.fill();
      }
    }
  }, [width, bins, counts, total, range[0], range[1], shape, colorName, theme]);

  const move = (event: PointerEvent) => {
    const bounds = box.current?.getBoundingClientRect();
    if (!bounds) {
      return;
    }
    const bin = Math.floor(((event.clientX - bounds.left) / bounds.width) * bins.length);
    const edge = (i: number) => 10 ** (range[0] + (i / bins.length) * (range[1] - range[0]));
    const upTo = bins.slice(0, bin + 1).reduce((a, b) => a + b, 0);
    setTooltip({
      x: event.clientX,
      y: event.clientY,
      content: (
        <TooltipRows
          title={`${name}: ${time(edge(bin))} – ${time(edge(bin + 1))}`}
          rows={[
            [`${noun} here`, exact(bins[bin] ?? 0)],
            ["Share here", share(bins[bin] ?? 0, total)],
            ["This short or shorter", share(upTo, total)],
          ]}
        />
      ),
    });
  };
  return (
    <div class="ridge" ref={box} onPointerMove={move} onPointerLeave={() => setTooltip(null)}>
      <canvas ref={canvas} role="img" aria-label={`Distribution of the ${of} of ${name}`} />
      <Tooltip at={tooltip} />
    </div>
  );
}
