// A table that sorts and filters and stays quick with tens of thousands of rows: only rows in sight exist.
//
// Keyboard: the body takes focus; up and down, Page Up and Page Down, Home and End move the marked row,
// Enter or Space chooses it. Column headers are buttons.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import "./table.css";

export interface TableColumn {
  key: string;
  title: string;
  /** What the number is; shown as the header's tooltip. */
  meaning?: string;
  /** Sorts and, for numbers, is shown exactly in the cell's tooltip. Null sorts last. */
  value: (row: number) => number | string | null;
  /** What the cell shows; the value as text if absent. */
  show?: (row: number) => ComponentChildren;
  /** Exact text of the cell's tooltip. */
  exact?: (row: number) => string;
  /** Numbers stand right, and carry a bar of their share of the column's largest. */
  bar?: string;
  numeric?: boolean;
  width: string;
}

interface Props {
  label: string;
  columns: TableColumn[];
  /** Rows that exist, as indices the columns understand. */
  rows: number[];
  /** Text that the filter looks in. */
  text: (row: number) => string;
  sortBy: string;
  chosen: number | null;
  onChoose: (row: number | null) => void;
  noun: string;
}

const ROW = 30;
const VISIBLE = 14;

export function compare(a: number | string | null, b: number | string | null): number {
  if (a === null || b === null) {
    return a === b ? 0 : a === null ? 1 : -1;
  }
  if (typeof a === "number" && typeof b === "number") {
    return b - a;
  }
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

export function Table({ label, columns, rows, text, sortBy, chosen, onChoose, noun }: Props) {
  const [sort, setSort] = useState<{ key: string; reversed: boolean }>({ key: sortBy, reversed: false });
  const [filter, setFilter] = useState("");
  const [top, setTop] = useState(0);
  const [marked, setMarked] = useState(0);
  const body = useRef<HTMLDivElement>(null);

  const shown = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = words.length
      ? rows.filter((row) => {
          const haystack = text(row).toLowerCase();
          return words.every((word) => haystack.includes(word));
        })
      : [...rows];
    const column = columns.find((c) => c.key === sort.key) ?? columns[0];
    const way = sort.reversed ? -1 : 1;
    const values = new Map(kept.map((row) => [row, column.value(row)]));
    return kept.sort((a, b) => {
      const [x, y] = [values.get(a) ?? null, values.get(b) ?? null];
      // Rows without a value stay last whichever way the rest is sorted.
      return x === null || y === null ? compare(x, y) : way * compare(x, y) || a - b;
    });
  }, [rows, columns, filter, sort, text]);

  const most = useMemo(
    () =>
      new Map(
        columns
          .filter((c) => c.bar)
          .map((c) => [c.key, shown.reduce((m, row) => Math.max(m, Number(c.value(row) ?? 0)), 0)]),
      ),
    [columns, shown],
  );

  useEffect(() => {
    setMarked((m) => Math.min(m, Math.max(0, shown.length - 1)));
  }, [shown.length]);

  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const last = Math.min(shown.length, first + VISIBLE + 10);
  const choose = (row: number) => onChoose(row === chosen ? null : row);

  const move = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) {
      return; // a header's button
    }
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: VISIBLE - 1,
      PageUp: 1 - VISIBLE,
      Home: -shown.length,
      End: shown.length,
    };
    if (event.key in steps) {
      event.preventDefault();
      const to = Math.max(0, Math.min(shown.length - 1, marked + steps[event.key]));
      setMarked(to);
      const box = body.current;
      if (box) {
        const y = to * ROW;
        box.scrollTop = Math.min(y, Math.max(box.scrollTop, y + ROW - box.clientHeight));
      }
    } else if ((event.key === "Enter" || event.key === " ") && shown.length > 0) {
      event.preventDefault();
      choose(shown[marked]);
    }
  };

  const grid = { gridTemplateColumns: columns.map((c) => c.width).join(" ") };
  // Where the window is narrower than the columns, the table scrolls sideways and not the page. Rows stand outside of the
  // flow, so that their width doesn't say it; each column has a least one in pixels, and 4 are between two.
  const least = columns.reduce((sum, c) => sum + Number(/(\d+)px/.exec(c.width)?.[1] ?? 0) + 4, 16);
  const wide = { minWidth: `${least}px` };
  const id = label.replace(/\W+/g, "-").toLowerCase();
  return (
    <div class="table">
      <div class="table-tools">
        <input
          type="search"
          placeholder={`Filter ${noun}…`}
          aria-label={`Filter ${noun}`}
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <span class="muted" role="status">
          {shown.length === rows.length
            ? `${rows.length.toLocaleString("en-US")} ${noun}`
            : `${shown.length.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} ${noun}`}
        </span>
      </div>
      <div
        class="table-grid"
        role="grid"
        tabIndex={0}
        aria-label={`${label}: arrow keys move, Enter filters the page`}
        aria-rowcount={shown.length + 1}
        aria-activedescendant={shown.length > 0 ? `${id}-${shown[marked]}` : undefined}
        onKeyDown={move}
      >
        <div class="table-head" role="row" style={{ ...grid, ...wide }} tabIndex={-1}>
          {columns.map((column) => {
            const sorted = sort.key === column.key;
            const descending = (column.numeric ?? false) !== sort.reversed;
            return (
              <div
                key={column.key}
                role="columnheader"
                aria-sort={sorted ? (descending ? "descending" : "ascending") : "none"}
                class={column.numeric ? "numeric" : ""}
                tabIndex={-1}
              >
                <button
                  type="button"
                  title={column.meaning}
                  onClick={() => setSort({ key: column.key, reversed: sorted ? !sort.reversed : false })}
                >
                  {column.title}
                  <span class="sort" aria-hidden="true">
                    {sorted ? (descending ? "▾" : "▴") : ""}
                  </span>
                </button>
              </div>
            );
          })}
        </div>
        <div
          class="table-body"
          ref={body}
          role="rowgroup"
          style={{ ...wide, height: `${Math.min(VISIBLE, Math.max(1, shown.length)) * ROW + 1}px` }}
          onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        >
          {shown.length === 0 && (
            <p class="table-empty">{rows.length === 0 ? `No ${noun} here.` : "Nothing matches."}</p>
          )}
          <div style={{ height: `${shown.length * ROW}px`, position: "relative" }} role="presentation">
            {shown.slice(first, last).map((row, i) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the body handles keys for all rows
              <div
                key={row}
                id={`${id}-${row}`}
                role="row"
                tabIndex={-1}
                aria-rowindex={first + i + 2}
                aria-selected={row === chosen}
                class="table-row"
                data-marked={first + i === marked}
                style={{ ...grid, top: `${(first + i) * ROW}px` }}
                onClick={() => {
                  setMarked(first + i);
                  choose(row);
                }}
              >
                {columns.map((column) => (
                  <div
                    key={column.key}
                    role="gridcell"
                    tabIndex={-1}
                    class={column.numeric ? "numeric" : ""}
                    data-column={column.key}
                    data-value={column.numeric ? (column.value(row) ?? "") : undefined}
                    title={column.exact?.(row)}
                  >
                    {column.bar && (
                      <i
                        class="bar"
                        style={{
                          width: `${(100 * Number(column.value(row) ?? 0)) / (most.get(column.key) || 1)}%`,
                          background: `var(--${column.bar})`,
                        }}
                      />
                    )}
                    <span>{column.show ? column.show(row) : (column.value(row) ?? "–")}</span>
                  </div>
                ))}
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
