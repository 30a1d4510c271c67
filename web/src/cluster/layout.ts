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
  client: { title: "Clients", shape: "square", width: 72, height: 96 },
  mds: { title: "Metadata servers", shape: "hexagon", width: 120, height: 132 },
  osd: { title: "Object storage", shape: "circle", width: 92, height: 150 },
  nfs: { title: "NFS servers", shape: "square", width: 84, height: 100 },
  mgr: { title: "Managers", shape: "diamond", width: 64, height: 76 },
  mon: { title: "Monitors", shape: "diamond", width: 64, height: 76 },
  host: { title: "Machines", shape: "box", width: 72, height: 72 },
};
/** Of roles that a source names and nobody foresaw. */
const OTHER: RoleLook = { title: "", shape: "square", width: 72, height: 88 };
const ORDER = ["client", "mds", "osd", "nfs"];
const LAST = ["mgr", "mon", "host"];

const GAP = 10;
const PAD = 10;
const TITLE = 16;
const BAND_GAP = 26;

const look = (role: string): RoleLook => LOOKS[role] ?? { ...OTHER, title: role };

export const title = (role: string): string => look(role).title || role;

/** osd.2 before osd.10. */
const natural = new Intl.Collator("en", { numeric: true }).compare;

function roleOrder(role: string): number {
  const first = ORDER.indexOf(role);
  return first >= 0 ? first : LAST.includes(role) ? 100 + LAST.indexOf(role) : 50;
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

/** Places the members for a view of an aspect ratio (width by height). */
export function arrange(all: Placed[], grain: Grain, aspect: number): Layout {
  const members = foremost(all, grain);
  const bands = groups(members, (member) => member.role).sort(([a], [b]) => roleOrder(a) - roleOrder(b));
  const largest = bands.reduce((best, band) => (band[1].length > best[1].length ? band : best), ["", []] as [
    string,
    Placed[],
  ]);
  // The first band that is narrow enough for the aspect: its width is searched for.
  let narrow = 100;
  let wide = 60_000;
  for (let i = 0; i < 18; i++) {
    const width = Math.sqrt(narrow * wide);
    const tried = build(bands, grain, width);
    if (tried.width / Math.max(1, tried.height) > aspect) {
      wide = width;
    } else {
      narrow = width;
    }
  }
  return { ...build(bands, grain, wide), cell: look(largest[0]).width };
}

function build(bands: [string, Placed[]][], grain: Grain, most: number): Layout {
  const nodes: Node[] = [];
  const boxes: Box[] = [];
  const built = bands.map(([role, members]) => band(role, members, grain, most, nodes, boxes));
  const width = Math.max(0, ...built.map((block) => block.width));
  let y = 0;
  for (const block of built) {
    block.place((width - block.width) / 2, y);
    y += block.height + BAND_GAP;
  }
  return { nodes, boxes, width, height: Math.max(0, y - BAND_GAP), cell: 0 };
}

function band(role: string, members: Placed[], grain: Grain, most: number, nodes: Node[], boxes: Box[]): Block {
  const style = look(role);
  const racks = groups(members, (member) => member.rack ?? "").map(([rack, inRack]) => {
    // A machine is its own host: a box around each would say nothing.
    const hosts =
      role === "host"
        ? [cells(style, role, inRack, grain, nodes, most)]
        : groups(inRack, (member) => member.host).map(([host, inHost]) =>
            framed("host", host, cells(style, role, inHost, grain, nodes, most), boxes, grain === "member"),
          );
    const area = hosts.reduce((sum, block) => sum + (block.width + GAP) * (block.height + GAP), 0);
    const block = shelve(hosts, Math.min(most, Math.max(Math.sqrt(area * 2.2), style.width)), GAP);
    return rack === "" ? block : framed("rack", rack, groupNode(block, "rack", rack, role, inRack, grain, nodes), boxes, grain !== "rack");
  });
  const inside = shelve(racks, most, GAP * 2);
  const up = members.filter((member) => member.state === "up").length;
  const label = `${title(role)} · ${up === members.length ? up : `${up} of ${members.length} up`}`;
  return {
    width: inside.width,
    height: inside.height + TITLE + 8,
    place: (x, y) => {
      boxes.push({ kind: "band", label, x, y, width: inside.width, height: inside.height + TITLE + 8 });
      inside.place(x, y + TITLE + 8);
    },
  };
}

/** The members of a host in a grid; or, seen from afar, one node in their place. */
function cells(
  style: RoleLook,
  role: string,
  members: Placed[],
  grain: Grain,
  nodes: Node[],
  most: number,
): Block {
  const sorted = [...members].sort((a, b) => natural(a.member, b.member));
  const ideal = Math.ceil(Math.sqrt((sorted.length * style.height * 1.7) / style.width));
  const columns = Math.max(1, Math.min(sorted.length, ideal, Math.floor(most / style.width) || 1));
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
  return groupNode(block, "host", sorted[0].host, role, sorted, grain, nodes);
}

/** A block that, at its grain, is one node. */
function groupNode(
  block: Block,
  level: Grain,
  label: string,
  role: string,
  members: Placed[],
  grain: Grain,
  nodes: Node[],
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

function framed(kind: "rack" | "host", label: string, inside: Block, boxes: Box[], shown: boolean): Block {
  const head = kind === "rack" ? TITLE + 2 : TITLE;
  return {
    width: inside.width + 2 * PAD,
    height: inside.height + PAD + head,
    place: (x, y) => {
      if (shown) {
        boxes.push({
          kind,
          label,
          x,
          y,
          width: inside.width + 2 * PAD,
          height: inside.height + PAD + head,
        });
      }
      inside.place(x + PAD, y + head);
    },
  };
}
