// What was recorded: command, machine, when, how long, how much.

import type { ComponentChildren } from "preact";
import { bytes, count, exact, plural, time } from "../format/units";
import type { Sums } from "./cube";
import type { IoData } from "./data";

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
  /** Sums over the whole run. */
  whole: Sums;
  children?: ComponentChildren;
}

export function Header({ data, whole, children }: Props) {
  const command = fact(data, "command") ?? data.processes.cmd.find((cmd) => cmd !== null) ?? null;
  const machine = fact(data, "host") ?? fact(data, "hostname") ?? data.processes.node[0] ?? null;
  const { total, files } = whole;
  const used = files.ops.filter((n) => n > 0).length + Math.max(0, data.folded.files - 1);
  const tiles: [string, string, string][] = [
    ["Run time", time(data.run.duration), `${exact(data.run.duration)} ns`],
    ["Processes", exact(data.processes.id.length), plural(data.threads.id.length, "thread")],
    ["Operations", count(total.ops[0]), `${exact(total.ops[0])} file operations`],
    ["Read", bytes(total.read[0]), `${exact(total.read[0])} bytes`],
    ["Written", bytes(total.written[0]), `${exact(total.written[0])} bytes`],
    ["Files", exact(used), "files that an operation touched"],
  ];
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
      <dl class="tiles">
        {tiles.map(([name, value, title]) => (
          <div key={name} class="tile" title={title}>
            <dt>{name}</dt>
            <dd data-total={name}>{value}</dd>
          </div>
        ))}
      </dl>
    </header>
  );
}
