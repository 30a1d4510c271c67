// Where in a file, and when, it was read and written: time across, offset upwards.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, useWidth } from "../chart/canvas";
import { viridis } from "../chart/colormap";
import { bucketTitle, type TimeAxis } from "../chart/time-chart";
import { Tooltip, type TooltipAt, TooltipRows } from "../chart/tooltip";
import { bytes, count, exact, moment, plural } from "../format/units";
import { color, type Theme } from "../theme/theme";
import type { HeatFile } from "./data";
import { shortPath } from "./names";
import type { ViewProps } from "./page";
import { Choices, Section } from "./section";

const HEIGHT = 300;
const LEFT = 84;
const BOTTOM = 24;

export type Way = "both" | "read" | "write";
export type Unit = "ops" | "bytes";

type Props = ViewProps & { span: [number, number]; theme: Theme };

export function Heat({ data, axis, selection, span, theme, onBrush, onChoose }: Props) {
  const [picked, setPicked] = useState(0);
  const [way, setWay] = useState<Way>("both");
  const [unit, setUnit] = useState<Unit>("ops");
  const files = data.heat.files;
  const filtered = files.findIndex((heat) => heat.file === selection.file);
  const shown = filtered >= 0 ? filtered : Math.min(picked, files.length - 1);
  const pick = (i: number) => {
    setPicked(i);
    if (selection.file !== null) {
      onChoose("file", files[i].file);
    }
  };
  const others = selection.process !== null || selection.thread !== null || selection.call !== null;
  return (
    <Section
      id="heat"
      title="Offset over time"
      note={
        files.length === 0
          ? undefined
          : `Where in the file operations fell${others ? ", of all processes, threads and calls" : ""}.${
              data.heat.omitted > 0
                ? ` The ${files.length} files of most operations; ${exact(data.heat.omitted)} others are left out.`
                : ""
            }`
      }
      tools={
        files.length > 0 && (
          <>
            <label>
              <span class="hidden-label">File</span>
              <select value={shown} onChange={(event) => pick(Number(event.currentTarget.value))}>
                {files.map((heat, i) => (
                  <option value={i} key={heat.file}>
                    {shortPath(data.files.path[heat.file], 60)}
                  </option>
                ))}
              </select>
            </label>
            <HeatChoices way={way} unit={unit} onWay={setWay} onUnit={setUnit} />
          </>
        )
      }
    >
      <div class="panel">
        {files.length === 0 ? (
          <p class="table-empty">No read or write at a known offset in this trail.</p>
        ) : (
          <HeatMap
            heat={files[shown]}
            path={data.files.path[files[shown].file]}
            axis={axis}
            span={span}
            way={way}
            unit={unit}
            theme={theme}
            onBrush={onBrush}
          />
        )}
      </div>
    </Section>
  );
}

/** What the map counts. */
export function HeatChoices(props: {
  way: Way;
  unit: Unit;
  onWay: (way: Way) => void;
  onUnit: (unit: Unit) => void;
}) {
  return (
    <>
      <Choices<Way>
        label="Direction"
        value={props.way}
        onChange={props.onWay}
        options={[
          ["both", "Both"],
          ["read", "Reads"],
          ["write", "Writes"],
        ]}
      />
      <Choices<Unit>
        label="Colour shows"
        value={props.unit}
        onChange={props.onUnit}
        options={[
          ["ops", "Operations"],
          ["bytes", "Bytes"],
        ]}
      />
    </>
  );
}

interface MapProps {
  heat: Omit<HeatFile, "file"> & {
    /** Offset at which the map begins. */
    base?: number;
  };
  path: string;
  axis: TimeAxis;
  span: [number, number];
  way: Way;
  unit: Unit;
  theme: Theme;
  onBrush: (from: number, to: number) => void;
}

export function HeatMap({ heat, path, axis, span, way, unit, theme, onBrush }: MapProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const [from, to] = span;
  const base = heat.base ?? 0;

  const { values, rows, least, most, byCell } = useMemo(() => {
    const pick = (reads: number, writes: number) =>
      (way === "write" ? 0 : reads) + (way === "read" ? 0 : writes);
    const values = heat.bucket.map((_, i) =>
      unit === "ops" ? pick(heat.reads[i], heat.writes[i]) : pick(heat.readBytes[i], heat.writeBytes[i]),
    );
    const byCell = new Map<number, number>();
    let rows = 1;
    let least = Number.POSITIVE_INFINITY;
    let most = 0;
    for (let i = 0; i < values.length; i++) {
      rows = Math.max(rows, heat.pos[i] + 1);
      byCell.set(heat.bucket[i] * 65536 + heat.pos[i], i);
      if (heat.bucket[i] >= from && heat.bucket[i] < to && values[i] > 0) {
        least = Math.min(least, values[i]);
        most = Math.max(most, values[i]);
      }
    }
    return { values, rows, least: Math.min(least, most), most, byCell };
  }, [heat, way, unit, from, to]);

  const plot = { width: Math.max(1, width - LEFT - 10), height: HEIGHT - BOTTOM - 8, top: 8 };
  const stepX = plot.width / (to - from);
  const stepY = plot.height / rows;

  useEffect(() => {
    if (!canvas.current || width === 0) {
      return;
    }
    const context = prepare(canvas.current, width, HEIGHT);
    context.fillStyle = color("sunken");
    context.fillRect(LEFT, plot.top, plot.width, plot.height);
    const scale = Math.log(most / least);
    for (let i = 0; i < values.length; i++) {
      const bucket = heat.bucket[i];
      if (bucket >= from && bucket < to && values[i] > 0) {
        context.fillStyle = viridis(scale > 0 ? Math.log(values[i] / least) / scale : 1, theme === "light");
        const x = LEFT + (bucket - from) * stepX;
        const y = plot.top + plot.height - (heat.pos[i] + 1) * stepY;
        // A single write stays visible on a large file.
        context.fillRect(x, y, Math.max(stepX, 1.2), Math.max(stepY, 1.2));
      }
    }
    context.fillStyle = color("muted");
    context.font = "11px Inter Report, system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const size = rows * heat.width;
    const each = Math.max(1, 2 ** Math.ceil(Math.log2(size / 6)));
    for (let offset = Math.ceil(base / each) * each; offset <= base + size; offset += each) {
      const y = plot.top + plot.height - ((offset - base) / size) * plot.height;
      context.fillText(bytes(offset).replace(/\.0+ /, " "), LEFT - 8, Math.max(10, y));
    }
    const ticks = niceTicks(
      axis.origin + from * axis.bucket,
      axis.origin + to * axis.bucket,
      plot.width / 110,
    );
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const tick of ticks.at) {
      const x = LEFT + ((tick - axis.origin) / axis.bucket - from) * stepX;
      if (x < LEFT + plot.width - 10) {
        context.fillText(moment(tick, ticks.step), Math.max(LEFT + 12, x), HEIGHT - BOTTOM + 8);
      }
    }
  }, [width, values, least, most, heat, from, to, theme, axis, rows, stepX, stepY]);

  const bucketAt = (event: PointerEvent): number => {
    const bounds = canvas.current?.getBoundingClientRect();
    return bounds ? from + (event.clientX - bounds.left - LEFT) / stepX : from;
  };
  const move = (event: PointerEvent) => {
    const bounds = canvas.current?.getBoundingClientRect();
    if (!bounds) {
      return;
    }
    if (drag) {
      setDrag([drag[0], bucketAt(event)]);
    }
    const bucket = Math.floor(bucketAt(event));
    const pos = Math.floor((plot.top + plot.height - (event.clientY - bounds.top)) / stepY);
    if (bucket < from || bucket >= to || pos < 0 || pos >= rows) {
      setTooltip(null);
      return;
    }
    const i = byCell.get(bucket * 65536 + pos);
    setTooltip({
      x: event.clientX,
      y: event.clientY,
      content: (
        <TooltipRows
          title={`${bucketTitle(axis, bucket, bucket + 1)}, offset ${bytes(base + pos * heat.width)} – ${bytes(base + (pos + 1) * heat.width)}`}
          rows={[
            ["Reads", i === undefined ? "0" : `${exact(heat.reads[i])} · ${bytes(heat.readBytes[i])}`],
            ["Writes", i === undefined ? "0" : `${exact(heat.writes[i])} · ${bytes(heat.writeBytes[i])}`],
          ]}
        />
      ),
    });
  };
  const release = () => {
    if (drag && Math.abs(drag[1] - drag[0]) * stepX > 3) {
      const [a, b] = [Math.min(...drag), Math.max(...drag)];
      onBrush(Math.max(from, Math.floor(a)), Math.min(to, Math.ceil(b)));
    }
    setDrag(null);
  };
  const show = unit === "ops" ? count : bytes;
  return (
    <div ref={box} class="heat">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Offset over time of ${path}: ${plural(values.length, "cell")}, at most ${show(most)} in one`}
        onPointerDown={(event) => {
          if (event.button === 0) {
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag([bucketAt(event), bucketAt(event)]);
          }
        }}
        onPointerMove={move}
        onPointerUp={release}
        onPointerLeave={() => setTooltip(null)}
      />
      {drag && (
        <div
          class="heat-brush"
          style={{
            left: `${LEFT + (Math.min(...drag) - from) * stepX}px`,
            width: `${Math.abs(drag[1] - drag[0]) * stepX}px`,
            top: `${plot.top}px`,
            height: `${plot.height}px`,
          }}
        />
      )}
      <div class="heat-legend">
        <code title={path}>{shortPath(path, 90)}</code>
        <span class="muted">
          cells of {bytes(heat.width)} by {moment(axis.bucket, axis.bucket)}; log scale
        </span>
        <span>{show(least)}</span>
        <i
          style={{
            background: `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => viridis(i / 8, theme === "light")).join(", ")})`,
          }}
        />
        <span>{show(most)}</span>
      </div>
      <Tooltip at={tooltip} />
    </div>
  );
}

/** Round moments between two times, at most `most` of them. */
export function niceTicks(start: number, stop: number, most: number): { at: number[]; step: number } {
  const least = (stop - start) / Math.max(1, most);
  const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= least) ?? decade * 10;
  const at: number[] = [];
  for (let tick = Math.ceil(Math.max(0, start) / step) * step; tick <= stop; tick += step) {
    at.push(tick);
  }
  return { at, step };
}
