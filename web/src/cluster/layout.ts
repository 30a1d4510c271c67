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
  role: string;
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
  /** How it was made, to be made alike. */
  made: { most: number; heads: Heads; members: number };
}

export const EMPTY: Layout = {
  nodes: [],
  boxes: [],
  width: 0,
  height: 0,
  cell: 0,
  made: { most: 0, heads: { band: 0, rack: 0, host: 0 }, members: 0 },
};

interface RoleLook {
  title: string;
  shape: Shape;
  width: number;
  height: number;
}

const LOOKS: Record<string, RoleLook> = {
  client: { title: "Clients", shape: "square", width: 84, height: 120 },
  mds: { title: "Metadata servers", shape: "hexagon", width: 120, height: 148 },
  osd: { title: "Object storage", shape: "circle", width: 92, height: 176 },
  nfs: { title: "NFS servers", shape: "square", width: 84, height: 108 },
  mgr: { title: "Managers", shape: "diamond", width: 64, height: 76 },
  mon: { title: "Monitors", shape: "diamond", width: 64, height: 76 },
  host: { title: "Machines", shape: "box", width: 72, height: 72 },
};
/** Of roles that a source names and nobody foresaw. */
const OTHER: RoleLook = { title: "", shape: "square", width: 72, height: 96 };
/** Roles that stand beside each other, from the top: who asks, who says where, who stores, and what carries them. */
const TIERS = [["client"], ["mds", "mgr", "mon"], ["osd", "nfs"], ["host"]];
/** Of roles that nobody foresaw. */
const OTHER_TIER = 1;

const GAP = 10;
const PAD = 10;
/** Room above for a name, whose size is the screen's: more of the world where that is seen small. */
export interface Heads {
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

/** A layout of so many more or fewer members is made as the one before was. */
const ALIKE = 0.05;

/** Places the members for a view of so many pixels; alike if few came or left since `before`. */
export function arrange(
  all: Placed[],
  grain: Grain,
  viewWidth: number,
  viewHeight: number,
  before: Layout["made"] | null = null,
): Layout {
  const aspect = viewWidth / viewHeight;
  const bands = tree(foremost(all, grain));
  const largest = Math.max(0, ...bands.map((each) => each.members.length));
  const few = grain === "member" && all.length <= FEW;
  const role = bands.find((each) => each.members.length === largest)?.role ?? "";
  const drawn = (made: Layout["made"]): Layout => {
    const layout = plan({ bands, grain, few, heads: made.heads }, made.most).draw();
    return { ...layout, cell: look(role).width, made };
  };
  if (before && before.members > FEW && Math.abs(before.members - all.length) <= ALIKE * before.members) {
    return drawn(before);
  }
  const seen: Fit = (size) => Math.min(aspect / Math.max(1, size.width), 1 / Math.max(1, size.height));
  const world = { bands, grain, few, heads: HEADS };
  const rough = widest(world, aspect, seen);
  // Names need room that depends on how large all is seen; with that room it is seen smaller.
  const scale = Math.max(1e-4, seen(rough) * viewHeight * 0.8);
  const room = (kind: keyof Heads) =>
    Math.min(MOST_HEADS[kind], Math.max(HEADS[kind], HEAD_PIXELS[kind] / scale));
  const heads = { band: room("band"), rack: room("rack"), host: room("host") };
  return drawn({ most: widest({ ...world, heads }, aspect, seen).most, heads, members: all.length });
}

/** The same places, of members of which only states changed. */
export function restated(layout: Layout, all: Placed[], grain: Grain): Layout {
  const members = foremost(all, grain);
  const now = new Map(members.map((member) => [member.member, member]));
  const nodes = layout.nodes.map((node) =>
    changed(
      node,
      node.members.map((member) => now.get(member.member) ?? member),
    ),
  );
  const bands = new Map(groups(members, (member) => member.role));
  const boxes = layout.boxes.map((box) =>
    box.kind === "band" ? { ...box, label: bandLabel(box.role, bands.get(box.role) ?? []) } : box,
  );
  return { ...layout, nodes, boxes };
}

/** What of members decides on their places. */
export function placesKey(members: Placed[]): string {
  return members.map((member) => `${member.member} ${member.role} ${member.rack} ${member.host}`).join("\n");
}

/** A role's members, by rack and host, in order. */
interface Band {
  role: string;
  members: Placed[];
  hosts: number;
  racks: { rack: string; members: Placed[]; hosts: { host: string; members: Placed[] }[] }[];
}

function tree(members: Placed[]): Band[] {
  return groups(members, (member) => member.role)
    .sort(([a], [b]) => tierOf(a) - tierOf(b) || orderOf(a) - orderOf(b))
    .map(([role, ofRole]) => ({
      role,
      members: ofRole,
      hosts: new Set(ofRole.map((member) => member.host)).size,
      racks: groups(ofRole, (member) => member.rack ?? "").map(([rack, inRack]) => ({
        rack,
        members: inRack.sort((x, y) => natural(x.member, y.member)),
        hosts: groups(inRack, (member) => member.host).map(([host, inHost]) => ({ host, members: inHost })),
      })),
    }));
}

const changed = (place: Node, members: Placed[]): Node => ({
  ...place,
  members,
  state: worst(members.map((member) => member.state)),
  since: Math.max(...members.map((member) => member.since_ms)),
});

function bandLabel(role: string, members: Placed[]): string {
  const up = members.filter((member) => member.state === "up").length;
  return `${title(role)} · ${up === members.length ? up : `${up} of ${members.length} up`}`;
}

interface World {
  bands: Band[];
  grain: Grain;
  few: boolean;
  heads: Heads;
}

/** What a layout would take, before anything is placed. */
interface Plan {
  /** What it was allowed to take of the width. */
  most: number;
  width: number;
  height: number;
  draw: () => Omit<Layout, "cell" | "made">;
}

type Fit = (size: { width: number; height: number }) => number;

/** The plan that is seen largest: its width is near the one whose picture has the aspect. */
function widest(world: World, aspect: number, seen: Fit): Plan {
  let narrow = 100;
  let wide = 60_000;
  for (let i = 0; i < 12; i++) {
    const width = Math.sqrt(narrow * wide);
    const tried = plan(world, width);
    if (tried.width / Math.max(1, tried.height) > aspect) {
      wide = width;
    } else {
      narrow = width;
    }
  }
  return [0.8, 0.9, 1.0, 1.12, 1.25, 1.5, 1.8]
    .map((factor) => plan(world, wide * factor))
    .reduce((a, b) => (seen(b) > seen(a) ? b : a));
}

function plan(world: World, most: number): Plan {
  const into: Drawn = { ...world, nodes: [], boxes: [] };
  const tiers = TIERS.map((_, tier) => world.bands.filter(({ role }) => tierOf(role) === tier))
    .filter((beside) => beside.length > 0)
    .map((beside) =>
      shelve(
        beside.map((each) => band(into, each, most)),
        most,
        BESIDE_GAP,
      ),
    );
  const width = Math.max(0, ...tiers.map((block) => block.width));
  const height = tiers.reduce((sum, block) => sum + block.height + BAND_GAP, -BAND_GAP);
  return {
    most,
    width,
    height,
    draw: () => {
      let y = 0;
      for (const block of tiers) {
        block.place((width - block.width) / 2, y);
        y += block.height + BAND_GAP;
      }
      const { nodes, boxes } = into;
      return { nodes, boxes, width, height: Math.max(0, height) };
    },
  };
}

/** What is built into. */
interface Drawn extends World {
  nodes: Node[];
  boxes: Box[];
}

function band(into: Drawn, { role, members, hosts: hostCount, racks: inRacks }: Band, most: number): Block {
  const style = look(role, into.few);
  // What a host may take of the width if all stand in a row.
  const room = most / hostCount - 2 * PAD - GAP;
  const racks = inRacks.map(({ rack, members: inRack, hosts: inHosts }) => {
    // A machine is its own host: a box around each would say nothing.
    const hosts =
      role === "host"
        ? [cells(into, style, role, inRack, most / inRacks.length)]
        : inHosts.map(({ host, members: inHost }) =>
            framed(into, "host", role, host, cells(into, style, role, inHost, room), into.grain === "member"),
          );
    const share = (most * inRack.length) / members.length;
    const block = packed(hosts, Math.min(most, Math.max(style.width, share)), most);
    if (rack === "") {
      return block;
    }
    return framed(
      into,
      "rack",
      role,
      rack,
      groupNode(into, block, "rack", rack, role, inRack),
      into.grain !== "rack",
    );
  });
  const inside = shelve(racks, most, GAP * 2);
  const head = into.heads.band;
  const { width } = inside;
  const height = inside.height + head;
  return {
    width,
    height,
    place: (x, y) => {
      into.boxes.push({ kind: "band", role, label: bandLabel(role, members), x, y, width, height, head });
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
  const ideal = Math.ceil(Math.sqrt((members.length * style.height * 1.4) / style.width));
  const widest = Math.min(members.length, Math.max(ideal, Math.floor(room / style.width)));
  // eight in two rows of four rather than of five and three
  const columns = Math.ceil(members.length / Math.ceil(members.length / widest));
  const rows = Math.ceil(members.length / columns);
  const block: Block = {
    width: columns * style.width,
    height: rows * style.height,
    place: (x, y) => {
      if (grain !== "member") {
        return;
      }
      for (const [i, member] of members.entries()) {
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
  return groupNode(into, block, "host", members[0].host, role, members);
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

function framed(
  { heads, boxes }: Drawn,
  kind: "rack" | "host",
  role: string,
  label: string,
  inside: Block,
  shown: boolean,
): Block {
  const head = heads[kind];
  const width = inside.width + 2 * PAD;
  const height = inside.height + PAD + head;
  return {
    width,
    height,
    place: (x, y) => {
      if (shown) {
        boxes.push({ kind, role, label, x, y, width, height, head });
      }
      inside.place(x + PAD, y + head);
    },
  };
}
