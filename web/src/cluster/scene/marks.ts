// The four kinds of marks as meshes of pixi.js: boxes, nodes, dots of traffic, letters. One draw call each.

import { Buffer, BufferUsage, Geometry, GlProgram, Mesh, Shader, type Texture, UniformGroup } from "pixi.js";
import {
  BOX_FRAGMENT,
  BOX_VERTEX,
  DOT_FRAGMENT,
  DOT_VERTEX,
  NODE_FRAGMENT,
  NODE_VERTEX,
  TEXT_FRAGMENT,
  TEXT_VERTEX,
} from "./shaders";

const CORNERS = new Float32Array([-1, -1, 1, -1, 1, 1, -1, 1]);
const INDICES = new Uint32Array([0, 1, 2, 0, 2, 3]);

/** What all shaders take. The program says which of it it uses. */
export function uniforms() {
  return new UniformGroup({
    uScale: { value: 1, type: "f32" },
    uShift: { value: new Float32Array(2), type: "vec2<f32>" },
    uView: { value: new Float32Array([1, 1]), type: "vec2<f32>" },
    uTime: { value: 0, type: "f32" },
    uSinceDots: { value: 0, type: "f32" },
    uDetail: { value: 1, type: "f32" },
    uMix: { value: 1, type: "f32" },
    uRamp: { value: new Float32Array(18), type: "vec3<f32>", size: 6 },
    uSlices: { value: new Float32Array(18), type: "vec3<f32>", size: 6 },
    uInk: { value: new Float32Array(33), type: "vec3<f32>", size: 11 },
    uShow: { value: new Float32Array(5), type: "f32", size: 5 },
    uShowLane: { value: new Float32Array(2), type: "vec2<f32>" },
    uTraffic: { value: new Float32Array(12), type: "vec3<f32>", size: 4 },
    uTextInk: { value: new Float32Array(12), type: "vec3<f32>", size: 4 },
    uRatio: { value: 1, type: "f32" },
    uAtlasSize: { value: new Float32Array([1, 1]), type: "vec2<f32>" },
  });
}
export type Uniforms = ReturnType<typeof uniforms>;

/** Attributes that lie one after another in each instance's part of an array. */
type Fields = [name: string, floats: 1 | 2 | 4][];

const FORMAT = { 1: "float32", 2: "float32x2", 4: "float32x4" } as const;

/** An array of instances that grows. */
export class Instances {
  data: Float32Array;
  readonly stride: number;
  readonly buffer: Buffer;

  constructor(
    readonly fields: Fields,
    capacity = 256,
  ) {
    this.stride = fields.reduce((sum, [, floats]) => sum + floats, 0);
    this.data = new Float32Array(capacity * this.stride);
    this.buffer = new Buffer({ data: this.data, usage: BufferUsage.VERTEX | BufferUsage.COPY_DST });
  }

  /** Room for so many; what was there stays. */
  reserve(count: number): void {
    if (count * this.stride > this.data.length) {
      const larger = new Float32Array(Math.max(count * this.stride, this.data.length * 2));
      larger.set(this.data);
      this.data = larger;
      this.buffer.data = larger;
    }
  }

  /** Hand the first so many to the graphics card. */
  upload(count: number): void {
    this.buffer.update(count * this.stride * 4);
  }
}

function mesh(
  name: string,
  vertex: string,
  fragment: string,
  shared: Uniforms,
  parts: Instances[],
  atlas?: Texture,
): Mesh<Geometry, Shader> {
  const geometry = new Geometry({
    attributes: { aCorner: { buffer: CORNERS, format: "float32x2" } },
    indexBuffer: INDICES,
    topology: "triangle-list",
    instanceCount: 0,
  });
  for (const part of parts) {
    let offset = 0;
    for (const [field, floats] of part.fields) {
      geometry.addAttribute(field, {
        buffer: part.buffer,
        format: FORMAT[floats],
        stride: part.stride * 4,
        offset,
        instance: true,
      });
      offset += floats * 4;
    }
  }
  const shader = new Shader({
    glProgram: GlProgram.from({ name, vertex, fragment }),
    resources: { shared, ...(atlas ? { uAtlas: atlas.source } : {}) },
  });
  return new Mesh<Geometry, Shader>({ geometry, shader });
}

export class Marks {
  readonly uniforms = uniforms();
  /** Changes with the layout. */
  readonly boxes = new Instances([
    ["aRect", 4],
    ["aFill", 4],
    ["aStroke", 4],
    ["aRound", 1],
  ]);
  readonly places = new Instances([
    ["aPlace", 4],
    ["aForm", 4],
    ["aFar", 4],
  ]);
  /** Changes with the values. */
  readonly levels = new Instances([
    ["aLevel", 4],
    ["aPie0", 4],
    ["aPie1", 4],
    ["aBars0", 4],
    ["aBars1", 4],
    ["aBars2", 4],
  ]);
  readonly dots = new Instances(
    [
      ["aLane", 4],
      ["aMove", 4],
    ],
    4096,
  );
  readonly letters = new Instances(
    [
      ["aAt", 4],
      ["aGlyph", 4],
      ["aInk", 1],
    ],
    4096,
  );
  readonly meshes: Record<"box" | "node" | "dot" | "text", Mesh<Geometry, Shader>>;

  constructor(atlas: Texture) {
    const shared = this.uniforms;
    this.meshes = {
      box: mesh("box", BOX_VERTEX, BOX_FRAGMENT, shared, [this.boxes]),
      node: mesh("node", NODE_VERTEX, NODE_FRAGMENT, shared, [this.places, this.levels]),
      dot: mesh("dot", DOT_VERTEX, DOT_FRAGMENT, shared, [this.dots]),
      text: mesh("text", TEXT_VERTEX, TEXT_FRAGMENT, shared, [this.letters], atlas),
    };
  }

  /** How many of a mark are drawn. */
  count(kind: keyof Marks["meshes"], instances: number): void {
    this.meshes[kind].geometry.instanceCount = instances;
    this.meshes[kind].visible = instances > 0;
  }

  destroy(): void {
    for (const each of Object.values(this.meshes)) {
      each.geometry.destroy(true);
      each.shader?.destroy();
      each.destroy();
    }
  }
}
