import { describe, expect, test } from "vitest";
import { BEGINS_S, Detector, holdsAt, WARM_MS } from "../src/cluster/notices";
import type { Member, Series, State } from "../src/cluster/wire";

const METRICS = ["op", "op_time", "op_active", "disk_busy"];
const WARM_S = WARM_MS / 1000;

function row(member: string, state: State, since_ms: number, detail: string | null = null): Member {
  return { member, role: "osd", node: "n", place: "r1/h1", state, since_ms, detail };
}

interface Doing {
  ops?: number;
  /** Response time in ms. */
  ms?: number;
  active?: number;
  busy?: number;
}

/** Some OSDs, and what they do second by second: a quiet rhythm but for what `doing` says. */
class Osds {
  readonly detector = new Detector();
  private second = 0;

  constructor(private many: number) {
    this.detector.members(Array.from({ length: many }, (_, i) => row(`osd.${i}`, "up", 0)));
    const series = Array.from({ length: many }, (_, i) =>
      METRICS.map((metric, m): Series => [i * METRICS.length + m, `osd.${i}`, metric, null, null]),
    );
    this.detector.declare(series.flat());
  }

  get now(): number {
    return this.second * 1000;
  }

  skip(seconds: number): void {
    this.second += seconds;
  }

  run(seconds: number, doing: (osd: number, second: number) => Doing = () => ({})): void {
    for (let s = 0; s < seconds; s++) {
      this.second += 1;
      const values: number[] = [];
      for (let i = 0; i < this.many; i++) {
        const { ops = 100, ms = 5 + (this.second % 5) * 0.2, active = 1, busy = 0.3 } = doing(i, s);
        for (const [m, value] of [ops, ops * ms * 1e6, active, busy * 1e9].entries()) {
          values.push(i * METRICS.length + m, value);
        }
      }
      this.detector.frame(this.now, values);
    }
  }

  get said(): string[] {
    return this.detector.notices.map((notice) => `${notice.member} ${notice.what}`);
  }
}

describe("notices", () => {
  test("a member whose requests take longer than they used to, while its peers' don't", () => {
    const osds = new Osds(6);
    osds.run(WARM_S + 60);
    expect(osds.said).toEqual([]);
    const start = osds.now;
    osds.run(60, (osd) => (osd === 3 ? { ms: 16 } : {}));
    expect(osds.said).toEqual(["osd.3 response time"]);
    const [notice] = osds.detector.notices;
    expect(notice.text).toBe("16.0 ms, usually 5.40 ms");
    expect(notice.since_ms).toBeGreaterThan(start);
    expect(notice.since_ms).toBeLessThan(start + 5000);
    expect(holdsAt(notice, osds.now)).toBe(true);
    osds.run(20);
    expect(notice.until_ms).toBeGreaterThan(start + 60_000);
    expect(holdsAt(notice, osds.now)).toBe(false);
    expect(holdsAt(notice, start)).toBe(false);
  });

  test("what all members of a role do is what they are asked for", () => {
    const osds = new Osds(6);
    osds.run(WARM_S + 60);
    osds.run(60, () => ({ ms: 16, busy: 0.9 }));
    expect(osds.said).toEqual([]);
    osds.run(60, (osd) => ({ ms: osd === 2 ? 70 : 16, busy: 0.9 }));
    expect(osds.said).toEqual(["osd.2 response time"]);
  });

  test("seconds that are not in a row are none, nor is what nobody is concerned about", () => {
    const osds = new Osds(3);
    osds.run(WARM_S + 60);
    osds.run(BEGINS_S - 2, (osd) => (osd === 0 ? { ms: 50 } : {}));
    osds.run(30);
    osds.run(120, (_, second) => (second % 20 === 0 ? { ms: 500 } : {}));
    expect(osds.said).toEqual([]);
    const quick = new Osds(1);
    quick.run(WARM_S + 60, () => ({ ms: 0.1 }));
    quick.run(60, () => ({ ms: 0.9 }));
    expect(quick.said).toEqual([]);
  });

  test("requests that don't end, of a member that usually ends some", () => {
    const osds = new Osds(3);
    osds.run(WARM_S + 60, (osd) => (osd === 2 ? { ops: 0 } : {}));
    osds.run(20, (osd) => (osd === 1 ? { ops: 0, active: 12 } : osd === 2 ? { ops: 0, active: 1 } : {}));
    expect(osds.said).toContain("osd.1 stuck");
    expect(osds.said.filter((each) => each.endsWith("stuck"))).toHaveLength(1);
  });

  test("a member that failed, from down on, at once and also without samples", () => {
    const detector = new Detector();
    detector.members([row("osd.0", "up", 0), row("osd.1", "up", 0)]);
    detector.members([row("osd.0", "down", 5000, "doesn't answer")]);
    detector.members([row("osd.0", "failed", 7000)]);
    const [notice] = detector.notices;
    expect(notice).toMatchObject({
      member: "osd.0",
      what: "failed",
      since_ms: 5000,
      until_ms: null,
      state: true,
    });
    // a hello says it again
    detector.members([row("osd.0", "failed", 7000), row("osd.1", "up", 0)]);
    expect(detector.notices).toHaveLength(1);
    detector.members([row("osd.0", "up", 9000)]);
    expect(notice.until_ms).toBe(9000);
    detector.members([row("osd.0", "down", 12_000)]);
    expect(detector.notices.map((each) => each.since_ms)).toEqual([12_000, 5000]);
  });

  test("after a jump in time nothing is usual", () => {
    const osds = new Osds(1);
    osds.run(WARM_S + 60);
    osds.skip(3600);
    osds.run(60, () => ({ ms: 50 }));
    expect(osds.said).toEqual([]);
  });
});
