// Where in its cell a node's body, lanes and texts are, by shape. Near by it is a body; far away a tile, that leaves
// the lanes of traffic free. Lengths are in the world's pixels from the cell's middle, y downwards.

import type { Node, Shape } from "../layout";

export interface Form {
  number: number;
  /** Of the body near by. */
  radius: number;
  middle: number;
  /** Middle and half of the tile. */
  farMiddle: number;
  farWidth: number;
  farHeight: number;
  /** Traffic with clients or servers: from the rail to the body, near and far. */
  lane: [near: [rail: number, body: number], far: [rail: number, body: number]];
  /** Traffic of replicas. */
  replica: [near: [rail: number, body: number], far: [rail: number, body: number]] | null;
  /** Tops of the name and of the values under it. */
  name: number;
  values: number;
}

const FORMS: Record<Exclude<Shape, "box">, Form> = {
  circle: {
    number: 0,
    radius: 19,
    middle: -22,
    farMiddle: 1,
    farWidth: 40,
    farHeight: 46,
    lane: [
      [-74, -52],
      [-74, -45],
    ],
    replica: [
      [28, 8],
      [74, 47],
    ],
    name: 54,
    values: 66,
  },
  hexagon: {
    number: 1,
    radius: 32,
    middle: -6,
    farMiddle: 10,
    farWidth: 52,
    farHeight: 48,
    lane: [
      [-65, -38],
      [-65, -38],
    ],
    replica: null,
    name: 30,
    values: 43,
  },
  square: {
    number: 2,
    radius: 18,
    middle: -12,
    farMiddle: -11,
    farWidth: 31,
    farHeight: 33,
    lane: [
      [46, 8],
      [47, 22],
    ],
    replica: null,
    name: -47,
    values: 8,
  },
  diamond: {
    number: 3,
    radius: 20,
    middle: -6,
    farMiddle: 0,
    farWidth: 26,
    farHeight: 30,
    lane: [
      [-36, -24],
      [-36, -30],
    ],
    replica: null,
    name: 17,
    values: 28,
  },
};

export function form(node: Node): Form {
  if (node.shape !== "box") {
    return FORMS[node.shape];
  }
  const { halfWidth, halfHeight } = node;
  const lane = Math.min(16, halfHeight * 0.3);
  const replica = node.role === "osd" ? lane : 0;
  const rail: [number, number] = [-halfHeight, -halfHeight + lane];
  const bottom: [number, number] = [halfHeight, halfHeight - replica];
  // clients stand above what they use
  const down = node.role === "client";
  return {
    number: 4,
    radius: Math.min(halfWidth, halfHeight) * 0.7,
    middle: 0,
    farMiddle: down ? -lane / 2 : (lane - replica) / 2,
    farWidth: halfWidth - 4,
    farHeight: halfHeight - (lane + replica) / 2 - 1,
    lane: down
      ? [
          [halfHeight, halfHeight - lane],
          [halfHeight, halfHeight - lane],
        ]
      : [rail, rail],
    replica: replica > 0 ? [bottom, bottom] : null,
    name: -halfHeight + lane + 5,
    values: -halfHeight + lane + 18,
  };
}
