// Who belongs to the cluster at a moment: the newest row of each member up to then.

import type { Grain, Member, State } from "./wire";

export interface Placed extends Member {
  host: string;
  rack: string | null;
}

/** Host and rack as module `member_state` has them, of rows that come without. */
export function placed(member: Member): Placed {
  if (member.host !== undefined && member.host !== null) {
    return { ...member, host: member.host, rack: member.rack ?? null };
  }
  const parts = (member.place ?? "").split("/").filter(Boolean);
  return { ...member, host: parts.at(-1) ?? member.node, rack: parts.at(-2) ?? null };
}

/** A member that left is still shown so long. */
const GHOST_MS = 10_000;

export class Membership {
  /** By member, in order of time. */
  private rows = new Map<string, Placed[]>();
  /** All moments at which something changed, in order. */
  changes: Placed[] = [];

  /** Members that ever were. */
  get size(): number {
    return this.rows.size;
  }

  add(members: Member[]): void {
    let added = false;
    for (const member of members) {
      let rows = this.rows.get(member.member);
      const newest = rows?.at(-1);
      const before =
        newest && newest.since_ms > member.since_ms
          ? rows?.findLast((row) => row.since_ms <= member.since_ms)
          : newest;
      // Each chunk of recorded time says it of all anew.
      if (before && before.since_ms === member.since_ms && before.state === member.state) {
        continue;
      }
      rows ??= [];
      rows.push(placed(member));
      rows.sort((a, b) => a.since_ms - b.since_ms);
      this.rows.set(member.member, rows);
      added = true;
    }
    if (added) {
      this.changes = [...this.rows.values()].flat().sort((a, b) => a.since_ms - b.since_ms);
    }
  }

  /** The members at a moment, those that left a moment ago included. */
  at(ms: number): Placed[] {
    const found: Placed[] = [];
    for (const rows of this.rows.values()) {
      const row = rows.findLast((candidate) => candidate.since_ms <= ms);
      if (row && (row.state !== "left" || ms - row.since_ms < GHOST_MS)) {
        found.push(row);
      }
    }
    return found;
  }

  /** A text that is the same for moments with the same members, places and states. */
  key(ms: number): string {
    let last = 0;
    let ghosts = 0;
    for (const change of this.changes) {
      if (change.since_ms > ms) {
        break;
      }
      last += 1;
      ghosts += change.state === "left" && ms - change.since_ms < GHOST_MS ? 1 : 0;
    }
    return `${this.changes.length}:${last}:${ghosts}`;
  }
}

const WORST: State[] = ["failed", "down", "up", "standby", "left"];

/** The state to show of several members together. */
export function worst(states: State[]): State {
  return WORST.find((state) => states.includes(state)) ?? "up";
}

export function ownerOf(member: Placed, grain: Grain): string {
  return grain === "member" ? member.member : grain === "host" ? member.host : (member.rack ?? member.host);
}
