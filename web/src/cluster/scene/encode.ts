// From values to what the shaders take. Runs when new values come, not when a frame is drawn.

import { bytes, count, time } from "../../format/units";
import { EMPTY, type Layout, type Node, title } from "../layout";
import {
  type Colouring,
  cacheHits,
  diskBusy,
  percent,
  received,
  responseTime,
  sent,
  sizes,
  slices,
  spaceUsed,
  type Toggle,
  writeLatency,
} from "../measures";
import type { Samples } from "../samples";
import type { State } from "../wire";
import { type Form, form } from "./forms";
import { ASCENT, type Ink, type Letters, LINE } from "./letters";
import type { Marks } from "./marks";

export const STATES: Record<State, number> = { up: 0, standby: 1, down: 2, failed: 3, left: 4 };

/** A lane that is full has so many dots. */
const MOST_DOTS = 6;
/** Pixels from line to line. */
const LEADING = 11;
const SELECTED = 1;
const HOVERED = 2;
const DIMMED = 4;

const smallWrites = writeLatency("small");
const largeWrites = writeLatency("large");
/** What the shaders read as "not known". */
const known = (value: number): number => (Number.isNaN(value) ? -1 : value);

/** Ways a second of a dot: 100 µs is fast, a second is slow; a decade of response time is a step. */
export function speed(responseNs: number): number {
  if (Number.isNaN(responseNs)) {
    return 0.9;
  }
  return Math.max(0.08, Math.min(2.2, 2.0 - 0.48 * Math.log10(Math.max(1, responseNs / 1e5))));
}

/** Dots in a lane: their square is the rate, so that a tenth of it can still be told from a fifth. */
export function dots(bytesPerSecond: number, scale: number): number {
  if (!(bytesPerSecond > 0)) {
    return 0;
  }
  return Math.max(1, Math.min(MOST_DOTS, Math.round(MOST_DOTS * Math.sqrt(bytesPerSecond / scale))));
}

interface Lane {
  phase: number;
  speed: number;
}

export class Encoder {
  private forms: Form[] = [];
  /** By node and lane: where its dots are, so that a new speed doesn't make them jump. */
  private lanes: Lane[] = [];
  private owners = new Int32Array(0);
  /** The animation's time for which dots were placed: the shader counts from there. */
  dotsAt = 0;
  private drawn = 0;
  /** The largest values and rates since `most` was emptied: what scales are made of. */
  most = { heat: 0, rate: 0 };
  /** Colours of the heat, cold to hot, as shares of red, green and blue. */
  ramp: number[][] = [];
  layout: Layout = EMPTY;

  constructor(
    private marks: Marks,
    private letters: Letters,
  ) {}

  /** New places. `moment` is the moment shown, `now` the animation's time. */
  place(layout: Layout, samples: Samples, moment: number, now: number): void {
    const before = new Map(this.layout.nodes.map((node, i) => [node.owner, i]));
    const lanes = this.lanes;
    const old = this.marks.levels.data.slice();
    const stride = this.marks.levels.stride;
    this.layout = layout;
    this.forms = layout.nodes.map(form);
    this.owners = Int32Array.from(layout.nodes, (node) => samples.find(node.owner));
    this.lanes = layout.nodes.flatMap((node) => {
      const at = before.get(node.owner);
      return [0, 1, 2, 3].map(
        (i) => (at === undefined ? undefined : lanes[at * 4 + i]) ?? { phase: Math.random(), speed: 0 },
      );
    });
    const { places, levels } = this.marks;
    places.reserve(layout.nodes.length);
    levels.reserve(layout.nodes.length);
    for (const [i, node] of layout.nodes.entries()) {
      const shape = this.forms[i];
      places.data.set(
        [
          node.x,
          node.y,
          node.halfWidth,
          node.halfHeight,
          shape.number,
          shape.radius,
          shape.middle,
          shape.farMiddle,
          shape.farWidth,
          shape.farHeight,
          STATES[node.state],
          0,
        ],
        i * places.stride,
      );
      const at = before.get(node.owner);
      if (at === undefined) {
        levels.data.fill(-1, i * stride, (i + 1) * stride);
      } else {
        levels.data.set(old.subarray(at * stride, (at + 1) * stride), i * stride);
      }
      // only what happened just now is announced, and only once it did
      const ago = (moment - node.since) / 1000;
      levels.data[i * stride + 11] = ago >= 0 && ago < 3 ? now - ago : -100;
    }
    places.upload(layout.nodes.length);
    this.marks.count("node", layout.nodes.length);
  }

  /** Outlines of what is selected, under the pointer, or not what was searched for. */
  flag(
    selected: ReadonlySet<string>,
    hovered: string | null,
    dimmed: ((owner: string) => boolean) | null,
  ): void {
    const { places } = this.marks;
    for (const [i, node] of this.layout.nodes.entries()) {
      places.data[i * places.stride + 11] =
        (selected.has(node.owner) ? SELECTED : 0) |
        (node.owner === hovered ? HOVERED : 0) |
        (dimmed?.(node.owner) ? DIMMED : 0);
    }
    places.upload(this.layout.nodes.length);
  }

  /** Finds the owners that had no samples yet. */
  resolve(samples: Samples): void {
    for (let i = 0; i < this.owners.length; i++) {
      if (this.owners[i] < 0) {
        this.owners[i] = samples.find(this.layout.nodes[i].owner);
      }
    }
  }

  /** Values of nodes from a number up to another. The members of a group share what is a share of one. */
  level(from: number, to: number, samples: Samples, colouring: Colouring, scale: number): void {
    const { data, stride } = this.marks.levels;
    const { nodes } = this.layout;
    for (let i = from; i < to; i++) {
      const o = i * stride;
      const node = nodes[i];
      const owner = this.owners[i];
      data[o] = data[o + 1];
      if (owner < 0) {
        data.fill(-1, o, o + 11);
        data.fill(-1, o + 12, o + stride);
        continue;
      }
      const many = colouring.share && node.shape === "box" && node.role !== "host" ? node.members.length : 1;
      const heat = colouring.read(samples, owner) / many;
      data[o + 1] = known(heat / scale);
      this.most.heat = Math.max(this.most.heat, heat || 0);
      switch (node.role) {
        case "osd":
          data[o + 2] = known(spaceUsed(samples, owner));
          data[o + 3] = known(diskBusy(samples, owner));
          if (sizes(samples, owner, data, o + 12) === 0) {
            data[o + 12] = -1;
          }
          break;
        case "mds":
          if (slices(samples, owner, data, o + 4) === 0) {
            data[o + 4] = -1;
          }
          break;
        case "client":
          data[o + 10] = known(cacheHits(samples, owner));
          break;
      }
    }
  }

  /** Hands over what `level` and `traffic` made of all nodes, dots as of the animation's time `at`. */
  upload(at: number): void {
    this.marks.levels.upload(this.layout.nodes.length);
    this.marks.dots.upload(this.drawn);
    this.marks.count("dot", this.drawn);
    this.dotsAt = at;
  }

  /** Traffic of nodes from a number up to another, at the animation's time `now`; `scale` is the rate of a full lane. */
  traffic(from: number, to: number, samples: Samples, scale: number, now: number): void {
    const { nodes } = this.layout;
    if (from === 0) {
      this.drawn = 0;
      this.marks.dots.reserve(nodes.length * 4 * MOST_DOTS);
    }
    for (let i = from; i < to; i++) {
      const owner = this.owners[i];
      if (owner < 0) {
        continue;
      }
      const node = nodes[i];
      const shape = this.forms[i];
      const apart = Math.min(11, node.halfWidth * 0.3);
      const way = speed(responseTime(samples, owner));
      const rates = [received(samples, owner), sent(samples, owner), Number.NaN, Number.NaN];
      this.lane(i, 0, node.x - apart, node.y, shape.lane, false, rates[0], scale, way, now);
      this.lane(i, 1, node.x + apart, node.y, shape.lane, true, rates[1], scale, way, now);
      if (shape.replica) {
        const back = speed(samples.sum("replica_time", owner) / samples.sum("replica_op", owner));
        rates[2] = samples.sum("replica_in", owner);
        rates[3] = samples.sum("replica_out", owner);
        this.lane(i, 2, node.x - apart, node.y, shape.replica, false, rates[2], scale, back, now);
        this.lane(i, 3, node.x + apart, node.y, shape.replica, true, rates[3], scale, back, now);
      }
      // what passes a machine is that of all on it: its lanes are full sooner
      if (node.role !== "host") {
        for (const rate of rates) {
          this.most.rate = Math.max(this.most.rate, rate || 0);
        }
      }
    }
  }

  /** The dots of a lane from the rail to the body, or back. */
  private lane(
    node: number,
    kind: number,
    x: number,
    y: number,
    [near, far]: Form["lane"],
    back: boolean,
    rate: number,
    scale: number,
    way: number,
    now: number,
  ): void {
    const lane = this.lanes[node * 4 + kind];
    lane.phase = (lane.phase + lane.speed * (now - this.dotsAt)) % 1;
    lane.speed = way;
    const number = dots(rate, scale);
    const { data, stride } = this.marks.dots;
    const start = back ? 1 : 0;
    for (let k = 0; k < number; k++) {
      const o = (this.drawn + k) * stride;
      data[o] = x;
      data[o + 1] = y + near[start];
      data[o + 2] = y + near[1 - start];
      data[o + 3] = y + far[start];
      data[o + 4] = y + far[1 - start];
      data[o + 5] = lane.phase + k / number;
      data[o + 6] = way;
      data[o + 7] = kind;
    }
    this.drawn += number;
  }

  /** Names and values of what is in sight, and those of boxes. */
  texts(
    samples: Samples,
    scale: number,
    sees: (x: number, y: number, w: number, h: number) => boolean,
    off: ReadonlySet<Toggle>,
    colouring: Colouring,
  ): void {
    const into = this.marks.letters;
    const { letters } = this;
    let n = 0;
    for (const box of this.layout.boxes) {
      const band = box.kind === "band";
      if (!sees(box.x, box.y, box.width, box.height) || (!band && off.has("names"))) {
        continue;
      }
      const bold = box.kind !== "host";
      const room = box.head * scale;
      // a band's name may reach over its end, but not into the next one
      const width = band ? (box.width + 36) * scale : box.width * scale - 10;
      const label = (band ? [box.label, title(box.role), box.role] : [box.label]).find(
        (text) => letters.width(text, bold) <= width,
      );
      if (label !== undefined && (band || room > 10)) {
        // a band's stands on it, the others' in their head
        const dy = band ? Math.max(0, room - LINE - 3) : (room - LINE) / 2;
        n = letters.write(into, n, label, box.x, box.y, band ? 0 : 7, dy, 1, 0, bold);
      }
    }
    for (const [i, node] of this.layout.nodes.entries()) {
      const width = node.halfWidth * 2 * scale;
      // a cell without room for a short name has none
      if (
        width < 30 ||
        !sees(node.x - node.halfWidth, node.y - node.halfHeight, node.halfWidth * 2, node.halfHeight * 2)
      ) {
        continue;
      }
      const { name, above, values } = this.forms[i];
      const below = (from: number) => Math.floor(((node.halfHeight - from) * scale + 3) / LEADING);
      // 4150 of client.4150 says which among clients too
      const label = [node.label, node.label.slice(node.label.lastIndexOf(".") + 1)].find(
        (text) => letters.width(text, true) <= width - 2,
      );
      const tile = node.shape === "box";
      const ink = tile ? this.inkOn(this.marks.levels.data[i * this.marks.levels.stride + 1]) : null;
      const named = label !== undefined && !off.has("names") && below(name) > 0;
      if (named) {
        // the text doesn't shrink with what it stands above
        const up = above === undefined ? 0 : Math.min(0, above * scale - ASCENT - 2);
        n = letters.write(into, n, label, node.x, node.y + name, 0, up, ink ?? 0, 0.5, true);
      }
      const owner = this.owners[i];
      let line = named && (tile || name === values) ? 1 : 0;
      const most = below(values);
      if (owner >= 0 && line < most) {
        for (const text of this.values(samples, owner, node, off, colouring)) {
          if (line < most && letters.width(text) <= width - 1) {
            n = letters.write(into, n, text, node.x, node.y + values, 0, line * LEADING, ink ?? 1, 0.5);
            line += 1;
          }
        }
      }
    }
    into.upload(n);
    this.marks.count("text", n);
  }

  /** What can be read on a tile of that heat. */
  private inkOn(share: number): Ink {
    const at = Math.max(0, Math.min(1, share)) * (this.ramp.length - 1);
    const [r, g, b] = this.ramp[Math.round(at)] ?? [1, 1, 1];
    return 0.299 * r + 0.587 * g + 0.114 * b > 0.55 || share < 0 ? (share < 0 ? 0 : 2) : 3;
  }

  private values(
    samples: Samples,
    owner: number,
    node: Node,
    off: ReadonlySet<Toggle>,
    colouring: Colouring,
  ): string[] {
    const lines: string[] = [];
    const { role } = node;
    if (node.shape === "box") {
      const many = node.members.length;
      const value = colouring.read(samples, owner) / (colouring.share && role !== "host" ? many : 1);
      const text = Number.isNaN(value) ? "–" : colouring.format(value);
      lines.push(many > 1 ? `${many} × ${text}` : text);
    }
    if (role === "osd" && !off.has("values")) {
      lines.push(`S ${tiny(smallWrites(samples, owner))}`, `L ${tiny(largeWrites(samples, owner))}`);
    }
    if (role === "client" && !off.has("cache")) {
      const hits = cacheHits(samples, owner);
      if (!Number.isNaN(hits)) {
        lines.push(`${percent(hits).replace(" ", "")} hit`, bytes(samples.sum("cache_dirty", owner)));
      }
    }
    if (role === "mds" && !off.has("journal")) {
      const flushes = samples.sum("journal_flush", owner);
      const took = samples.sum("journal_time", owner) / flushes;
      if (!Number.isNaN(flushes)) {
        lines.push(`J ${count(Math.round(flushes))}/s`, `J ${tiny(took)}`);
      }
      const exported = samples.of("export", "out", owner);
      if (exported > 0) {
        lines.push(`${count(exported)} exports/s`);
      }
    }
    return lines;
  }
}

/** A time in little room: 1.2ms, 14ms. */
function tiny(ns: number): string {
  if (Number.isNaN(ns)) {
    return "–";
  }
  return time(ns)
    .replace(/^(\d+)\.(\d)\d /, "$1.$2 ")
    .replace(/^(\d\d)\.\d /, "$1 ")
    .replace(" ", "");
}
