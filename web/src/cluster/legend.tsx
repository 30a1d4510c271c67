// What the marks mean, and switches for them.

import { rate } from "../format/units";
import { COLOURINGS, type Colouring, SIZE_NAMES, SLICES, TOGGLES, type Toggle } from "./measures";
import type { Scales } from "./scene/scene";
import type { Grain } from "./wire";

const NAMES: Record<Toggle, string> = {
  traffic: "Network traffic",
  replica: "Replica traffic",
  pie: "MDS operations",
  space: "Space used",
  busy: "Disk busy",
  sizes: "I/O sizes",
  values: "Write latencies",
  cache: "Client cache",
  journal: "MDS journal, exports",
  names: "Names",
};

/** Drawn as the mark is. */
function Sample({ toggle }: { toggle: Toggle }) {
  const arc = (ink: string) => (
    <svg viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">
      <circle cx="9" cy="9" r="6.5" fill="none" stroke="var(--track)" stroke-width="3" />
      <path
        d="M9 2.5a6.5 6.5 0 1 1-5.6 3.3"
        fill="none"
        stroke={`var(--${ink})`}
        stroke-width="3"
        transform="rotate(0 9 9)"
      />
    </svg>
  );
  const arrows = (down: string, up: string) => (
    <svg viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">
      <path d="M2 5h6l-3 6z" fill={`var(--${down})`} />
      <path d="M10 13h6l-3-6z" fill={`var(--${up})`} />
    </svg>
  );
  switch (toggle) {
    case "traffic":
      return arrows("traffic-in", "traffic-out");
    case "replica":
      return arrows("replica-in", "replica-out");
    case "space":
      return arc("space");
    case "busy":
      return arc("busy");
    case "cache":
      return arc("kind-meta");
    case "pie":
      return (
        <svg viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">
          <circle cx="9" cy="9" r="7" fill="var(--kind-meta)" />
          <path d="M9 9V2a7 7 0 0 1 6.06 10.5z" fill="var(--kind-read)" />
        </svg>
      );
    case "sizes":
      return (
        <svg viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">
          <path d="M2 9V6h3v3M7 9V2h3v7M12 9V5h3v4" fill="var(--kind-read)" />
          <path d="M2 10v3h3v-3M7 10v6h3v-6M12 10v5h3v-5" fill="var(--kind-write)" />
        </svg>
      );
    case "values":
      return <span class="sample-text">S L</span>;
    case "journal":
      return <span class="sample-text">/s</span>;
    case "names":
      return <span class="sample-text">Aa</span>;
  }
}

export interface LegendProps {
  colouring: Colouring;
  scales: Scales;
  off: ReadonlySet<Toggle>;
  grain: Grain;
  /** null: by nearness. */
  chosen: Grain | null;
  search: string;
  found: number | null;
  onColouring: (id: string) => void;
  onOff: (off: ReadonlySet<Toggle>) => void;
  onGrain: (grain: Grain | null) => void;
  onSearch: (text: string) => void;
  onFound: () => void;
}

const GRAINS: [Grain | null, string][] = [
  [null, "Auto"],
  ["member", "Node"],
  ["host", "Host"],
  ["rack", "Rack"],
];

export function LegendPanel(props: LegendProps) {
  const { colouring, scales, off, chosen, grain } = props;
  const middle = colouring.format(scales.colour / 2);
  return (
    <aside class="legend-panel" aria-label="Legend">
      <input
        type="search"
        placeholder="Search  /"
        aria-label="Search members"
        value={props.search}
        onInput={(event) => props.onSearch(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            props.onFound();
          } else if (event.key === "Escape") {
            props.onSearch("");
            event.currentTarget.blur();
          }
        }}
      />
      {props.found !== null && <p class="found">{props.found} found · Enter selects</p>}
      <label class="colour-by">
        <span>Colour</span>
        <select value={colouring.id} onChange={(event) => props.onColouring(event.currentTarget.value)}>
          {COLOURINGS.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      <div class="ramp" title={colouring.meaning}>
        <i />
        <span>0</span>
        <span>{middle}</span>
        <span>{colouring.format(scales.colour)}</span>
      </div>
      <div class="grains">
        <span>Seen by</span>
        <div class="choices">
          {GRAINS.map(([id, name]) => (
            <button
              type="button"
              key={name}
              class={id === grain ? "now" : undefined}
              aria-pressed={chosen === id}
              title={id === null ? "By how near one is" : `One mark a ${name.toLowerCase()}`}
              onClick={() => props.onGrain(id)}
            >
              {name}
            </button>
          ))}
        </div>
      </div>
      <fieldset class="toggles">
        <legend class="hidden-label">Marks</legend>
        {TOGGLES.map((toggle) => (
          <label key={toggle} data-toggle={toggle}>
            <input
              type="checkbox"
              checked={!off.has(toggle)}
              onChange={() => {
                const next = new Set(off);
                if (!next.delete(toggle)) {
                  next.add(toggle);
                }
                props.onOff(next);
              }}
            />
            <Sample toggle={toggle} />
            {NAMES[toggle]}
          </label>
        ))}
      </fieldset>
      {!off.has("traffic") && (
        <p class="hint">Fast: quick responses. Dense: many bytes; a full lane is {rate(scales.traffic)}.</p>
      )}
      {!off.has("pie") && (
        <ul class="slices">
          {SLICES.map((slice) => (
            <li key={slice.name}>
              <i style={{ background: `var(--${slice.color})` }} />
              {slice.name}
            </li>
          ))}
        </ul>
      )}
      {!off.has("sizes") && (
        <p class="hint">
          Bars: {SIZE_NAMES[0]} to {SIZE_NAMES.at(-1)}; reads up, writes down.
        </p>
      )}
    </aside>
  );
}
