// The state of the page as the part of its address after #, so that a link shows somebody else the same moment.

import { COLOURINGS, TOGGLES, type Toggle } from "../cluster/measures";
import { SPEEDS } from "../cluster/player";
import type { Sight } from "../cluster/scene/camera";
import type { Grain } from "../cluster/wire";
import { SPANS } from "../requests/ask";

export interface View {
  view: "cluster" | "requests" | "io" | "sql" | "anomalies";
  /** Moment shown, in ms since the epoch; null follows the live stream. */
  moment: number | null;
  playing: boolean;
  speed: number;
  colouring: string;
  off: ReadonlySet<Toggle>;
  /** null: as near as one is. */
  grain: Grain | null;
  selected: ReadonlySet<string>;
  search: string;
  /** null: everything. */
  sight: Sight | null;
  /** The other moment beside; null there is none. */
  than: number | null;
  /** Requests of these only; null: all. */
  component: string | null;
  op: string | null;
  client: string | null;
  /** Seconds before the moment; 0: all time. */
  span: number;
  /** The request whose way is shown: its machine and breadcrumb. */
  request: string | null;
  query: string;
  /** What the I/O view is narrowed to, as the report has it after #. */
  narrowed: string;
  /** The stretch of time that the I/O view is of, START-END in ns since the epoch: text, for numbers here can't hold them. null: all. */
  part: string | null;
}

export const INITIAL: View = {
  view: "cluster",
  moment: null,
  playing: true,
  speed: 1,
  colouring: "cpu",
  off: new Set(),
  grain: null,
  selected: new Set(),
  search: "",
  sight: null,
  than: null,
  component: null,
  op: null,
  client: null,
  span: 60,
  request: null,
  query: "",
  narrowed: "",
  part: null,
};

const VIEWS: View["view"][] = ["cluster", "requests", "io", "sql", "anomalies"];

const GRAINS: Grain[] = ["member", "host", "rack"];

export function toHash(view: View): string {
  const words = new URLSearchParams({ view: view.view });
  const put = (name: string, value: string | null) => {
    if (value !== null && value !== "") {
      words.set(name, value);
    }
  };
  put("t", view.moment === null ? null : String(Math.round(view.moment)));
  put("play", view.playing ? null : "0");
  put("speed", view.speed === 1 ? null : String(view.speed));
  put("colour", view.colouring === INITIAL.colouring ? null : view.colouring);
  put("off", [...view.off].join(","));
  put("by", view.grain);
  put("select", [...view.selected].join(","));
  put("find", view.search);
  if (view.sight) {
    const { x, y, scale } = view.sight;
    put("sight", [x.toFixed(1), y.toFixed(1), scale.toFixed(4)].join(","));
  }
  put("than", view.than === null ? null : String(Math.round(view.than)));
  put("component", view.component);
  put("op", view.op);
  put("client", view.client);
  put("span", view.span === INITIAL.span ? null : String(view.span));
  put("request", view.request);
  put("query", view.query);
  put("io", view.narrowed);
  put("part", view.part);
  return words.toString();
}

/** Reads the part after #; what makes no sense is as if it weren't there. */
export function fromHash(hash: string): View {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string): number | null => {
    const text = words.get(name);
    return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
  };
  const list = (name: string): string[] => (words.get(name) ?? "").split(",").filter(Boolean);
  const speed = Number(words.get("speed") ?? 1);
  const sight = (words.get("sight") ?? "").split(",").map(Number);
  const colouring = words.get("colour");
  const grain = words.get("by");
  return {
    view: VIEWS.find((one) => one === words.get("view")) ?? "cluster",
    moment: number("t"),
    playing: words.get("play") !== "0",
    speed: SPEEDS.includes(speed) ? speed : 1,
    colouring: COLOURINGS.find((one) => one.id === colouring)?.id ?? INITIAL.colouring,
    off: new Set(TOGGLES.filter((toggle) => list("off").includes(toggle))),
    grain: GRAINS.find((one) => one === grain) ?? null,
    selected: new Set(list("select")),
    search: words.get("find") ?? "",
    sight:
      sight.length === 3 && sight.every(Number.isFinite) && sight[2] > 0
        ? { x: sight[0], y: sight[1], scale: sight[2] }
        : null,
    than: number("than"),
    component: words.get("component"),
    op: words.get("op"),
    client: words.get("client"),
    span: SPANS.find((one) => String(one) === words.get("span")) ?? INITIAL.span,
    request: words.get("request"),
    query: words.get("query") ?? "",
    narrowed: words.get("io") ?? "",
    part: /^\d{1,19}-\d{1,19}$/.exec(words.get("part") ?? "")?.[0] ?? null,
  };
}
