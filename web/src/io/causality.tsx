// Who waits for whom: a lane for each thread or rank, the critical path through them, and an arrow from who gave a signal to who
// waited for it. Beneath, what the critical path consists of and who was waited for.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, useWidth } from "../chart/canvas";
import { bucketTitle, Legend, type TimeAxis } from "../chart/time-chart";
import { Tooltip, type TooltipAt, TooltipRows } from "../chart/tooltip";
import { exact, moment, plural, share, time } from "../format/units";
import { color, type Theme } from "../theme/theme";
import { type CausalSums, chooseArrows, SHADES, type Shade, shadesOf, sumCausality } from "./causality-sums";
import type { Causality, IoData, Work } from "./data";
import { niceTicks } from "./heat";
import { shortPath, threadName } from "./names";
import type { ViewProps } from "./page";
import { Section } from "./section";

const ROW = 30;
/** Of a row: where its strip begins, and how high it is. The critical path runs below. */
const STRIP = { top: 4, height: 19 };
const AXIS = 24;
/** Pixels that an arrow needs beside others to be told from them. */
const ARROW_EVERY = 16;
/** Rows of each table; what they leave out is added up in a last one. */
const TABLE_ROWS = 40;
/** Kinds of work in a tooltip. */
const TOOLTIP_ROWS = 7;

const WORDS: Partial<Record<Work, string>> = {
  compute: "on a CPU",
  queued: "waiting for a CPU",
  unexplained: "not known, between calls",
  other: "in other calls",
  map: "mappings",
  meta: "metadata",
  read: "reads",
  write: "writes",
  flush: "flushes",
};

/** A row of the chart: a lane, or those that are folded. */
interface Row {
  name: string;
  lanes: number[];
  threads: number;
  /** Row in `threads`; null several. */
  thread: number | null;
}

type Props = ViewProps & { causality: Causality; span: [number, number]; theme: Theme };

export function CausalityView({ data, causality, axis, selection, span, theme, onBrush, onChoose }: Props) {
  const [open, setOpen] = useState(false);
  const { lanes, others, waits } = causality;
  const [from, to] = span;
  const names = useMemo(() => laneNames(data, causality), [data, causality]);
  const foldable = lanes.folded.filter(Boolean).length;

  const { rows, rowOf, shown } = useMemo(() => {
    const rows: Row[] = [];
    const rest: Row = { name: "", lanes: [], threads: others, thread: null };
    for (const [lane, thread] of lanes.thread.entries()) {
      if (lanes.folded[lane] && !open) {
        rest.lanes.push(lane);
        rest.threads += 1;
      } else {
        rows.push({ name: names[lane], lanes: [lane], threads: 1, thread });
      }
    }
    if (others > 0) {
      rest.lanes.push(lanes.thread.length);
    }
    const shown = new Set(rows.flatMap((row) => row.lanes));
    if (rest.threads > 0) {
      rest.name = plural(rest.threads, "other thread");
      rows.push(rest);
    }
    const rowOf = new Int32Array(lanes.thread.length + 1);
    for (const [at, row] of rows.entries()) {
      for (const lane of row.lanes) {
        rowOf[lane] = at;
      }
    }
    return { rows, rowOf, shown };
  }, [lanes, others, names, open]);

  const sums = useMemo(() => sumCausality(causality, from, to, shown), [causality, from, to, shown]);
  const filtered = [selection.file, selection.call, selection.process, selection.thread].some(
    (row) => row !== null,
  );
  return (
    <Section
      id="causality"
      title="Who waits for whom"
      note={[
        `${plural(shown.size, "thread")} waited ${time(sums.waited_ns)}`,
        sums.waited_ns > 0
          ? `, ${share(sums.explained_ns, sums.waited_ns)} of it for something that is known.`
          : ".",
        sums.path_unexplained_ns > 0
          ? ` ${share(sums.path_unexplained_ns, sums.path_ns)} of the critical path is waiting that nothing recorded explains.`
          : "",
        filtered ? " Of all files, calls and threads." : "",
      ].join("")}
      tools={
        foldable > 0 && (
          <button type="button" class="button no-print" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Fold idle threads and launchers" : `Show ${plural(foldable, "other thread")}`}
          </button>
        )
      }
    >
      <div class="panel">
        <Legend entries={legendOf(causality)} />
        <div class="causal">
          <ul class="causal-names" aria-label="Lanes">
            {rows.map((row) => (
              <li key={row.name} style={{ height: `${ROW}px` }}>
                {row.thread === null ? (
                  <span class="muted">{row.name}</span>
                ) : (
                  <button
                    type="button"
                    class="lane-choose"
                    aria-pressed={selection.thread === row.thread}
                    title={threadName(data, row.thread)}
                    onClick={() => onChoose("thread", selection.thread === row.thread ? null : row.thread)}
                  >
                    {row.name}
                  </button>
                )}
              </li>
            ))}
          </ul>
          <Lanes
            data={data}
            causality={causality}
            names={names}
            rows={rows}
            rowOf={rowOf}
            axis={axis}
            span={span}
            theme={theme}
            waits={waits}
            onBrush={onBrush}
          />
        </div>
        <div class="causal-tables">
          <PathTable data={data} causality={causality} names={names} sums={sums} />
          <WaitedTable names={names} sums={sums} />
        </div>
      </div>
    </Section>
  );
}

/** Lanes by name: a rank's first thread is the rank. The last name is of the threads that share a lane. */
function laneNames(data: IoData, { lanes, others }: Causality): string[] {
  const seen = new Set<number>();
  const names = lanes.thread.map((thread, lane) => {
    const rank = lanes.rank[lane];
    if (rank === null) {
      return threadName(data, thread);
    }
    const again = seen.has(rank);
    seen.add(rank);
    return again ? `rank ${rank} · tid ${data.threads.tid[thread]}` : `rank ${rank}`;
  });
  return [...names, plural(others, "other thread")];
}

/** The shades that the trail has. */
function legendOf({ what }: Causality): { name: string; color: string }[] {
  const used = new Set(shadesOf(what));
  return [
    ...SHADES.filter(({ key }) => used.has(key)).map(({ name, color }) => ({ name, color })),
    { name: "Critical path", color: "critical" },
  ];
}

/** What a kind of work is called in a tooltip or a table; without its file. */
function describe({ what, calls }: Causality, names: string[], i: number): string {
  const call = what.call[i] === null ? null : calls[what.call[i]];
  const work = what.work[i];
  if (work === "wait") {
    const cause = what.cause[i];
    const whom = cause === null ? "" : `, for ${names[cause]}`;
    return `${what.state[i]}${call ? ` in ${call}` : ""}${whom}`;
  }
  if (work === "resume") {
    return `going on after the signal${call ? ` in ${call}` : ""}`;
  }
  return call ?? `${what.merged[i] && work in WORDS ? "other " : ""}${WORDS[work] ?? work}`;
}

interface LanesProps {
  data: IoData;
  causality: Causality;
  names: string[];
  rows: Row[];
  rowOf: ArrayLike<number>;
  axis: TimeAxis;
  span: [number, number];
  theme: Theme;
  waits: Causality["waits"];
  onBrush: (from: number, to: number) => void;
}

function Lanes({ data, causality, names, rows, rowOf, axis, span, theme, waits, onBrush }: LanesProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  /** The wait that is looked at; a place in `waits`. */
  const [marked, setMarked] = useState<number | null>(null);
  const [from, to] = span;
  const { cells, what, path } = causality;
  const start = axis.origin + from * axis.bucket;
  const stop = axis.origin + to * axis.bucket;
  const height = rows.length * ROW;
  const scale = width / (stop - start);
  const x = (ns: number) => Math.max(-2, Math.min(width + 2, (ns - start) * scale));
  const middle = (row: number) => row * ROW + STRIP.top + STRIP.height / 2;

  const strips = useMemo(() => {
    const shades = shadesOf(what);
    const strips = rows.map(
      () =>
        Object.fromEntries(SHADES.map(({ key }) => [key, new Float64Array(to - from)])) as Record<
          Shade,
          Float64Array
        >,
    );
    for (let bucket = from; bucket < to; bucket++) {
      for (let i = cells.first[bucket]; i < cells.first[bucket + 1]; i++) {
        strips[rowOf[cells.lane[i]]][shades[cells.what[i]]][bucket - from] += cells.ns[i];
      }
    }
    return strips;
  }, [causality, rows, rowOf, from, to]);

  const most = Math.max(8, Math.floor(width / ARROW_EVERY));
  const arrows = useMemo(
    () => chooseArrows(waits, from, to, (ns) => ns >= start && ns < stop, rowOf, most),
    [waits, from, to, start, stop, rowOf, most],
  );
  const inSight = marked !== null && arrows.drawn.includes(marked) ? marked : null;

  useEffect(() => {
    if (!canvas.current || width === 0) {
      return;
    }
    const context = prepare(canvas.current, width, height + AXIS);
    const step = width / (to - from);
    for (const [row, strip] of strips.entries()) {
      const floor = row * ROW + STRIP.top + STRIP.height;
      context.fillStyle = color("sunken");
      context.fillRect(0, row * ROW + STRIP.top, width, STRIP.height);
      for (let b = 0; b < to - from; b++) {
        let y = floor;
        for (const { key, color: name } of SHADES) {
          const h = (strip[key][b] / (axis.bucket * rows[row].threads)) * STRIP.height;
          if (h > 0) {
            context.fillStyle = color(name);
            context.fillRect(b * step, y - h, step + 0.3, h);
            y -= h;
          }
        }
      }
    }
    drawPath(context);
    for (const i of arrows.drawn) {
      drawArrow(context, i, i === inSight);
    }
    if (inSight !== null) {
      const y = rowOf[waits.lane[inSight]] * ROW + STRIP.top;
      context.strokeStyle = color("accent");
      context.lineWidth = 2;
      const left = x(waits.start[inSight]);
      context.strokeRect(left, y, Math.max(2, x(waits.signal[inSight]) - left), STRIP.height);
    }
    context.fillStyle = color("muted");
    context.font = "11px Inter Report, system-ui, sans-serif";
    context.textBaseline = "top";
    context.textAlign = "center";
    const ticks = niceTicks(start, stop, width / 110);
    for (const tick of ticks.at) {
      if (x(tick) < width - 24) {
        context.fillText(moment(tick, ticks.step), Math.max(24, x(tick)), height + 8);
      }
    }
  }, [width, height, strips, arrows, inSight, theme, axis, from, to]);

  function drawPath(context: CanvasRenderingContext2D): void {
    const inSpan = path.start
      .map((_, i) => i)
      .filter((i) => path.start[i] <= stop && path.start[i] + path.dur[i] >= start);
    const below = (i: number) => rowOf[path.lane[i]] * ROW + STRIP.top + STRIP.height + 1;
    context.fillStyle = color("critical");
    // where it jumps too often to be followed, the jumps step back
    context.globalAlpha = Math.max(0.08, Math.min(0.5, width / (8 * inSpan.length)));
    for (const [at, i] of inSpan.entries()) {
      // where stretches are left out of the page it isn't known which lane it came from
      const before = inSpan[at - 1];
      if (before !== undefined && path.start[before] + path.dur[before] === path.start[i]) {
        const top = Math.min(below(i), below(before));
        context.fillRect(x(path.start[i]) - 0.5, top, 1, Math.abs(below(i) - below(before)) + 4);
      }
    }
    context.globalAlpha = 1;
    for (const i of inSpan) {
      const left = x(path.start[i]);
      context.fillRect(left, below(i), Math.max(1, x(path.start[i] + path.dur[i]) - left), 4);
    }
  }

  function drawArrow(context: CanvasRenderingContext2D, i: number, bold: boolean): void {
    const [above, below] = [middle(rowOf[waits.cause[i]]), middle(rowOf[waits.lane[i]])];
    const at = x(waits.signal[i]);
    const way = Math.sign(below - above);
    context.strokeStyle = color(bold ? "accent" : "text");
    context.fillStyle = context.strokeStyle;
    context.lineWidth = bold ? 2 : 1;
    context.globalAlpha = bold ? 1 : 0.65;
    context.beginPath();
    context.moveTo(at, above);
    context.lineTo(at, below - way * 5);
    context.stroke();
    context.beginPath();
    context.arc(at, above, bold ? 3 : 2, 0, 2 * Math.PI);
    context.moveTo(at, below);
    context.lineTo(at - 3.5, below - way * 7);
    context.lineTo(at + 3.5, below - way * 7);
    context.fill();
    context.globalAlpha = 1;
  }

  const arrowAt = (px: number, py: number): number | null => {
    let best: number | null = null;
    let least = 5;
    for (const i of arrows.drawn) {
      const [above, below] = [middle(rowOf[waits.cause[i]]), middle(rowOf[waits.lane[i]])];
      const away = Math.abs(x(waits.signal[i]) - px);
      // of several from one signal, the one whose head is here
      const far = Math.abs(below - py) / ROW;
      if (py > Math.min(above, below) - 6 && py < Math.max(above, below) + 6 && away + far < least) {
        [best, least] = [i, away + far];
      }
    }
    return best;
  };

  const point = (event: PointerEvent) => {
    const bounds = canvas.current?.getBoundingClientRect();
    return bounds ? { px: event.clientX - bounds.left, py: event.clientY - bounds.top } : null;
  };
  const bucketAt = (event: PointerEvent) => from + ((point(event)?.px ?? 0) / width) * (to - from);

  const move = (event: PointerEvent) => {
    const at = point(event);
    if (!at) {
      return;
    }
    if (drag) {
      setDrag([drag[0], bucketAt(event)]);
    }
    const bucket = Math.floor(bucketAt(event));
    const row = Math.floor(at.py / ROW);
    if (bucket < from || bucket >= to || row < 0 || row >= rows.length) {
      setTooltip(null);
      return;
    }
    const arrow = arrowAt(at.px, at.py);
    const content = (
      <>
        {arrow !== null && (
          <TooltipRows
            title={`${names[waits.lane[arrow]]} waited for ${names[waits.cause[arrow]]}`}
            rows={waitRows(arrow)}
          />
        )}
        <TooltipRows
          title={`${rows[row].name}, ${bucketTitle(axis, bucket, bucket + 1)}`}
          rows={cellRows(bucket, row)}
        />
      </>
    );
    setTooltip({ x: event.clientX, y: event.clientY, content });
  };

  /** What happened in a bucket of a row, the longest first. */
  function cellRows(bucket: number, row: number): [string, string, string?][] {
    const shades = shadesOf(what);
    const found: { text: string; ns: number; shade: string }[] = [];
    let onPath = 0;
    for (let i = cells.first[bucket]; i < cells.first[bucket + 1]; i++) {
      if (rowOf[cells.lane[i]] === row) {
        const kind = cells.what[i];
        const file = what.file[kind];
        const text = `${describe(causality, names, kind)}${file === null ? "" : ` ${shortPath(data.files.path[file], 44)}`}`;
        const shade = SHADES.find(({ key }) => key === shades[kind])?.color ?? "muted";
        const same = found.find((one) => one.text === text);
        if (same) {
          same.ns += cells.ns[i];
        } else {
          found.push({ text, ns: cells.ns[i], shade });
        }
        onPath += cells.path[i];
      }
    }
    found.sort((a, b) => b.ns - a.ns);
    const shown = found.filter((one) => one.ns > 0);
    const left = shown.slice(TOOLTIP_ROWS).reduce((sum, one) => sum + one.ns, 0);
    return [
      ...shown
        .slice(0, TOOLTIP_ROWS)
        .map(({ text, ns, shade }): [string, string, string] => [text, time(ns), `var(--${shade})`]),
      ...(left > 0 ? [["the rest", time(left)] as [string, string]] : []),
      ...(onPath > 0
        ? [["on the critical path", time(onPath), "var(--critical)"] as [string, string, string]]
        : []),
    ];
  }

  function waitRows(i: number): [string, string][] {
    const call = waits.call[i];
    return [
      ["Wait state", waits.state[i]],
      ...(call === null ? [] : [["Call", causality.calls[call]] as [string, string]]),
      ["Waited", time(waits.signal[i] - waits.start[i])],
      ["Signal", moment(waits.signal[i], axis.bucket / 10)],
      ["Went on after it", time(waits.stop[i] - waits.signal[i])],
    ];
  }

  const release = () => {
    if (drag && Math.abs(drag[1] - drag[0]) * (width / (to - from)) > 3) {
      onBrush(Math.max(from, Math.floor(Math.min(...drag))), Math.min(to, Math.ceil(Math.max(...drag))));
    }
    setDrag(null);
  };

  const next = (by: 1 | -1) => {
    const { drawn } = arrows;
    const at = inSight === null ? (by > 0 ? -1 : drawn.length) : drawn.indexOf(inSight);
    setMarked(drawn[Math.max(0, Math.min(drawn.length - 1, at + by))] ?? null);
  };
  const zoom = () => {
    if (inSight !== null) {
      const bucket = (ns: number) => (ns - axis.origin) / axis.bucket;
      onBrush(Math.floor(bucket(waits.start[inSight])) - 1, Math.ceil(bucket(waits.stop[inSight])) + 1);
    }
  };
  const left = arrows.all - arrows.drawn.length;
  return (
    <div class="causal-chart" ref={box}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Lanes of ${plural(rows.length, "thread")} over time, with the critical path and ${plural(arrows.drawn.length, "arrow")}; the tables below have the numbers`}
        style={{ height: `${height + AXIS}px` }}
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
            left: `${((Math.min(...drag) - from) / (to - from)) * width}px`,
            width: `${(Math.abs(drag[1] - drag[0]) / (to - from)) * width}px`,
            top: 0,
            height: `${height}px`,
          }}
        />
      )}
      <div class="causal-waits">
        <span class="no-print">
          <button type="button" class="button" disabled={arrows.drawn.length === 0} onClick={() => next(-1)}>
            ◂ Wait
          </button>
          <button type="button" class="button" disabled={arrows.drawn.length === 0} onClick={() => next(1)}>
            Wait ▸
          </button>
          <button type="button" class="button" disabled={inSight === null} onClick={zoom}>
            Zoom to it
          </button>
        </span>
        <p role="status" data-drawn={arrows.drawn.length} data-all={arrows.all}>
          {inSight === null
            ? arrowsNote(arrows.drawn.length, left, arrows.held > arrows.drawn.length)
            : `${names[waits.lane[inSight]]} waited for ${names[waits.cause[inSight]]}: ${waitRows(inSight)
                .map(([name, value]) => `${name.toLowerCase()} ${value}`)
                .join(", ")}`}
        </p>
      </div>
      <Tooltip at={tooltip} />
    </div>
  );
}

/** `closer`: whether the page has more, for a shorter span. */
function arrowsNote(drawn: number, left: number, closer: boolean): string {
  if (drawn === 0 && left === 0) {
    return "No wait for a thread ended here.";
  }
  const said = `${plural(drawn, "wait has an arrow", "waits have an arrow")}, from who gave the signal to who waited`;
  return left === 0
    ? `${said}.`
    : `${said}: the longest between the rows above. ${exact(left)} ${left === 1 ? "is" : "are"} left out${closer ? "; look closer to see more" : ""}.`;
}

/** Rows that fit a table, and the sum of the others. */
function cut<T extends { ns: number }>(rows: T[]): { rows: T[]; more: number; ns: number } {
  const left = rows.slice(TABLE_ROWS);
  return {
    rows: rows.slice(0, TABLE_ROWS),
    more: left.length,
    ns: left.reduce((sum, row) => sum + row.ns, 0),
  };
}

interface PathProps {
  data: IoData;
  causality: Causality;
  names: string[];
  sums: CausalSums;
}

function PathTable({ data, causality, names, sums }: PathProps) {
  const table = cut(sums.path);
  return (
    <div>
      <h3>
        The critical path{" "}
        <span class="muted">{time(sums.path_ns)}; what its threads did while all waited for them</span>
      </h3>
      <div class="table-scroll">
        <table class="plain" data-causal="path">
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">What</th>
              <th scope="col">File</th>
              <th scope="col" class="numeric">
                Time
              </th>
              <th scope="col" class="numeric">
                Share
              </th>
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row) => {
              const file = causality.what.file[row.what];
              return (
                <tr key={`${row.lane} ${row.what}`}>
                  <td class="whole">{names[row.lane]}</td>
                  <td class="causal-what">{describe(causality, names, row.what)}</td>
                  <td class="whole">
                    {file !== null && (
                      <code title={data.files.path[file]}>{shortPath(data.files.path[file], 28)}</code>
                    )}
                  </td>
                  <td class="numeric" data-value={row.ns} title={`${exact(row.ns)} ns`}>
                    {time(row.ns)}
                  </td>
                  <td class="numeric">{share(row.ns, sums.path_ns)}</td>
                </tr>
              );
            })}
            {table.more > 0 && (
              <tr class="muted">
                <td colSpan={3}>{plural(table.more, "more row")}</td>
                <td class="numeric" data-value={table.ns}>
                  {time(table.ns)}
                </td>
                <td class="numeric">{share(table.ns, sums.path_ns)}</td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {table.rows.length === 0 && (
        <p class="table-empty">The critical path doesn’t lead through this time.</p>
      )}
    </div>
  );
}

function WaitedTable({ names, sums }: { names: string[]; sums: CausalSums }) {
  const table = cut(sums.waited);
  return (
    <div>
      <h3>
        Who was waited for <span class="muted">by the threads above, {time(sums.waited_ns)} in all</span>
      </h3>
      <div class="table-scroll">
        <table class="plain" data-causal="waited">
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">Wait state</th>
              <th scope="col">By</th>
              <th scope="col" class="numeric">
                Waited
              </th>
              <th scope="col" class="numeric">
                Share
              </th>
              <th scope="col" class="numeric">
                Waits
              </th>
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row) => (
              <tr key={`${row.cause} ${row.state}`}>
                <td class="whole">
                  {row.cause === null ? (
                    <span class="muted">{row.state === "timer" ? "–" : "not known"}</span>
                  ) : (
                    names[row.cause]
                  )}
                </td>
                <td>{row.state}</td>
                <td>{row.by.length === 1 ? names[row.by[0]] : plural(row.by.length, "thread")}</td>
                <td class="numeric" data-value={row.ns} title={`${exact(row.ns)} ns`}>
                  {time(row.ns)}
                </td>
                <td class="numeric">{share(row.ns, sums.waited_ns)}</td>
                <td class="numeric">{exact(row.n)}</td>
              </tr>
            ))}
            {table.more > 0 && (
              <tr class="muted">
                <td colSpan={3}>{plural(table.more, "more row")}</td>
                <td class="numeric" data-value={table.ns}>
                  {time(table.ns)}
                </td>
                <td class="numeric">{share(table.ns, sums.waited_ns)}</td>
                <td />
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {table.rows.length === 0 && <p class="table-empty">Nobody waited here.</p>}
    </div>
  );
}
