// Where each thread's time went: in I/O, waiting, on a CPU or for one, in page faults, idle, or not known. In total,
// over time, and per thread grouped by process. Only rows in sight exist, so that a thousand threads stay quick.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, useWidth } from "../chart/canvas";
import { bucketTitle, Legend, type TimeAxis, TimeChart } from "../chart/time-chart";
import { Tooltip, type TooltipAt, TooltipRows } from "../chart/tooltip";
import { exact, plain, plural, share, time } from "../format/units";
import { color, type Theme } from "../theme/theme";
import type { SplitTime, Sums } from "./cube";
import { type IoData, STATES, type State } from "./data";
import { processName, threadName } from "./names";
import type { ViewProps } from "./page";
import { Choices, Section } from "./section";

const NAMES: Record<State, string> = {
  io: "I/O",
  sync: "Waiting",
  compute: "On a CPU",
  queued: "Waiting for a CPU",
  fault: "Page faults",
  idle: "Idle",
  unknown: "Not known",
};
const ALL_PARTS = STATES.map((key) => ({ key, name: NAMES[key], color: `split-${key}` }));
/** States that have a column of the table; the others are in the bars. */
const COLUMNS = ALL_PARTS.filter(({ key }) => ["io", "sync", "compute", "unknown"].includes(key));
const OF_CPU: readonly State[] = ["compute", "queued", "fault"];
const OF_WAITS: readonly State[] = ["sync", "idle"];

/** Whether a state was recorded: without, it is unknown and not 0. */
const known = (data: IoData, state: State): boolean =>
  (data.split.cpu || !OF_CPU.includes(state)) && (data.split.waited || !OF_WAITS.includes(state));

type Parts = Record<State, number>;
type Order = "total" | State;

const noParts = (): Parts => Object.fromEntries(STATES.map((state) => [state, 0])) as Parts;

const ROW = 26;
const VISIBLE_ROWS = 16;
/** Above this many threads only processes are open at first. */
const OPEN_BELOW = 40;

const total = (parts: Parts): number => STATES.reduce((sum, state) => sum + parts[state], 0);

interface Lane {
  process: number;
  /** null: the row of the process itself, summing its threads. */
  thread: number | null;
  parts: Parts;
}

/** What each bucket of each thread holds: index into `split` of (thread, bucket), to draw strips without a search. */
function byThread(data: IoData): Map<number, { bucket: number; at: number }[]> {
  const found = new Map<number, { bucket: number; at: number }[]>();
  const { split } = data;
  for (let bucket = 0; bucket < data.run.buckets; bucket++) {
    for (let at = split.first[bucket]; at < split.first[bucket + 1]; at++) {
      const list = found.get(split.thread[at]);
      if (list) {
        list.push({ bucket, at });
      } else {
        found.set(split.thread[at], [{ bucket, at }]);
      }
    }
  }
  return found;
}

type Props = ViewProps & { sums: Sums; span: [number, number]; theme: Theme };

export function TimeSplit({ data, axis, selection, sums, span, theme, onBrush, onChoose }: Props) {
  const [order, setOrder] = useState<Order>("total");
  const [toggled, setToggled] = useState<ReadonlySet<number>>(new Set());
  const [top, setTop] = useState(0);
  const index = useMemo(() => byThread(data), [data]);
  const openByDefault = data.threads.id.length <= OPEN_BELOW;

  const { lanes, whole, members } = useMemo(() => {
    const partsOf = (thread: number): Parts =>
      Object.fromEntries(STATES.map((state) => [state, sums.threadTime[state][thread]])) as Parts;
    const groups = new Map<number, Lane[]>();
    for (let thread = 0; thread < data.threads.id.length; thread++) {
      const process = data.threads.process[thread];
      const parts = partsOf(thread);
      const wanted =
        (selection.process === null || selection.process === process) &&
        (selection.thread === null || selection.thread === thread);
      if (wanted && total(parts) > 0) {
        groups.set(process, [...(groups.get(process) ?? []), { process, thread, parts }]);
      }
    }
    const size = (lane: Lane) => (order === "total" ? total(lane.parts) : lane.parts[order]);
    const heads = [...groups].map(([process, threads]): [Lane, Lane[]] => {
      const parts = noParts();
      for (const lane of threads) {
        for (const state of STATES) {
          parts[state] += lane.parts[state];
        }
      }
      return [{ process, thread: null, parts }, threads.sort((a, b) => size(b) - size(a))];
    });
    heads.sort(([a], [b]) => size(b) - size(a));
    const whole = noParts();
    const lanes: Lane[] = [];
    for (const [head, threads] of heads) {
      for (const state of STATES) {
        whole[state] += head.parts[state];
      }
      lanes.push(head);
      if (threads.length > 1 && openByDefault !== toggled.has(head.process)) {
        lanes.push(...threads);
      }
    }
    const members = new Map(
      heads.map(([head, threads]) => [head.process, threads.map((t) => t.thread ?? -1)]),
    );
    return { lanes, whole, members };
  }, [data, sums, selection.process, selection.thread, order, toggled, openByDefault]);

  // What never happened takes no place.
  const parts = useMemo(
    () =>
      ALL_PARTS.filter(
        ({ key }) => COLUMNS.some((c) => c.key === key) || data.split[key].some((ns) => ns > 0),
      ).filter(({ key }) => known(data, key)),
    [data],
  );
  const chart = useMemo(
    () =>
      parts.map((part) => ({
        name: part.name,
        color: part.color,
        // ns of all threads in a bucket over its width: how many threads were in this state on average.
        values: sums.bucketTime[part.key].map((ns) => ns / axis.bucket),
      })),
    [sums, axis, parts],
  );

  const first = Math.max(0, Math.floor(top / ROW) - 3);
  const inSight = lanes.slice(first, first + VISIBLE_ROWS + 8);
  const threadCount = [...members.values()].reduce((n, list) => n + list.length, 0);
  return (
    <Section
      id="split"
      title="Where the time went"
      note={`${time(total(whole))} of ${plural(threadCount, "thread")} in ${plural(members.size, "process", "processes")}`}
      tools={
        <Choices<Order>
          label="Order threads by"
          value={order}
          onChange={setOrder}
          options={[
            ["total", "Total"],
            ["io", "I/O"],
            ["sync", "Waiting"],
            ["compute", "On a CPU"],
          ]}
        />
      }
    >
      <div class="panel">
        <div class="split-total">
          <Bar parts={whole} tall />
          <Legend
            entries={parts.map((part) => ({
              name: part.name,
              color: part.color,
              value: `${share(whole[part.key], total(whole))} · ${time(whole[part.key])}`,
            }))}
          />
        </div>
        <div class="chart-head">
          <h3>
            Threads by state <span class="muted">average number in each bucket</span>
          </h3>
        </div>
        <TimeChart
          label="Threads by what they did over time"
          axis={axis}
          series={chart}
          span={span}
          format={plain}
          height={130}
          theme={theme}
          stacked
          onBrush={onBrush}
        />
        <div class="lanes-head" aria-hidden="true">
          <span>Process and threads</span>
          <span>Over time</span>
          <span>Share</span>
          {COLUMNS.map(({ key, name }) => (
            <span key={key} class="numeric">
              {name}
            </span>
          ))}
        </div>
        <div
          class="lanes"
          role="table"
          aria-label="Time of each process and thread"
          aria-rowcount={lanes.length}
          style={{ height: `${Math.min(VISIBLE_ROWS, Math.max(1, lanes.length)) * ROW}px` }}
          onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        >
          {lanes.length === 0 && <p class="table-empty">No thread was running here.</p>}
          <div style={{ height: `${lanes.length * ROW}px`, position: "relative" }} role="rowgroup">
            {inSight.map((lane, i) => {
              const threads = members.get(lane.process) ?? [];
              const isProcess = lane.thread === null;
              const name = isProcess ? processName(data, lane.process) : threadName(data, lane.thread ?? 0);
              const chosen = isProcess
                ? selection.process === lane.process
                : selection.thread === lane.thread;
              const open = openByDefault !== toggled.has(lane.process);
              return (
                <div
                  class="lane"
                  role="row"
                  tabIndex={-1}
                  key={isProcess ? `p${lane.process}` : `t${lane.thread}`}
                  aria-rowindex={first + i + 1}
                  data-process={isProcess}
                  style={{ top: `${(first + i) * ROW}px` }}
                >
                  <div role="cell" class="lane-name">
                    {isProcess && threads.length > 1 ? (
                      <button
                        type="button"
                        class="twist"
                        aria-expanded={open}
                        aria-label={`${open ? "Hide" : "Show"} the ${threads.length} threads of ${name}`}
                        onClick={() => {
                          const next = new Set(toggled);
                          if (!next.delete(lane.process)) {
                            next.add(lane.process);
                          }
                          setToggled(next);
                        }}
                      >
                        {open ? "▾" : "▸"}
                      </button>
                    ) : (
                      <span class="twist" />
                    )}
                    <button
                      type="button"
                      class="lane-choose"
                      aria-pressed={chosen}
                      title={isProcess ? (data.processes.cmd[lane.process] ?? name) : name}
                      onClick={() =>
                        isProcess
                          ? onChoose("process", chosen ? null : lane.process)
                          : onChoose("thread", chosen ? null : lane.thread)
                      }
                    >
                      {name}
                      {isProcess && threads.length > 1 && (
                        <span class="muted"> · {threads.length} threads</span>
                      )}
                    </button>
                  </div>
                  <div role="cell">
                    <Strip
                      data={data}
                      axis={axis}
                      threads={isProcess ? threads : [lane.thread ?? 0]}
                      index={index}
                      span={span}
                      theme={theme}
                    />
                  </div>
                  <div role="cell">
                    <Bar parts={lane.parts} />
                  </div>
                  {COLUMNS.map(({ key: part }) => (
                    <div
                      key={part}
                      role="cell"
                      class="numeric"
                      data-part={part}
                      data-value={known(data, part) ? lane.parts[part] : ""}
                      title={
                        known(data, part)
                          ? `${exact(lane.parts[part])} ns, ${share(lane.parts[part], total(lane.parts))}`
                          : "the trail doesn't say"
                      }
                    >
                      {known(data, part) ? time(lane.parts[part]) : "not known"}
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
        <Waited data={data} selection={selection} />
      </div>
    </Section>
  );
}

/** What was waited for: the waiting and idle parts, opened. */
function Waited({ data, selection }: Pick<Props, "data" | "selection">) {
  const { waits, threads } = data;
  const rows = waits.thread
    .map((thread, at) => ({ thread, at }))
    .filter(
      ({ thread }) =>
        (selection.process === null || threads.process[thread] === selection.process) &&
        (selection.thread === null || thread === selection.thread),
    );
  if (rows.length === 0) {
    return null;
  }
  return (
    <details class="waited">
      <summary>What was waited for, over the whole run</summary>
      <div class="table-scroll">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Thread</th>
              <th scope="col">Waited for</th>
              <th scope="col">Call</th>
              <th scope="col" class="numeric">
                Time
              </th>
              <th scope="col" class="numeric">
                Count
              </th>
              <th scope="col" class="numeric">
                Longest
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ thread, at }) => (
              <tr key={at}>
                <td>{threadName(data, thread)}</td>
                <td>{waits.what[at]}</td>
                <td class="whole">{waits.call[at]}</td>
                <td class="numeric" data-value={waits.time[at]}>
                  {time(waits.time[at])}
                </td>
                <td class="numeric">{exact(waits.count[at])}</td>
                <td class="numeric">{time(waits.max[at])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** A thread's parts as one bar. */
function Bar({ parts, tall }: { parts: Parts; tall?: boolean }) {
  const whole = total(parts) || 1;
  const shown = ALL_PARTS.filter((p) => parts[p.key] > 0);
  const text = shown.map((p) => `${p.name} ${share(parts[p.key], whole)} (${time(parts[p.key])})`).join(", ");
  return (
    <div class="split-bar" data-tall={tall ?? false} role="img" aria-label={text} title={text}>
      {shown.map((part) => (
        <i
          key={part.key}
          style={{ width: `${(100 * parts[part.key]) / whole}%`, background: `var(--${part.color})` }}
        />
      ))}
    </div>
  );
}

interface StripProps {
  data: IoData;
  axis: TimeAxis;
  threads: number[];
  index: Map<number, { bucket: number; at: number }[]>;
  span: [number, number];
  theme: Theme;
}

/** The parts over time: one column a bucket, as high as the share of the threads' lives. */
function Strip({ data, axis, threads, index, span, theme }: StripProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  const [from, to] = span;
  const columns = useMemo(() => {
    const sum = Object.fromEntries(STATES.map((state) => [state, new Float64Array(to - from)])) as SplitTime;
    for (const thread of threads) {
      for (const { bucket, at } of index.get(thread) ?? []) {
        if (bucket >= from && bucket < to) {
          for (const state of STATES) {
            sum[state][bucket - from] += data.split[state][at];
          }
        }
      }
    }
    return sum;
  }, [data, index, from, to, threads.join()]);

  useEffect(() => {
    if (!canvas.current || width === 0) {
      return;
    }
    const height = ROW - 8;
    const context = prepare(canvas.current, width, height);
    const step = width / (to - from);
    const most = axis.bucket * threads.length;
    for (let b = 0; b < to - from; b++) {
      let y = height;
      // I/O comes first, at the bottom: its outline is then readable by itself.
      for (const { key: part } of ALL_PARTS) {
        const h = (columns[part][b] / most) * height;
        if (h > 0) {
          context.fillStyle = color(`split-${part}`);
          context.fillRect(b * step, y - h, step + 0.3, h);
          y -= h;
        }
      }
    }
  }, [width, columns, theme, axis.bucket, threads.length, from, to]);

  const move = (event: PointerEvent) => {
    const bounds = box.current?.getBoundingClientRect();
    if (!bounds) {
      return;
    }
    const b = Math.floor(((event.clientX - bounds.left) / bounds.width) * (to - from));
    if (b < 0 || b >= to - from) {
      return;
    }
    setTooltip({
      x: event.clientX,
      y: event.clientY,
      content: (
        <TooltipRows
          title={bucketTitle(axis, from + b, from + b + 1)}
          rows={ALL_PARTS.filter((p) => columns[p.key][b] > 0).map((p) => [
            p.name,
            time(columns[p.key][b]),
            `var(--${p.color})`,
          ])}
        />
      ),
    });
  };
  return (
    <div class="strip" ref={box} onPointerMove={move} onPointerLeave={() => setTooltip(null)}>
      <canvas ref={canvas} />
      <Tooltip at={tooltip} />
    </div>
  );
}
