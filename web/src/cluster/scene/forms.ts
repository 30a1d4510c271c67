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
  /** Tops of the name and of the values, which follow it if they are the same. */
  name: number;
  /** From the top of a name that stands above its body down to that. */
  above?: number;
  values: number;
}

const FORMS: Record<Exclude<Shape, "box">, Form> = {
  circle: {
    number: 0,
    radius: 22,
    middle: -20,
    farMiddle: 4,
    farWidth: 41,
    farHeight: 57,
    lane: [
      [-87, -55],
      [-87, -53],
    ],
    replica: [
      [38, 15],
      [87, 61],
    ],
    name: 65,
    values: 65,
  },
  hexagon: {
    number: 1,
    radius: 34,
    middle: -4,
    farMiddle: 8,
    farWidth: 54,
    farHeight: 56,
    lane: [
      [-73, -40],
      [-73, -48],
    ],
    replica: null,
    name: 36,
    values: 36,
  },
  square: {
    number: 2,
    radius: 20,
    middle: -16,
    farMiddle: -13,
    farWidth: 33,
    farHeight: 40,
    lane: [
      [34, 6],
      [55, 27],
    ],
    replica: null,
    name: -55,
    above: 17,
    values: 36,
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

/** Half of the cells for which the forms above are. */
const HALVES: Record<Exclude<Shape, "box">, number> = { circle: 88, hexagon: 74, square: 66, diamond: 38 };

export function form(node: Node): Form {
  if (node.shape !== "box") {
    // a taller cell has its room at the bottom
    const up = HALVES[node.shape] - node.halfHeight;
    const f = FORMS[node.shape];
    const moved = ([near, far]: Form["lane"]): Form["lane"] => [
      [near[0] + up, near[1] + up],
      [far[0] + up, far[1] + up],
    ];
    return up === 0
      ? f
      : {
          ...f,
          middle: f.middle + up,
          farMiddle: f.farMiddle + up,
          lane: moved(f.lane),
          replica: f.replica && moved(f.replica),
          name: f.name + up,
          values: f.values + up,
        };
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
    name: (down ? -halfHeight : -halfHeight + lane) + 5,
    values: (down ? -halfHeight : -halfHeight + lane) + 5,
  };
}
