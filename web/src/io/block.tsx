// What storage people look for in a block trace: sizes of requests, where and when, sequential streams, times between
// requests, the working set and what a cache would serve; of all devices or one, in the span that is selected.

import { useMemo, useState } from "preact/hooks";
import { CurveChart } from "../chart/curve-chart";
import { percentile } from "../chart/histogram";
import { Legend, type TimeAxis, TimeChart } from "../chart/time-chart";
import { bytes, exact, plural, share, time } from "../format/units";
import type { Theme } from "../theme/theme";
import { type BlockKind, type BlockSums, KINDS, sumBlock } from "./block-sums";
import type { Block, BlockCurve } from "./data";
import { HeatChoices, HeatMap, type Unit, type Way } from "./heat";
import { axisRange, LogAxis, PERCENTILES, Ridge } from "./latency";
import { shortPath } from "./names";
import type { ViewProps } from "./page";
import { Section } from "./section";

const NAMES: Record<BlockKind, string> = { all: "Both", read: "Reads", write: "Writes" };
const COLORS: Record<BlockKind, string> = { all: "split-io", read: "kind-read", write: "kind-write" };
/** Times as coarse as this are worth a word: shorter gaps can't be told. */
const COARSE = 1e6;

type Props = ViewProps & { block: Block; span: [number, number]; theme: Theme };

export function BlockView({ block, axis, selection, span, theme, onBrush, onChoose }: Props) {
  const [picked, setPicked] = useState<number | null>(null);
  const { devices } = block;
  const several = devices.name.length > 1;
  // the page's filter on a file chooses the device that it stands for
  const filtered = selection.file === null ? -1 : devices.file.indexOf(selection.file);
  const device = !several ? null : filtered >= 0 ? filtered : picked;
  const pick = (row: number | null) => {
    setPicked(row);
    if (selection.file !== null) {
      onChoose("file", row === null ? null : devices.file[row]);
    }
  };
  const [from, to] = span;
  const sums = useMemo(
    () => sumBlock(block, device, from, to, axis.buckets),
    [block, device, from, to, axis.buckets],
  );
  const kinds = KINDS.filter((kind) => kind !== "all" && sums.requests[kind].n > 0);
  const rows: BlockKind[] = kinds.length > 1 ? ["all", ...kinds] : kinds;
  const chosen = device === null ? devices.name.map((_, i) => i) : [device];
  const ticks = chosen.map((i) => devices.tick[i]);
  const unplaced = chosen.reduce((n, i) => n + devices.unplaced[i], 0);
  const others = chosen.reduce((n, i) => n + devices.others[i], 0);
  const name = (i: number) =>
    new Set(devices.node).size > 1 && devices.node[i]
      ? `${devices.node[i]}: ${devices.name[i]}`
      : devices.name[i];
  const notes = [
    "Reads and writes of devices, counted when they were issued.",
    (selection.process !== null || selection.thread !== null || selection.call !== null) &&
      "Of all processes, threads and calls.",
    selection.file !== null && filtered < 0 && "The file that is filtered has no numbers of its own here.",
    others > 0 &&
      `${plural(others, "request of another kind (flush, discard …) is", "requests of other kinds (flushes, discards …) are")} left out.`,
    unplaced > 0 &&
      `${plural(unplaced, "request has", "requests have")} no known offset, or no length, or 4 GiB and more: in sizes and times only.`,
  ];
  return (
    <Section
      id="block"
      title="Block view"
      note={notes.filter(Boolean).join(" ")}
      tools={
        several && (
          <label>
            <span class="hidden-label">Device</span>
            <select
              value={device ?? -1}
              onChange={(event) => {
                const row = Number(event.currentTarget.value);
                pick(row < 0 ? null : row);
              }}
            >
              <option value={-1}>All devices</option>
              {devices.name.map((_, i) => (
                <option value={i} key={i}>
                  {shortPath(name(i), 60)}
                </option>
              ))}
            </select>
          </label>
        )
      }
    >
      <div class="block-pair">
        <Sizes sums={sums} kinds={kinds} />
        <Sequential sums={sums} rows={rows} streams={block.streams !== null} look={block.look} />
      </div>
      <Offsets
        block={block}
        device={device}
        name={name}
        axis={axis}
        span={span}
        theme={theme}
        onBrush={onBrush}
      />
      <Gaps sums={sums} rows={rows} ticks={ticks} theme={theme} />
      <Working
        block={block}
        sums={sums}
        rows={rows}
        axis={axis}
        span={span}
        theme={theme}
        onBrush={onBrush}
      />
      <Misses block={block} device={device} several={several} whole={selection.span === null} theme={theme} />
    </Section>
  );
}

/** A cell with its number for the exact reader: title, and a value that tests read. */
function Cell({ id, value, text, title }: { id: string; value: number; text: string; title?: string }) {
  return (
    <td class="numeric" data-block={id} data-value={value} title={title ?? exact(value)}>
      {text}
    </td>
  );
}

function Sizes({ sums, kinds }: { sums: BlockSums; kinds: BlockKind[] }) {
  const ways = kinds.filter((kind): kind is "read" | "write" => kind !== "all");
  const most = Math.max(1, ...sums.sizes.flatMap((row) => ways.map((way) => row[way].n)));
  return (
    <div class="panel">
      <h3>
        Request sizes <span class="muted">by powers of two</span>
      </h3>
      {sums.sizes.length === 0 ? (
        <p class="table-empty">No read or write here.</p>
      ) : (
        <div class="table-scroll">
          <table class="plain block-table">
            <thead>
              <tr>
                <th scope="col">Size</th>
                {ways.map((way) => (
                  <th scope="col" colSpan={2} key={way}>
                    <i class="swatch" style={{ background: `var(--${COLORS[way]})` }} />
                    {NAMES[way]}, share of them and of their bytes
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {sums.sizes.map((row) => (
                <tr key={row.size}>
                  <th scope="row">{row.size === 0 ? "no length" : bytes(row.size)}</th>
                  {ways.map((way) => (
                    <>
                      <td
                        key={`${way} n`}
                        class="block-bar"
                        data-block={`size-${row.size}-${way}`}
                        data-value={row[way].n}
                        title={`${exact(row[way].n)} ${NAMES[way].toLowerCase()}`}
                      >
                        <i
                          style={{
                            width: `${(100 * row[way].n) / most}%`,
                            background: `var(--${COLORS[way]})`,
                          }}
                        />
                        <span>{share(row[way].n, sums.requests[way].n)}</span>
                      </td>
                      <td key={`${way} bytes`} class="numeric muted" title={`${exact(row[way].bytes)} bytes`}>
                        {share(row[way].bytes, sums.requests[way].bytes)}
                      </td>
                    </>
                  ))}
                </tr>
              ))}
              <tr>
                <th scope="row">All</th>
                {ways.map((way) => (
                  <>
                    <td
                      key={`${way} n`}
                      data-block={`requests-${way}`}
                      data-value={sums.requests[way].n}
                      title={`mean ${bytes(sums.requests[way].bytes / sums.requests[way].n)}`}
                    >
                      {exact(sums.requests[way].n)}
                    </td>
                    <td
                      key={`${way} bytes`}
                      class="numeric"
                      data-block={`bytes-${way}`}
                      data-value={sums.requests[way].bytes}
                      title={`${exact(sums.requests[way].bytes)} bytes`}
                    >
                      {bytes(sums.requests[way].bytes)}
                    </td>
                  </>
                ))}
              </tr>
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

interface SequentialProps {
  sums: BlockSums;
  rows: BlockKind[];
  /** Whether the lengths of streams are known. */
  streams: boolean;
  look: number;
}

function Sequential({ sums, rows, streams, look }: SequentialProps) {
  const both = sums.streams?.[rows[0] ?? "all"].byOctave ?? [];
  const octaves = Array.from(both.keys()).filter((octave) => both[octave] > 0);
  const most = Math.max(1, ...octaves.map((octave) => both[octave]));
  return (
    <div class="panel">
      <h3>
        Sequential streams{" "}
        <span class="muted">requests that go on where one of the {look} of their kind before ended</span>
      </h3>
      {!streams && (
        <p class="muted">
          There are too many requests to follow streams through: their lengths are not known.
        </p>
      )}
      <div class="table-scroll">
        <table class="plain block-table">
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col" class="numeric" title="Requests that go on where one before them ended">
                Sequential
              </th>
              {streams && (
                <>
                  <th
                    scope="col"
                    class="numeric"
                    title="Two or more such requests, the first with them; those that begin here"
                  >
                    Streams
                  </th>
                  <th scope="col" class="numeric" title="Share of requests that are in streams">
                    Requests in
                  </th>
                  <th scope="col" class="numeric" title="Share of bytes that are in streams">
                    Bytes in
                  </th>
                  <th scope="col" class="numeric" title="Requests, and bytes, of a stream">
                    Mean length
                  </th>
                  <th scope="col" class="numeric" title="Requests of the longest stream">
                    Longest
                  </th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((kind) => {
              const linked = sums.sequential[kind];
              const stream = sums.streams?.[kind];
              return (
                <tr key={kind}>
                  <th scope="row">{NAMES[kind]}</th>
                  <Cell id={`sequential-${kind}`} value={linked.n} text={share(linked.n, linked.placed)} />
                  {stream && (
                    <>
                      <Cell id={`streams-${kind}`} value={stream.streams} text={exact(stream.streams)} />
                      <Cell
                        id={`in-streams-${kind}`}
                        value={stream.n}
                        text={share(stream.n, linked.placed)}
                      />
                      <Cell
                        id={`bytes-in-streams-${kind}`}
                        value={stream.bytes}
                        text={share(stream.bytes, linked.placedBytes)}
                      />
                      <Cell
                        id={`stream-requests-${kind}`}
                        value={stream.requests}
                        text={
                          stream.streams === 0
                            ? "–"
                            : `${(stream.requests / stream.streams).toFixed(1)} · ${bytes(stream.whole / stream.streams)}`
                        }
                        title={`${exact(stream.requests)} requests of ${plural(stream.streams, "stream")}`}
                      />
                      <Cell id={`longest-${kind}`} value={stream.longest} text={exact(stream.longest)} />
                    </>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {octaves.length > 0 && (
        <>
          <h4>Streams by their requests</h4>
          <table class="plain block-table">
            <tbody>
              {octaves.map((octave) => (
                <tr key={octave}>
                  <th scope="row">
                    {exact(2 ** octave)} – {exact(2 ** (octave + 1) - 1)}
                  </th>
                  <td
                    class="block-bar"
                    data-block={`stream-octave-${octave}`}
                    data-value={both[octave]}
                    title={plural(both[octave], "stream")}
                  >
                    <i style={{ width: `${(100 * both[octave]) / most}%`, background: "var(--split-io)" }} />
                    <span>{exact(both[octave])}</span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}

interface OffsetsProps {
  block: Block;
  device: number | null;
  name: (device: number) => string;
  axis: TimeAxis;
  span: [number, number];
  theme: Theme;
  onBrush: (from: number, to: number) => void;
}

function Offsets({ block, device, name, axis, span, theme, onBrush }: OffsetsProps) {
  const [way, setWay] = useState<Way>("both");
  const [unit, setUnit] = useState<Unit>("ops");
  // without a device the one of most requests
  const heat = block.heat.find((map) => map.device === (device ?? block.heat[0]?.device));
  const others = device === null && block.devices.name.length > 1;
  return (
    <div class="panel">
      <div class="chart-head">
        <h3>
          Offset over time{" "}
          {heat && others && (
            <span class="muted">of {name(heat.device)}; choose a device to see another</span>
          )}
        </h3>
        <span class="section-tools">
          <HeatChoices way={way} unit={unit} onWay={setWay} onUnit={setUnit} />
        </span>
      </div>
      {heat ? (
        <HeatMap
          heat={heat}
          path={name(heat.device)}
          axis={axis}
          span={span}
          way={way}
          unit={unit}
          theme={theme}
          onBrush={onBrush}
        />
      ) : (
        <p class="table-empty">
          No map: no request of the device has a known offset, or the page has no room for it.
        </p>
      )}
    </div>
  );
}

interface GapsProps {
  sums: BlockSums;
  rows: BlockKind[];
  /** Of the devices that are shown. */
  ticks: (number | null)[];
  theme: Theme;
}

function Gaps({ sums, rows, ticks, theme }: GapsProps) {
  const range = useMemo(() => axisRange(KINDS.map((kind) => sums.gaps[kind])), [sums]);
  const coarse = Math.max(0, ...ticks.map((tick) => tick ?? 0));
  return (
    <div class="panel">
      <h3>
        Time between requests{" "}
        <span class="muted">
          from one request of a device to its next; of reads to the next read, of writes to the next write
        </span>
      </h3>
      {ticks.includes(null) && (
        <p class="muted">
          {ticks.every((tick) => tick === null) ? "Not known" : "In part not known"}: the trace has no times.
        </p>
      )}
      {coarse >= COARSE && (
        <p class="muted">
          The trace's times are multiples of {time(coarse)}: shorter gaps can't be told apart.
        </p>
      )}
      {!ticks.every((tick) => tick === null) && (
        <div class="table-scroll">
          <table class="latency">
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col" class="latency-axis">
                  <span class="hidden-label">Distribution</span>
                  <LogAxis range={range} />
                </th>
                <th scope="col" class="numeric">
                  Gaps
                </th>
                {PERCENTILES.map(([, label]) => (
                  <th scope="col" class="numeric" key={label}>
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((kind) => {
                const counts = sums.gaps[kind];
                const n = counts.reduce((a, b) => a + b, 0);
                return (
                  <tr key={kind}>
                    <th scope="row">{NAMES[kind]}</th>
                    <td>
                      <Ridge
                        counts={counts}
                        range={range}
                        shape="histogram"
                        colorName={COLORS[kind]}
                        theme={theme}
                        name={NAMES[kind].toLowerCase()}
                        of="time between requests"
                        noun="Gaps"
                      />
                    </td>
                    <Cell id={`gaps-${kind}`} value={n} text={exact(n)} />
                    {PERCENTILES.map(([p, label]) => {
                      const value = percentile(counts, p);
                      return (
                        <td
                          class="numeric"
                          key={label}
                          title={value === null ? "no two requests here" : `${exact(value)} ns`}
                          data-block={`gap-${label}-${kind}`}
                          data-value={value ?? ""}
                        >
                          {value === 0 && coarse > 1 ? `< ${time(coarse)}` : time(value)}
                        </td>
                      );
                    })}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

interface WorkingProps {
  block: Block;
  sums: BlockSums;
  rows: BlockKind[];
  axis: TimeAxis;
  span: [number, number];
  theme: Theme;
  onBrush: (from: number, to: number) => void;
}

function Working({ block, sums, rows, axis, span, theme, onBrush }: WorkingProps) {
  const { all, read, write } = sums.working;
  const { followed } = block.working;
  const parts: [string, string, number][] = [
    ["all", "Used", all.bytes],
    ["read-only", "Only read", all.bytes - write.bytes],
    ["write-only", "Only written", all.bytes - read.bytes],
    ["both", "Read and written", read.bytes + write.bytes - all.bytes],
  ];
  const charts = useMemo(() => {
    const lines = (of: "grown" | "each") =>
      rows.map((kind) => ({ name: NAMES[kind], color: COLORS[kind], values: sums.working[kind][of] }));
    return { grown: lines("grown"), each: lines("each") };
  }, [sums]);
  const common = { axis, span, theme, onBrush, format: bytes, binary: true };
  return (
    <div class="panel charts">
      <h3>
        Working set{" "}
        <span class="muted">
          different blocks of {bytes(block.page)} that requests touch;{" "}
          {followed === 1 ? "exact" : `estimated from one block in ${exact(followed)}`}
        </span>
      </h3>
      <dl class="block-figures">
        {parts.map(([id, title, value]) => (
          <div key={id} title={`${exact(value)} bytes`}>
            <dt>{title}</dt>
            <dd data-block={`working-${id}`} data-value={value}>
              {bytes(value)} {id !== "all" && <span class="muted">{share(value, all.bytes)}</span>}
            </dd>
          </div>
        ))}
      </dl>
      <div class="chart-head">
        <h4>From the start of what is selected until then</h4>
        <Legend entries={charts.grown} />
      </div>
      <TimeChart
        {...common}
        label="Different bytes used so far over time"
        series={charts.grown}
        height={150}
      />
      <div class="chart-head">
        <h4>In each time bucket of {time(axis.bucket)}</h4>
        <Legend entries={charts.each} />
      </div>
      <TimeChart
        {...common}
        label="Different bytes used in each time bucket"
        series={charts.each}
        height={130}
      />
    </div>
  );
}

interface MissesProps {
  block: Block;
  device: number | null;
  several: boolean;
  /** Whether the whole run is selected. */
  whole: boolean;
  theme: Theme;
}

function Misses({ block, device, several, whole, theme }: MissesProps) {
  const curve = block.curves.find((c) => c.device === (several ? device : null));
  const series = useMemo(() => (curve ? lines(curve) : []), [curve]);
  return (
    <div class="panel charts">
      <div class="chart-head">
        <h3>
          Miss ratio of an LRU cache by its size{" "}
          <span class="muted">{several && device === null ? "one cache for all devices" : ""}</span>
        </h3>
        <Legend entries={series} />
      </div>
      {curve ? (
        <>
          <p class="muted" data-block="curve-exactness" data-value={curve.rate}>
            {curve.rate === 1
              ? "Exact, from the reuse distance of every use of a block."
              : `Estimated from ${(100 * curve.rate).toFixed(curve.rate < 0.1 ? 2 : 0)} % of the blocks: off by at most ${(100 * curve.error).toFixed(1)} points (4 standard errors).`}{" "}
            {whole
              ? ""
              : "Of the whole trace: it doesn't follow the selection, for a cache holds what came before. "}
            {curve.all[curve.all.length - 1] === 1 &&
              "No block is used twice: a cache of any size misses all. "}
            Blocks of {bytes(block.page)}; reads and writes bring theirs into an empty cache. The last size
            misses first uses only.
          </p>
          <CurveChart
            label={`Miss ratio of an LRU cache over its size, from ${bytes(curve.size[0])} to ${bytes(curve.size[curve.size.length - 1])}`}
            size={curve.size}
            series={series}
            height={210}
            theme={theme}
          />
        </>
      ) : (
        <p class="table-empty">
          {block.curves.length === 0
            ? "Not computed: no request has a known offset, or together they use more than a billion blocks."
            : "Not computed for this choice: it is for all devices together and for each that has numbers of its own."}
        </p>
      )}
    </div>
  );
}

function lines(curve: BlockCurve) {
  const found = KINDS.flatMap((kind) => {
    const values = curve[kind];
    return values ? [{ name: NAMES[kind], color: COLORS[kind], values }] : [];
  });
  // with one kind only, both are the same
  return found.length > 2 ? found : found.slice(1);
}
