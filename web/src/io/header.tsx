// What was recorded: command, machine, when, and how much of it is selected.

import type { ComponentChildren } from "preact";
import { bytes, count, exact, plural, time } from "../format/units";
import { sumBlock } from "./block-sums";
import type { Sums } from "./cube";
import { type Block, hasOnlyRequests, type IoData } from "./data";
import { isWhole, type Selection, WHOLE } from "./selection";

function fact(data: IoData, name: string): string | null {
  return data.recording.find((row) => row.name === name)?.value ?? null;
}

/** ISO date and time in UTC, to the second. */
export function when(ns: string): string {
  const date = new Date(Number(BigInt(ns) / 1_000_000n));
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

interface Props {
  data: IoData;
  selection: Selection;
  /** Sums over the whole run. */
  whole: Sums;
  /** Sums over what is selected. */
  sums: Sums;
  children?: ComponentChildren;
}

interface Tile {
  name: string;
  value: string;
  title: string;
  /** Value of the whole run; null if all of it is selected. */
  whole: string | null;
}

/** Files and processes with an operation in the selection; `more` if folded files are among them. What is on no file is on none. */
function countUsed(data: IoData, selection: Selection, { files, processes }: Sums) {
  // Each table ignores its own filter (see cube.ts), which therefore applies here.
  const file = (row: number) => files.ops[row] > 0 && (selection.file ?? row) === row;
  const process = (row: number) => processes.ops[row] > 0 && (selection.process ?? row) === row;
  return {
    files: data.files.id.filter((id, row) => id !== null && file(row)).length,
    processes: data.processes.id.filter((_, row) => process(row)).length,
    more: data.folded.files > 0 && file(data.files.path.length - 1),
  };
}

function sumRequests(block: Block, from: number, to: number, buckets: number) {
  return sumBlock(block, null, from, to, buckets).requests;
}

function makeTiles(data: IoData, selection: Selection, whole: Sums, sums: Sums): Tile[] {
  const all = isWhole(selection);
  const allFiles = countUsed(data, WHOLE, whole).files + Math.max(0, data.folded.files - 1);
  const used = countUsed(data, selection, sums);
  const first = Math.max(0, data.run.origin + sums.from * data.run.bucket);
  const last = Math.min(data.run.duration, data.run.origin + sums.to * data.run.bucket);
  const duration = selection.span === null ? data.run.duration : Math.max(0, last - first);
  const tile = (
    name: string,
    show: (n: number) => string,
    now: number,
    total: number,
    title: string,
  ): Tile => ({
    name,
    value: show(now),
    title,
    whole: all ? null : show(total),
  });
  const runTime = tile("Run time", time, duration, data.run.duration, `${exact(duration)} ns`);
  if (data.block && hasOnlyRequests(data)) {
    const now = sumRequests(data.block, sums.from, sums.to, data.run.buckets);
    const total = sumRequests(data.block, 0, data.run.buckets, data.run.buckets);
    return [
      runTime,
      tile("Requests", count, now.all.n, total.all.n, `${exact(now.all.n)} reads and writes of devices`),
      tile("Read", bytes, now.read.bytes, total.read.bytes, `${exact(now.read.bytes)} bytes`),
      tile("Written", bytes, now.write.bytes, total.write.bytes, `${exact(now.write.bytes)} bytes`),
    ];
  }
  return [
    runTime,
    all
      ? {
          name: "Processes",
          value: exact(data.processes.id.length),
          title: plural(data.threads.id.length, "thread"),
          whole: null,
        }
      : tile(
          "Processes",
          exact,
          used.processes,
          data.processes.id.length,
          "processes with a file operation in the selection",
        ),
    tile(
      "Operations",
      count,
      sums.total.ops[0],
      whole.total.ops[0],
      `${exact(sums.total.ops[0])} file operations`,
    ),
    tile("Read", bytes, sums.total.read[0], whole.total.read[0], `${exact(sums.total.read[0])} bytes`),
    tile(
      "Written",
      bytes,
      sums.total.written[0],
      whole.total.written[0],
      `${exact(sums.total.written[0])} bytes`,
    ),
    {
      name: "Files",
      value: all ? exact(allFiles) : `${exact(used.files)}${used.more ? " or more" : ""}`,
      title: "files that an operation touched",
      whole: all ? null : exact(allFiles),
    },
  ];
}

export function Header({ data, selection, whole, sums, children }: Props) {
  const command = fact(data, "command") ?? data.processes.cmd.find((cmd) => cmd !== null) ?? null;
  const machine = fact(data, "host") ?? fact(data, "hostname") ?? data.processes.node[0] ?? null;
  const tiles = makeTiles(data, selection, whole, sums);
  return (
    <header class="page-header">
      {children}
      <h1 class="command mono" title={command ?? undefined}>
        {command ?? data.trail.name}
      </h1>
      <p class="muted">
        {[machine && `on ${machine}`, data.run.start !== "0" && `at ${when(data.run.start)}`]
          .filter(Boolean)
          .join(" ")}
      </p>
      <dl class={tiles.length < 6 ? "tiles few" : "tiles"}>
        {tiles.map((tile) => (
          <div key={tile.name} class="tile" title={tile.title}>
            <dt>{tile.name}</dt>
            <dd data-total={tile.name}>{tile.value}</dd>
            {/* without a selection too, so that the page below doesn't move when one is made */}
            <dd class="tile-whole">{tile.whole === null ? "\u00a0" : `of ${tile.whole}`}</dd>
          </div>
        ))}
      </dl>
    </header>
  );
}
