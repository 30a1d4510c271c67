// Files, processes, threads and calls of what is selected. A row filters the page to it.

import { useMemo, useState } from "preact/hooks";
import { bytes, exact, plural, share, time } from "../format/units";
import { Table, type TableColumn } from "../table/table";
import type { Sums, Tally } from "./cube";
import { shortPath, threadName } from "./names";
import type { ViewProps } from "./page";
import { Choices, Section } from "./section";
import type { Dimension } from "./selection";

type Props = ViewProps & { sums: Sums };

const MEASURES = "96px 92px 92px 92px 92px 92px 72px";

/** The columns every table ends with. */
function measures(tally: Tally): TableColumn[] {
  const whole = tally.dur.reduce((a, b) => a + b, 0);
  const widths = MEASURES.split(" ");
  const known = (row: number, value: number): number | null => (tally.timed[row] > 0 ? value : null);
  const inNs = (row: number, value: number): string =>
    tally.timed[row] > 0 ? `${exact(value)} ns` : "not known: no operation has a response time";
  return [
    {
      key: "dur",
      title: "I/O time",
      meaning: "Time of its operations, summed over threads",
      value: (row) => known(row, tally.dur[row]),
      show: (row) => time(known(row, tally.dur[row])),
      exact: (row) =>
        inNs(row, tally.dur[row]) + (tally.timed[row] > 0 ? `, ${share(tally.dur[row], whole)}` : ""),
      bar: "split-io",
      numeric: true,
      width: widths[0],
    },
    {
      key: "ops",
      title: "Operations",
      value: (row) => tally.ops[row],
      show: (row) => exact(tally.ops[row]),
      bar: "muted",
      numeric: true,
      width: widths[1],
    },
    {
      key: "read",
      title: "Read",
      value: (row) => tally.read[row],
      show: (row) => bytes(tally.read[row]),
      exact: (row) => `${exact(tally.read[row])} bytes`,
      bar: "kind-read",
      numeric: true,
      width: widths[2],
    },
    {
      key: "written",
      title: "Written",
      value: (row) => tally.written[row],
      show: (row) => bytes(tally.written[row]),
      exact: (row) => `${exact(tally.written[row])} bytes`,
      bar: "kind-write",
      numeric: true,
      width: widths[3],
    },
    {
      key: "mean",
      title: "Mean",
      meaning: "I/O time over operations",
      value: (row) => known(row, tally.dur[row] / tally.ops[row]),
      show: (row) => time(known(row, tally.dur[row] / tally.ops[row])),
      exact: (row) => inNs(row, Math.round(tally.dur[row] / tally.ops[row])),
      numeric: true,
      width: widths[4],
    },
    {
      key: "max",
      title: "Longest",
      value: (row) => known(row, tally.max[row]),
      show: (row) => time(known(row, tally.max[row])),
      exact: (row) => inNs(row, tally.max[row]),
      numeric: true,
      width: widths[5],
    },
    {
      key: "errors",
      title: "Errors",
      meaning: "Operations that failed",
      value: (row) => tally.errors[row],
      show: (row) => (tally.errors[row] === 0 ? "–" : exact(tally.errors[row])),
      numeric: true,
      width: widths[6],
    },
  ];
}

/** Rows with an operation in the selection. */
const present = (tally: Tally): number[] =>
  Array.from(tally.ops, (_, row) => row).filter((row) => tally.ops[row] > 0);

export function Tables({ data, selection, sums, onChoose }: Props) {
  const [tab, setTab] = useState<Dimension>("file");
  const { files, processes, threads, calls } = data;
  const folded = data.folded.files > 0 ? files.path.length - 1 : null;
  const table = useMemo(() => {
    switch (tab) {
      case "file":
        return {
          rows: present(sums.files),
          text: (row: number) => files.path[row],
          noun: "files",
          columns: [
            {
              key: "name",
              title: "Path",
              value: (row: number) => files.path[row],
              show: (row: number) => <code>{shortPath(files.path[row], 110)}</code>,
              exact: (row: number) =>
                row === folded
                  ? plural(data.folded.files, "file of little time", "files of little time")
                  : files.path[row],
              width: "minmax(180px, 1fr)",
            },
            ...measures(sums.files),
          ],
        };
      case "process":
        return {
          rows: present(sums.processes),
          text: (row: number) =>
            `${processes.name[row]} ${processes.pid[row]} ${processes.cmd[row] ?? ""} ${processes.role[row] ?? ""}`,
          noun: "processes",
          columns: [
            {
              key: "name",
              title: "Name",
              value: (row: number) => processes.name[row],
              width: "minmax(90px, 160px)",
            },
            {
              key: "pid",
              title: "Pid",
              value: (row: number) => processes.pid[row],
              numeric: true,
              width: "78px",
            },
            {
              key: "rank",
              title: "Rank",
              value: (row: number) => processes.rank[row],
              numeric: true,
              width: "62px",
            },
            {
              key: "cmd",
              title: "Command",
              value: (row: number) => processes.cmd[row],
              show: (row: number) => <code>{processes.cmd[row] ?? "–"}</code>,
              exact: (row: number) => processes.cmd[row] ?? "",
              width: "minmax(120px, 1fr)",
            },
            ...measures(sums.processes),
          ],
        };
      case "thread":
        return {
          rows: present(sums.threads),
          text: (row: number) => `${threadName(data, row)} ${processes.name[threads.process[row]]}`,
          noun: "threads",
          columns: [
            {
              key: "name",
              title: "Thread",
              value: (row: number) => threads.name[row] ?? processes.name[threads.process[row]],
              width: "minmax(110px, 1fr)",
            },
            {
              key: "tid",
              title: "Tid",
              value: (row: number) => threads.tid[row],
              numeric: true,
              width: "80px",
            },
            {
              key: "process",
              title: "Process",
              value: (row: number) =>
                `${processes.name[threads.process[row]]} (${processes.pid[threads.process[row]]})`,
              width: "minmax(110px, 1fr)",
            },
            ...measures(sums.threads),
          ],
        };
      case "call":
        return {
          rows: present(sums.calls),
          text: (row: number) => `${calls.name[row]} ${calls.kind[row]} ${calls.meaning[row]}`,
          noun: "calls",
          columns: [
            {
              key: "name",
              title: "Call",
              value: (row: number) => calls.name[row],
              show: (row: number) => <code>{calls.name[row]}</code>,
              width: "140px",
            },
            { key: "kind", title: "Kind", value: (row: number) => calls.kind[row], width: "70px" },
            {
              key: "meaning",
              title: "Meaning",
              value: (row: number) => calls.meaning[row],
              exact: (row: number) => calls.meaning[row],
              width: "minmax(120px, 1fr)",
            },
            ...measures(sums.calls),
          ],
        };
    }
  }, [tab, sums, data, files, processes, threads, calls, folded]);
  const count = (n: number, noun: string) => `${noun} ${exact(n)}`;
  return (
    <Section
      id="tables"
      title="Who and what"
      note="A row filters the page; again, and the filter is gone."
      tools={
        <Choices<Dimension>
          label="Table of"
          value={tab}
          onChange={setTab}
          options={[
            ["file", count(present(sums.files).length, "Files")],
            ["process", count(present(sums.processes).length, "Processes")],
            ["thread", count(present(sums.threads).length, "Threads")],
            ["call", count(present(sums.calls).length, "Calls")],
          ]}
        />
      }
    >
      <div class="panel">
        <Table
          key={tab}
          label={table.noun.replace(/^./, (c) => c.toUpperCase())}
          noun={table.noun}
          columns={table.columns}
          rows={table.rows}
          text={table.text}
          sortBy={data.timed ? "dur" : "ops"}
          chosen={selection[tab]}
          onChoose={(row) => onChoose(tab, row)}
        />
      </div>
    </Section>
  );
}
