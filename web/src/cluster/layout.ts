// Where everything stands: clients on top, MDSs, OSDs, others, machines; in them racks, hosts and members.
//
// One tree gives the places of all grains: a host's box is where its members are, so that coming nearer only
// shows more. Lengths are in the world's pixels, which the camera scales.

import { ownerOf, type Placed, worst } from "./membership";
import type { Grain, State } from "./wire";

export type Shape = "circle" | "hexagon" | "square" | "diamond" | "box";

export interface Node {
  /** Whose values it shows. */
  owner: string;
  label: string;
  role: string;
  state: State;
  /** When that began. */
  since: number;
  members: Placed[];
  shape: Shape;
  /** Middle, and half of the cell. */
  x: number;
  y: number;
  halfWidth: number;
  halfHeight: number;
}

export interface Box {
  kind: "band" | "rack" | "host";
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
  /** Of that height, room for the label. */
  head: number;
}

export interface Layout {
  nodes: Node[];
  boxes: Box[];
  width: number;
  height: number;
  /** Width of the typical node of the largest role: what decides on the grain. */
  cell: number;
}

interface RoleLook {
  title: string;
  shape: Shape;
  width: number;
  height: number;
}

const LOOKS: Record<string, RoleLook> = {
  client: { title: "Clients", shape: "square", width: 84, height: 112 },
  mds: { title: "Metadata servers", shape: "hexagon", width: 120, height: 148 },
  osd: { title: "Object storage", shape: "circle", width: 92, height: 176 },
  nfs: { title: "NFS servers", shape: "square", width: 84, height: 100 },
  mgr: { title: "Managers", shape: "diamond", width: 64, height: 76 },
  mon: { title: "Monitors", shape: "diamond", width: 64, height: 76 },
  host: { title: "Machines", shape: "box", width: 72, height: 72 },
};
/** Of roles that a source names and nobody foresaw. */
const OTHER: RoleLook = { title: "", shape: "square", width: 72, height: 88 };
/** Roles that stand beside each other, from the top: who asks, who says where, who stores, and what carries them. */
const TIERS = [["client"], ["mds", "mgr", "mon"], ["osd", "nfs"], ["host"]];
/** Of roles that nobody foresaw. */
const OTHER_TIER = 1;

const GAP = 10;
const PAD = 10;
/** Room above for a name, whose size is the screen's: more of the world where that is seen small. */
interface Heads {
  band: number;
  rack: number;
  host: number;
}
const HEADS: Heads = { band: 30, rack: 25, host: 21 };
/** The same in the screen's pixels, where all is seen. */
const HEAD_PIXELS: Heads = { band: 19, rack: 14, host: 0 };
const MOST_HEADS: Heads = { band: 240, rack: 84, host: 21 };
/** A cluster of so few members has room for their values under them. */
const FEW = 60;
const VALUES_ROOM: Record<string, number> = { osd: 40, mds: 34, client: 30 };
const BAND_GAP = 26;
const BESIDE_GAP = 44;

function look(role: string, few = false): RoleLook {
  const found = LOOKS[role] ?? { ...OTHER, title: role };
  return few ? { ...found, height: found.height + (VALUES_ROOM[role] ?? 0) } : found;
}

export const title = (role: string): string => look(role).title || role;

/** osd.2 before osd.10. */
const natural = new Intl.Collator("en", { numeric: true }).compare;

function tierOf(role: string): number {
  const tier = TIERS.findIndex((roles) => roles.includes(role));
  return tier < 0 ? OTHER_TIER : tier;
}

/** Place in the tier; unforeseen ones last. */
function orderOf(role: string): number {
  const order = TIERS[tierOf(role)].indexOf(role);
  return order < 0 ? TIERS.length : order;
}

interface Block {
  width: number;
  height: number;
  place: (x: number, y: number) => void;
}

/** Blocks in rows no wider than `most`, each row in the middle if told so. */
function shelve(blocks: Block[], most: number, gap: number): Block {
  const rows: { blocks: Block[]; width: number; height: number }[] = [];
  for (const block of blocks) {
    const row = rows.at(-1);
    if (row && row.width + gap + block.width <= most) {
      row.blocks.push(block);
      row.width += gap + block.width;
      row.height = Math.max(row.height, block.height);
    } else {
      rows.push({ blocks: [block], width: block.width, height: block.height });
    }
  }
  const width = Math.max(0, ...rows.map((row) => row.width));
  const height = rows.reduce((sum, row) => sum + row.height, 0) + gap * Math.max(0, rows.length - 1);
  return {
    width,
    height,
    place: (x, y) => {
      let top = y;
      for (const row of rows) {
        let left = x;
        for (const block of row.blocks) {
          block.place(left, top);
          left += block.width + gap;
        }
        top += row.height + gap;
      }
    },
  };
}

function groups<T>(items: T[], key: (item: T) => string): [string, T[]][] {
  const found = new Map<string, T[]>();
  for (const item of items) {
    const list = found.get(key(item));
    if (list) {
      list.push(item);
    } else {
      found.set(key(item), [item]);
    }
  }
  return [...found].sort(([a], [b]) => natural(a, b));
}

/** Roles by what a host is foremost, where it has members of several. */
const FOREMOST = ["osd", "mds", "nfs", "client", "mgr", "mon"];

/** Seen together, the members of a host or rack stand where those of its foremost role do. */
function foremost(members: Placed[], grain: Grain): Placed[] {
  if (grain === "member") {
    return members;
  }
  const rank = (role: string) => {
    const index = FOREMOST.indexOf(role);
    return role === "host" ? 99 : index < 0 ? 50 : index;
  };
  const best = new Map<string, number>();
  for (const member of members) {
    const owner = ownerOf(member, grain);
    best.set(owner, Math.min(best.get(owner) ?? 100, rank(member.role)));
  }
  return members.filter((member) => rank(member.role) === best.get(ownerOf(member, grain)));
}

/** Places the members for a view of so many pixels. */
export function arrange(all: Placed[], grain: Grain, viewWidth: number, viewHeight: number): Layout {
  const aspect = viewWidth / viewHeight;
  const members = foremost(all, grain);
  const bands = groups(members, (member) => member.role).sort(
    ([a], [b]) => tierOf(a) - tierOf(b) || orderOf(a) - orderOf(b),
  );
  const largest = bands.reduce((best, band) => (band[1].length > best[1].length ? band : best), ["", []] as [
    string,
    Placed[],
  ]);
  const few = grain === "member" && members.length <= FEW;
  const fit = (layout: Layout) => Math.min(aspect / Math.max(1, layout.width), 1 / Math.max(1, layout.height));
  const world = { bands, grain, few, heads: HEADS };
  const rough = widest(world, aspect, fit);
  // Names need room that depends on how large all is seen; with that room it is seen smaller.
  const scale = fit(rough) * viewHeight * 0.8;
  const room = (kind: keyof Heads) =>
    Math.min(MOST_HEADS[kind], Math.max(HEADS[kind], HEAD_PIXELS[kind] / scale));
  const heads = { band: room("band"), rack: room("rack"), host: room("host") };
  return { ...widest({ ...world, heads }, aspect, fit), cell: look(largest[0]).width };
}

interface World {
  bands: [string, Placed[]][];
  grain: Grain;
  few: boolean;
  heads: Heads;
}

/** The layout that is seen largest: its width is near the one whose picture has the aspect. */
function widest(world: World, aspect: number, fit: (layout: Layout) => number): Layout {
  let narrow = 100;
  let wide = 60_000;
  for (let i = 0; i < 12; i++) {
    const width = Math.sqrt(narrow * wide);
    const tried = build(world, width);
    if (tried.width / Math.max(1, tried.height) > aspect) {
      wide = width;
    } else {
      narrow = width;
    }
  }
  return [0.8, 0.9, 1.0, 1.12, 1.25, 1.5, 1.8]
    .map((factor) => build(world, wide * factor))
    .reduce((a, b) => (fit(b) > fit(a) ? b : a));
}

function build(world: World, most: number): Layout {
  const into: Drawn = { ...world, nodes: [], boxes: [] };
  const tiers = TIERS.map((_, tier) => world.bands.filter(([role]) => tierOf(role) === tier))
    .filter((beside) => beside.length > 0)
    .map((beside) =>
      shelve(
        beside.map(([role, members]) => band(into, role, members, most)),
        most,
        BESIDE_GAP,
      ),
    );
  const width = Math.max(0, ...tiers.map((block) => block.width));
  let y = 0;
  for (const block of tiers) {
    block.place((width - block.width) / 2, y);
    y += block.height + BAND_GAP;
  }
  const { nodes, boxes } = into;
  return { nodes, boxes, width, height: Math.max(0, y - BAND_GAP), cell: 0 };
}

/** What is built into. */
interface Drawn extends World {
  nodes: Node[];
  boxes: Box[];
}

function band(into: Drawn, role: string, members: Placed[], most: number): Block {
  const style = look(role, into.few);
  const inRacks = groups(members, (member) => member.rack ?? "");
  // What a host may take of the width if all stand in a row.
  const room = most / new Set(members.map((member) => member.host)).size - 2 * PAD - GAP;
  const racks = inRacks.map(([rack, inRack]) => {
    // A machine is its own host: a box around each would say nothing.
    const hosts =
      role === "host"
        ? [cells(into, style, role, inRack, most / inRacks.length)]
        : groups(inRack, (member) => member.host).map(([host, inHost]) =>
            framed(into, "host", host, cells(into, style, role, inHost, room), into.grain === "member"),
          );
    const block = packed(hosts, Math.min(most, Math.max(style.width, (most * inRack.length) / members.length)), most);
    if (rack === "") {
      return block;
    }
    return framed(into, "rack", rack, groupNode(into, block, "rack", rack, role, inRack), into.grain !== "rack");
  });
  const inside = shelve(racks, most, GAP * 2);
  const up = members.filter((member) => member.state === "up").length;
  const label = `${title(role)} · ${up === members.length ? up : `${up} of ${members.length} up`}`;
  const head = into.heads.band;
  return {
    width: inside.width,
    height: inside.height + head,
    place: (x, y) => {
      into.boxes.push({ kind: "band", label, x, y, width: inside.width, height: inside.height + head, head });
      inside.place(x, y + head);
    },
  };
}

/** Hosts of a rack in rows as full as can be: at least as wide as its share, else about twice as wide as high. */
function packed(hosts: Block[], share: number, most: number): Block {
  const area = hosts.reduce((sum, block) => sum + (block.width + GAP) * (block.height + GAP), 0);
  const used = (block: Block) => area / ((block.width + GAP) * (block.height + GAP));
  return [1.2, 1.6, 2, 2.5, 3.2]
    .map((aspect) => shelve(hosts, Math.min(most, Math.max(Math.sqrt(area * aspect), share)), GAP))
    .reduce((a, b) => (used(b) > used(a) + 0.02 ? b : a));
}

/** The members of a host in a grid; or, seen from afar, one node in their place. */
function cells(into: Drawn, style: RoleLook, role: string, members: Placed[], room: number): Block {
  const { grain, nodes } = into;
  const sorted = [...members].sort((a, b) => natural(a.member, b.member));
  const ideal = Math.ceil(Math.sqrt((sorted.length * style.height * 1.4) / style.width));
  const widest = Math.min(sorted.length, Math.max(ideal, Math.floor(room / style.width)));
  // eight in two rows of four rather than of five and three
  const columns = Math.ceil(sorted.length / Math.ceil(sorted.length / widest));
  const rows = Math.ceil(sorted.length / columns);
  const block: Block = {
    width: columns * style.width,
    height: rows * style.height,
    place: (x, y) => {
      if (grain !== "member") {
        return;
      }
      for (const [i, member] of sorted.entries()) {
        nodes.push({
          owner: member.member,
          label: member.member,
          role,
          state: member.state,
          since: member.since_ms,
          members: [member],
          shape: style.shape,
          x: x + ((i % columns) + 0.5) * style.width,
          y: y + (Math.floor(i / columns) + 0.5) * style.height,
          halfWidth: style.width / 2,
          halfHeight: style.height / 2,
        });
      }
    },
  };
  if (role === "host") {
    return grain === "member" ? block : { ...block, place: () => {} };
  }
  return groupNode(into, block, "host", sorted[0].host, role, sorted);
}

/** A block that, at its grain, is one node. */
function groupNode(
  { grain, nodes }: Drawn,
  block: Block,
  level: Grain,
  label: string,
  role: string,
  members: Placed[],
): Block {
  if (grain !== level) {
    return block;
  }
  return {
    ...block,
    place: (x, y) => {
      nodes.push({
        owner: ownerOf(members[0], level),
        label,
        role,
        state: worst(members.map((member) => member.state)),
        since: Math.max(...members.map((member) => member.since_ms)),
        members,
        shape: "box",
        x: x + block.width / 2,
        y: y + block.height / 2,
        halfWidth: block.width / 2,
        halfHeight: block.height / 2,
      });
    },
  };
}

function framed({ heads, boxes }: Drawn, kind: "rack" | "host", label: string, inside: Block, shown: boolean): Block {
  const head = heads[kind];
  const width = inside.width + 2 * PAD;
  const height = inside.height + PAD + head;
  return {
    width,
    height,
    place: (x, y) => {
      if (shown) {
        boxes.push({ kind, label, x, y, width, height, head });
      }
      inside.place(x + PAD, y + head);
    },
  };
}
