// SQL: one SELECT over the trail, and the list of what can be asked. The server answers it in a sandbox.

import { useEffect, useState } from "preact/hooks";
import type { View } from "../app/address";
import { bytes, count, time } from "../format/units";
import { known, useAnswer } from "../requests/ask";
import "../requests/requests.css";

interface Entry {
  name: string;
  kind: "table" | "module";
  meaning: string;
  rows: number | null;
  columns: { name: string; type: string; unit: string; meaning: string }[];
}

type Cell = string | number | boolean | null;

interface Rows {
  columns: { name: string; type: string; unit: string }[];
  rows: Cell[][];
  more: boolean;
}

type Found = { kind: "none" | "waiting" } | { kind: "rows"; rows: Rows } | { kind: "refused"; said: string };

const EXAMPLE =
  "SELECT component, op, COUNT(*) AS n, AVG(dur) AS mean_ns FROM request GROUP BY ALL ORDER BY n DESC";

export function SqlView({ view, change }: { view: View; change: (part: Partial<View>) => void }) {
  const [text, setText] = useState(view.query || EXAMPLE);
  const [found, setFound] = useState<Found>({ kind: "none" });
  const [asked, setAsked] = useState<{ sql: string; at: number } | null>(
    view.query ? { sql: view.query, at: 0 } : null,
  );
  const [wanted, setWanted] = useState("");
  const entries = known(useAnswer<Entry[]>("api/modules")) ?? [];
  useEffect(() => {
    if (asked === null) {
      return;
    }
    const abort = new AbortController();
    setFound({ kind: "waiting" });
    fetch("api/sql", { method: "POST", body: asked.sql, signal: abort.signal })
      .then(async (reply) => {
        const answer = await reply.json();
        const said = [answer.error, answer.hint].filter(Boolean).join("\n");
        setFound(answer.error === undefined ? { kind: "rows", rows: answer } : { kind: "refused", said });
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) {
          setFound({ kind: "refused", said: `no answer from the server: ${error}` });
        }
      });
    return () => abort.abort();
  }, [asked]);
  const ask = () => {
    change({ query: text });
    setAsked({ sql: text, at: Date.now() });
  };
  const shown = entries.filter((entry) =>
    `${entry.name} ${entry.meaning}`.toLowerCase().includes(wanted.toLowerCase()),
  );
  return (
    <main class="sql">
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <textarea
          aria-label="SQL"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              ask();
            }
          }}
        />
        <button type="submit" class="button" title="Ctrl+Enter">
          Ask
        </button>
      </form>
      <div class="sql-body">
        <aside class="sql-list" aria-label="Tables and modules">
          <input
            type="search"
            placeholder="Tables and modules"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
          {shown.map((entry) => (
            <details key={entry.name}>
              <summary title={entry.meaning}>
                {entry.name} {entry.rows ? <span class="note">{count(entry.rows)}</span> : null}
              </summary>
              <p class="note">{entry.meaning}</p>
              <dl>
                {entry.columns.map((column) => (
                  <div key={column.name}>
                    <dt>
                      {column.name} <span class="note">{column.unit}</span>
                    </dt>
                    <dd>{column.meaning}</dd>
                  </div>
                ))}
              </dl>
            </details>
          ))}
        </aside>
        <div class="sql-answer" aria-live="polite">
          {found.kind === "waiting" && <p class="note">asking …</p>}
          {found.kind === "refused" && (
            <div class="failure-line mono" role="alert">
              {found.said.split("\n").map((line, at) => (
                <div key={at}>{line}</div>
              ))}
            </div>
          )}
          {found.kind === "rows" && <Answer found={found.rows} />}
        </div>
      </div>
    </main>
  );
}

function Answer({ found }: { found: Rows }) {
  return (
    <>
      <table class="plain">
        <thead>
          <tr>
            {found.columns.map((column, at) => (
              <th key={at} class={isNumber(column.type) ? "number" : undefined} title={column.type}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {found.rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, at) => (
                <td
                  key={at}
                  class={isNumber(found.columns[at].type) ? "number" : undefined}
                  title={cell === null ? "null" : String(cell)}
                >
                  {show(cell, found.columns[at])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">
        {count(found.rows.length)} rows{found.more ? ", and more: the first are shown" : ""}
      </p>
    </>
  );
}

const isNumber = (type: string): boolean => /INT|DOUBLE|FLOAT|DECIMAL/.test(type);

/** A cell as people read it; its tooltip has it exactly. */
function show(cell: Cell, column: Rows["columns"][number]): string {
  if (cell === null) {
    return "–";
  }
  if (typeof cell === "number" && column.unit === "ns" && !/(^|_)ts$/.test(column.name)) {
    return time(cell);
  }
  if (typeof cell === "number" && column.unit === "bytes") {
    return bytes(cell);
  }
  return typeof cell === "number" && !Number.isInteger(cell)
    ? String(Number(cell.toPrecision(6)))
    : String(cell);
}
