// The picture: pixi.js' renderer over the marks, the camera, and what the pointer does.
//
// A frame of the animation sets a few uniforms and draws four meshes. What costs more (places, values, texts)
// is done when it changes, and then once a frame.

import "pixi.js/unsafe-eval";
import { Container, type Renderer, WebGLRenderer } from "pixi.js";
import { color } from "../../theme/theme";
import { arrange, type Layout, type Node, placesKey, restated } from "../layout";
import { type Colouring, nice, niceBytes, SLICES, type Toggle } from "../measures";
import type { Placed } from "../membership";
import type { Samples } from "../samples";
import type { Grain } from "../wire";
import { Camera } from "./camera";
import { Encoder } from "./encode";
import { Letters } from "./letters";
import { Marks } from "./marks";

export interface Look {
  colouring: Colouring;
  off: ReadonlySet<Toggle>;
  grain: Grain;
  selected: ReadonlySet<string>;
  search: string;
}

/** What scales end at: shown by the legend. */
export interface Scales {
  colour: number;
  traffic: number;
}

/** Nodes whose values are encoded at once, and how much of that a frame may take: see update(). */
const STEP = 100;
/** Nodes that are encoded whole in the frame in which they are laid out anew. */
const AT_ONCE = 300;
const PASS_MS = 1.2;
const PASS_MS_BY_NODE = 0.0005;
/** Values go over from the old ones in so many seconds. */
const GLIDE = 0.35;
/** Texts that change oftener can't be read. */
const TEXT_MS = 450;
const RAMP = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5"];
const INKS = [
  "panel",
  "track",
  "muted",
  "space",
  "busy",
  "accent",
  "high",
  "medium",
  "kind-read",
  "kind-write",
  "kind-meta",
];
const TRAFFIC = ["traffic-in", "traffic-out", "replica-in", "replica-out"];
const SHOWN: Toggle[] = ["pie", "space", "busy", "sizes", "cache"];

export class Scene {
  readonly camera = new Camera();
  private stage = new Container();
  private encoder: Encoder;
  private members: Placed[] = [];
  private look: Look;
  private samples: Samples | null = null;
  private hovered: string | null = null;
  private placesChanged = true;
  private valuesChanged = true;
  private flagsChanged = true;
  private textsAt = 0;
  private textsChanged = true;
  private moment = 0;
  private time = 0;
  private glideFrom = 0;
  private last = 0;
  private request = 0;
  private pass: Generator<void> | null = null;
  /** Of the picture that is on the screen: one that stays the same isn't drawn again. */
  private drawn = { time: -1, mix: -1 };
  private spentBefore = 0;
  private arranged = { frame: "", places: "" };
  private context = "";
  scales: Scales = { colour: 1, traffic: 1 };
  moving = true;
  onScales: (scales: Scales) => void = () => {};
  onSight: () => void = () => {};

  private constructor(
    private renderer: Renderer,
    private marks: Marks,
    letters: Letters,
    look: Look,
  ) {
    this.look = look;
    this.encoder = new Encoder(marks, letters);
    const { uniforms } = marks.uniforms;
    uniforms.uRatio = letters.ratio;
    uniforms.uAtlasSize.set(letters.size);
    this.stage.addChild(marks.meshes.box, marks.meshes.node, marks.meshes.dot, marks.meshes.text);
    this.stage.eventMode = "none";
    this.paint();
    this.show(look);
    renderer.canvas.addEventListener("webglcontextrestored", () => {
      this.drawn.time = -1;
    });
    this.request = requestAnimationFrame(this.frame);
  }

  static async open(canvas: HTMLCanvasElement, look: Look): Promise<Scene> {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const renderer = new WebGLRenderer();
    const fonts = [500, 650].map((weight) => document.fonts.load(`${weight} 11px "Inter Report"`));
    await Promise.all([
      renderer.init({
        canvas,
        resolution: ratio,
        autoDensity: true,
        antialias: false,
        backgroundAlpha: 0,
        preferWebGLVersion: 2,
        powerPreference: "high-performance",
      }),
      ...fonts,
    ]);
    const letters = new Letters(ratio);
    return new Scene(renderer, new Marks(letters.texture), letters, look);
  }

  close(): void {
    cancelAnimationFrame(this.request);
    this.marks.destroy();
    this.stage.destroy();
    this.renderer.destroy();
  }

  resize(width: number, height: number): void {
    this.renderer.resize(Math.max(1, width), Math.max(1, height));
    const turned =
      Math.abs(Math.log((this.camera.width / this.camera.height) * (height / Math.max(1, width)))) > 0.05;
    this.camera.view(width, height);
    this.placesChanged ||= turned;
    this.sighted();
  }

  /** New members, in places of their own. */
  place(members: Placed[], moment: number): void {
    this.members = members;
    this.moment = moment;
    this.placesChanged = true;
  }

  /** New values. */
  value(samples: Samples, moment: number): void {
    if (this.samples !== samples) {
      this.placesChanged = true;
    }
    this.samples = samples;
    this.moment = moment;
    this.valuesChanged = true;
  }

  show(look: Look): void {
    if (look.grain !== this.look.grain) {
      this.placesChanged = true;
    }
    const context = `${look.colouring.id} ${look.grain}`;
    if (context !== this.context) {
      this.context = context;
      this.encoder.most = { heat: 0, rate: 0 };
    }
    const { uniforms } = this.marks.uniforms;
    for (const [i, toggle] of SHOWN.entries()) {
      uniforms.uShow[i] = look.off.has(toggle) ? 0 : 1;
    }
    uniforms.uShowLane[0] = look.off.has("traffic") ? 0 : 1;
    uniforms.uShowLane[1] = look.off.has("replica") ? 0 : 1;
    this.look = look;
    this.valuesChanged = true;
    this.flagsChanged = true;
    this.textsChanged = true;
  }

  /** Colours of the theme. */
  paint(): void {
    const { uniforms } = this.marks.uniforms;
    fill(uniforms.uRamp, RAMP);
    fill(
      uniforms.uSlices,
      SLICES.map((slice) => slice.color),
    );
    fill(uniforms.uInk, INKS);
    fill(uniforms.uTraffic, TRAFFIC);
    fill(uniforms.uTextInk, ["text", "muted", "ink-dark", "ink-light"]);
    this.encoder.ramp = RAMP.map(rgb);
    this.placesChanged = true;
  }

  get layout(): Layout {
    return this.encoder.layout;
  }

  /** Width of a member in pixels of the screen: what decides on the grain. */
  get cellPixels(): number {
    return this.layout.cell * this.camera.scale;
  }

  nodeAt(x: number, y: number): Node | null {
    const [wx, wy] = this.camera.toWorld(x, y);
    return (
      this.layout.nodes.find(
        (node) => Math.abs(wx - node.x) <= node.halfWidth && Math.abs(wy - node.y) <= node.halfHeight,
      ) ?? null
    );
  }

  /** Where an owner is on the canvas, in CSS pixels. */
  where(owner: string): [number, number] | null {
    const node = this.layout.nodes.find((candidate) => candidate.owner === owner);
    const [dx, dy] = this.camera.shift;
    return node ? [node.x * this.camera.scale + dx, node.y * this.camera.scale + dy] : null;
  }

  nodesWithin(x0: number, y0: number, x1: number, y1: number): Node[] {
    const [left, top] = this.camera.toWorld(Math.min(x0, x1), Math.min(y0, y1));
    const [right, bottom] = this.camera.toWorld(Math.max(x0, x1), Math.max(y0, y1));
    return this.layout.nodes.filter(
      (node) => node.x >= left && node.x <= right && node.y >= top && node.y <= bottom,
    );
  }

  hover(owner: string | null): void {
    this.flagsChanged ||= owner !== this.hovered;
    this.hovered = owner;
  }

  /** What taking in values took in this frame, in ms: so much less is left for showing them. */
  spent(ms: number): void {
    this.spentBefore = ms;
  }

  /** The camera moved. */
  sighted(): void {
    this.textsChanged = true;
    this.onSight();
  }

  /** Whether an owner is in sight; undefined if the picture hasn't it. */
  sees(owner: string): boolean | undefined {
    const node = this.layout.nodes.find((candidate) => candidate.owner === owner);
    return node && this.camera.sees(node.x, node.y, 0, 0);
  }

  lookAt(owner: string): void {
    const node = this.layout.nodes.find((candidate) => candidate.owner === owner);
    if (node) {
      this.camera.set({ x: node.x, y: node.y, scale: Math.max(this.camera.scale, 0.9) });
      this.sighted();
    }
  }

  private frame = (at: number): void => {
    this.request = requestAnimationFrame(this.frame);
    if (this.moving && this.last > 0) {
      this.time += Math.min(0.1, (at - this.last) / 1000);
    }
    this.last = at;
    const changed = this.update(at);
    // on the screen, not in the animation's time: a paused moment is reached too
    const mix = Math.min(1, (at / 1000 - this.glideFrom) / GLIDE);
    if (!changed && this.time === this.drawn.time && mix === this.drawn.mix) {
      return;
    }
    this.drawn = { time: this.time, mix };
    const { uniforms } = this.marks.uniforms;
    const { camera } = this;
    uniforms.uScale = camera.scale;
    uniforms.uShift.set(camera.shift);
    uniforms.uView.set([camera.width, camera.height]);
    uniforms.uTime = this.time;
    uniforms.uSinceDots = this.time - this.encoder.dotsAt;
    uniforms.uMix = mix;
    uniforms.uDetail = smooth(0.3, 0.5, camera.scale);
    this.renderer.render(this.stage);
  };

  /** Brings changes to the marks; whether there were any. */
  private update(at: number): boolean {
    const { samples, encoder, look } = this;
    const changed =
      this.placesChanged ||
      this.valuesChanged ||
      this.flagsChanged ||
      this.textsChanged ||
      this.pass !== null;
    if (!samples) {
      return changed;
    }
    if (this.placesChanged) {
      this.arrange(samples);
      if (this.layout.nodes.length <= AT_ONCE) {
        // Marks of before stand at other places: a machine that shows a frame a second has them right in the first.
        this.valuesChanged = false;
        Array.from(this.encode(samples, at));
      }
    }
    if (this.flagsChanged) {
      const wanted = look.search.toLowerCase();
      encoder.flag(
        look.selected,
        this.hovered,
        wanted === "" ? null : (owner) => !owner.toLowerCase().includes(wanted),
      );
      this.flagsChanged = false;
    }
    if (this.textsChanged) {
      const { camera } = this;
      encoder.texts(samples, camera.scale, camera.sees.bind(camera), look.off, look.colouring);
      this.textsAt = at;
      this.textsChanged = false;
    }
    if (this.valuesChanged && !this.pass) {
      // from the next frame on: in this one the new values were taken in
      this.valuesChanged = false;
      this.pass = this.encode(samples, at);
      return changed;
    }
    // A little in each frame: none may take long, however many nodes there are.
    const until = performance.now() + PASS_MS + this.layout.nodes.length * PASS_MS_BY_NODE - this.spentBefore;
    this.spentBefore = 0;
    while (this.pass) {
      if (this.pass.next().done) {
        this.pass = null;
      } else if (performance.now() > until) {
        break;
      }
    }
    return changed;
  }

  private arrange(samples: Samples): void {
    const { encoder, look, camera } = this;
    const frame = `${look.grain} ${(camera.width / camera.height).toFixed(2)}`;
    const places = placesKey(this.members);
    const before = frame === this.arranged.frame ? this.layout.made : null;
    const layout =
      before && places === this.arranged.places
        ? restated(this.layout, this.members, look.grain)
        : arrange(this.members, look.grain, camera.width, camera.height, before);
    this.arranged = { frame, places };
    encoder.place(layout, samples, this.moment, this.time);
    if (layout.nodes.length > 0) {
      camera.over(layout.width, layout.height);
    }
    this.boxes();
    this.pass = null;
    this.placesChanged = false;
    this.valuesChanged = true;
    this.flagsChanged = true;
    this.sighted();
  }

  /** Brings values to the marks, in steps of some nodes. */
  private *encode(samples: Samples, at: number): Generator<void> {
    const { encoder, look } = this;
    const now = this.time;
    const many = this.layout.nodes.length;
    encoder.resolve(samples);
    for (let from = 0; from < many; from += STEP) {
      encoder.level(from, Math.min(many, from + STEP), samples, look.colouring, this.scales.colour);
      yield;
    }
    for (let from = 0; from < many; from += STEP) {
      encoder.traffic(from, Math.min(many, from + STEP), samples, this.scales.traffic, now);
      yield;
    }
    encoder.upload(now);
    this.glideFrom = performance.now() / 1000;
    this.textsChanged ||= at - this.textsAt > TEXT_MS;
    this.rescale();
  }

  /** Scales grow with what is seen and shrink only with what is looked at: colours of a minute stay comparable. */
  private rescale(): void {
    const { most } = this.encoder;
    const colour = this.look.colouring.share ? 1 : nice(most.heat);
    const traffic = niceBytes(most.rate);
    if (colour !== this.scales.colour || traffic !== this.scales.traffic) {
      this.scales = { colour, traffic };
      this.valuesChanged = true;
      this.onScales(this.scales);
    }
  }

  private boxes(): void {
    const { boxes } = this.marks;
    const layout = this.layout;
    const line = rgb("line");
    const strong = rgb("line-strong");
    const panel = rgb("panel");
    boxes.reserve(layout.boxes.length);
    let n = 0;
    // from the outside in
    for (const kind of ["rack", "host"] as const) {
      for (const box of layout.boxes) {
        if (box.kind === kind) {
          boxes.data.set(
            [
              box.x,
              box.y,
              box.width,
              box.height,
              ...panel,
              kind === "host" ? 1 : 0.45,
              ...(kind === "host" ? line : strong),
              1,
              kind === "host" ? 7 : 10,
            ],
            n * boxes.stride,
          );
          n += 1;
        }
      }
    }
    boxes.upload(n);
    this.marks.count("box", n);
  }
}

const smooth = (from: number, to: number, value: number): number => {
  const t = Math.max(0, Math.min(1, (value - from) / (to - from)));
  return t * t * (3 - 2 * t);
};

/** A colour of theme.css as shares of red, green and blue. */
function rgb(name: string): [number, number, number] {
  const digits = color(name).slice(1);
  // the build shortens #ffffff
  const value = Number.parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16);
  return [((value >> 16) & 255) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}

function fill(into: Float32Array, names: string[]): void {
  into.set(names.flatMap(rgb));
}
