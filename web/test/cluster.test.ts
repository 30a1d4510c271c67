import { beforeAll, describe, expect, test, vi } from "vitest";
import { fromHash, INITIAL, toHash } from "../src/app/address";
import { arrange, placesKey, restated } from "../src/cluster/layout";
import { pause, stateText } from "../src/cluster/live";
import { highest, nice, niceBytes, sizes, slices, writeLatency } from "../src/cluster/measures";
import { Membership, ownerOf, placed, worst } from "../src/cluster/membership";
import { pack } from "../src/cluster/packing";
import { HOLD_MS, Samples } from "../src/cluster/samples";
import { Camera } from "../src/cluster/scene/camera";
import type { Member, State } from "../src/cluster/wire";

function member(name: string, part: Partial<Member> = {}): Member {
  const role = name.split(".")[0];
  return { member: name, role, node: "n", place: "r1/h1", state: "up", since_ms: 0, detail: null, ...part };
}

/** So many of a role, ten a host and a hundred a rack. */
const many = (role: string, count: number) =>
  Array.from({ length: count }, (_, i) =>
    placed(member(`${role}.${i}`, { place: `r${Math.floor(i / 100)}/${role}-h${Math.floor(i / 10)}`, role })),
  );

test("the highest are those a sort would put first", () => {
  const values = Array.from({ length: 500 }, (_, i) => (i % 7 === 0 ? Number.NaN : (i * 7919) % 211));
  const sorted = values.filter(Number.isFinite).sort((a, b) => b - a);
  for (const most of [1, 10, 1000]) {
    expect(highest(values, most, (value) => value).map(([, value]) => value)).toEqual(sorted.slice(0, most));
  }
  expect(highest([], 3, Number)).toEqual([]);
});

describe("samples", () => {
  test("a value holds for a while, then it is unknown", () => {
    const samples = new Samples();
    samples.declare([
      [7, "osd.0", "op", "write", null],
      [9, "osd.0", "op", "read", null],
    ]);
    samples.apply(1000, [7, 12.5, 9, 3.5]);
    const owner = samples.find("osd.0");
    expect(samples.sum("op", owner)).toBe(16);
    samples.apply(1000 + HOLD_MS, [9, 1]);
    expect(samples.sum("op", owner)).toBe(13.5);
    samples.apply(1001 + HOLD_MS, []);
    expect(samples.sum("op", owner)).toBe(1);
    expect(samples.of("op", "write", owner)).toBeNaN();
    expect(samples.sum("op_time", owner)).toBeNaN();
  });

  test("numbers mean what was declared last, and unknown ones nothing", () => {
    const samples = new Samples();
    samples.declare([[0, "a", "op", null, null]]);
    samples.forgetSeries();
    samples.declare([[0, "b", "op", null, null]]);
    samples.apply(1, [0, 5, 3, 8]);
    expect(samples.sum("op", samples.find("b"))).toBe(5);
    expect(samples.sum("op", samples.find("a"))).toBeNaN();
  });

  test("an answer's numbers are its own, beside the stream's", () => {
    const samples = new Samples();
    samples.declare([[0, "a", "op", "read", null]]);
    const names = pack([
      [0, "b", "op", "write", null],
      [2, "a", "op", "write", null],
      [1, "b", "io_size", "read", 512],
    ]);
    expect(names.owners).toEqual(["b", "a"]);
    expect(names.columns).toHaveLength(2);
    const targets = samples.bind(names);
    samples.apply(1, [0, 7, 1, 8, 2, 9], targets);
    samples.apply(1, [0, 4]);
    expect(samples.of("op", "write", samples.find("b"))).toBe(7);
    expect(samples.sum("io_size", samples.find("b"))).toBe(8);
    expect(samples.sum("op", samples.find("a"))).toBe(13);
    samples.apply(1, [3, 5], targets);
    expect(samples.sum("op", samples.find("b"))).toBe(7);
  });

  test("columns grow with owners and keep what was said", () => {
    const samples = new Samples();
    samples.declare([[0, "first", "op", null, null]]);
    samples.apply(1, [0, 4]);
    samples.declare(Array.from({ length: 1000 }, (_, i) => [i + 1, `m${i}`, "op", null, null]));
    samples.apply(2, [1000, 6]);
    expect(samples.sum("op", samples.find("first"))).toBe(4);
    expect(samples.sum("op", samples.find("m999"))).toBe(6);
    expect(samples.sum("op", samples.find("m998"))).toBeNaN();
  });
});

describe("measures", () => {
  const samples = new Samples();
  samples.declare([
    [0, "mds.a", "op", "open", null],
    [1, "mds.a", "op", "lookup", null],
    [2, "mds.a", "op", "getattr", null],
    [3, "mds.a", "op", "setxattr", null],
    [4, "osd.0", "io_size", "read", 512],
    [5, "osd.0", "io_size", "read", 4096],
    [6, "osd.0", "io_size", "write", 4194304],
    [7, "osd.0", "write", "small", null],
    [8, "osd.0", "write_time", "small", null],
  ]);
  samples.apply(1, [0, 4, 1, 2, 2, 1, 3, 1, 4, 10, 5, 40, 6, 20, 7, 50, 8, 1e8]);

  test("slices are shares of an MDS' operations", () => {
    const out = new Float32Array(8);
    expect(slices(samples, samples.find("mds.a"), out, 1)).toBe(8);
    expect([...out]).toEqual([0, 0.5, 0.375, 0, 0, 0, 0.125, 0]);
  });

  test("bars are parts of the most: reads, then writes", () => {
    const out = new Float32Array(12);
    expect(sizes(samples, samples.find("osd.0"), out, 0)).toBe(40);
    expect([...out]).toEqual([0.25, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5]);
  });

  test("a latency is time by writes", () => {
    expect(writeLatency("small")(samples, samples.find("osd.0"))).toBe(2e6);
    expect(writeLatency("large")(samples, samples.find("osd.0"))).toBeNaN();
  });

  test("scales end at round values", () => {
    expect([nice(0), nice(0.9), nice(1), nice(3), nice(70), nice(1e6)]).toEqual([1, 1, 1, 5, 100, 1e6]);
    expect([niceBytes(0), niceBytes(1000), niceBytes(1024), niceBytes(1025)]).toEqual([1, 1024, 1024, 2048]);
  });
});

describe("membership", () => {
  test("the newest row up to a moment holds", () => {
    const all = new Membership();
    const row = (state: State, since_ms: number) => member("osd.3", { state, since_ms });
    all.add([row("up", 100), row("failed", 500)]);
    all.add([row("down", 400), row("failed", 500), row("left", 900)]);
    const state = (ms: number) => all.at(ms)[0]?.state;
    expect([99, 100, 450, 500, 900, 900 + 10_000].map(state)).toEqual([
      undefined,
      "up",
      "down",
      "failed",
      "left",
      undefined,
    ]);
    expect(all.key(450)).not.toBe(all.key(500));
    expect(all.key(500)).toBe(all.key(899));
    expect(all.changes.length).toBe(4);
  });

  test("host and rack are read from the place; a host without a rack stands by itself", () => {
    expect(placed(member("osd.0", { place: "root/r1/h1" }))).toMatchObject({ host: "h1", rack: "r1" });
    expect(placed(member("osd.0", { place: null, node: "boot" }))).toMatchObject({
      host: "boot",
      rack: null,
    });
    const machine = placed(member("node-of-a-boot", { role: "host", place: "r1/h1" }));
    expect(machine).toMatchObject({ host: "h1", rack: "r1" });
    expect(ownerOf(placed(member("osd.0", { place: "h1" })), "rack")).toBe("h1");
  });

  test("a group is as bad as its worst member", () => {
    expect(worst(["up", "failed", "down"])).toBe("failed");
    expect(worst(["left", "up"])).toBe("up");
  });
});

describe("layout", () => {
  const cluster = [...many("client", 40), ...many("osd", 120), ...many("mds", 3)];

  test("every member has a place of its own", () => {
    const { nodes } = arrange(cluster, "member", 800, 600);
    expect(new Set(nodes.map((node) => node.owner)).size).toBe(cluster.length);
    for (const [i, a] of nodes.entries()) {
      for (const b of nodes.slice(i + 1)) {
        const apart =
          Math.abs(a.x - b.x) >= a.halfWidth + b.halfWidth - 1e-6 ||
          Math.abs(a.y - b.y) >= a.halfHeight + b.halfHeight - 1e-6;
        expect(apart, `${a.owner} over ${b.owner}`).toBe(true);
      }
    }
  });

  test("clients are above MDSs, those above OSDs", () => {
    const { nodes } = arrange(cluster, "member", 800, 600);
    const ys = (role: string) => nodes.filter((node) => node.role === role).map((node) => node.y);
    expect(Math.max(...ys("client"))).toBeLessThan(Math.min(...ys("mds")));
    expect(Math.max(...ys("mds"))).toBeLessThan(Math.min(...ys("osd")));
  });

  test("a host is where its members are, and one mark", () => {
    const members = arrange(cluster, "member", 800, 600);
    const hosts = arrange(cluster, "host", 800, 600);
    expect(hosts.nodes.length).toBe(4 + 12 + 1);
    expect(hosts.nodes.find((node) => node.owner === "osd-h3")?.members.length).toBe(10);
    expect(members.boxes.some((box) => box.kind === "host" && box.label === "osd-h3")).toBe(true);
    expect(arrange(cluster, "rack", 800, 600).nodes.length).toBe(2);
  });

  test("it has about the view's aspect", () => {
    for (const [width, height] of [
      [800, 600],
      [500, 900],
    ]) {
      const layout = arrange(cluster, "member", width, height);
      const ratio = layout.width / layout.height / (width / height);
      expect(ratio).toBeGreaterThan(0.6);
      expect(ratio).toBeLessThan(1.7);
    }
  });

  test("who comes or fails doesn't move the others", () => {
    const before = arrange(cluster, "member", 800, 600);
    const failed = cluster.map((one) =>
      one.member === "osd.7" ? { ...one, state: "failed" as const } : one,
    );
    expect(placesKey(failed)).toBe(placesKey(cluster));
    const after = restated(before, failed, "member");
    expect(after.nodes.find((node) => node.owner === "osd.7")?.state).toBe("failed");
    expect(after.nodes.map(({ x, y }) => [x, y])).toEqual(before.nodes.map(({ x, y }) => [x, y]));
    expect(after.boxes.find((box) => box.role === "osd" && box.kind === "band")?.label).toContain(
      "119 of 120 up",
    );
    const joined = arrange([...cluster, ...many("mon", 1)], "member", 800, 600, before.made);
    expect(joined.made.most).toBe(before.made.most);
  });

  test("nobody is no layout", () => {
    expect(arrange([], "member", 800, 600).nodes).toEqual([]);
  });
});

describe("address", () => {
  test("a view survives the way through a link", () => {
    const view = {
      ...INITIAL,
      moment: 1_760_000_050_123,
      playing: false,
      speed: 4,
      colouring: "busy",
      off: new Set(["pie", "names"] as const),
      grain: "host" as const,
      selected: new Set(["osd.1", "node/ä&=,x".replace(",", ";")]),
      search: "osd",
      sight: { x: 120, y: -4, scale: 0.5 },
      than: 1_760_000_000_000,
    };
    expect(fromHash(`#${toHash(view)}`)).toEqual(view);
    expect(fromHash(`#${toHash(INITIAL)}`)).toEqual(INITIAL);
  });

  test("nonsense is as if it weren't there", () => {
    expect(fromHash("#t=x&speed=1e9&colour=nope&off=a,b&by=planet&sight=1,2&than=-5")).toEqual(INITIAL);
    expect(fromHash("#sight=1,2,0")).toEqual(INITIAL);
  });
});

describe("live stream", () => {
  test("pauses grow up to a bound, and differ", () => {
    expect([0, 1, 2, 3].map((tries) => pause(tries, 0.5))).toEqual([500, 1000, 2000, 4000]);
    expect(pause(50, 1)).toBeCloseTo(18_000);
    expect(pause(3, 0)).toBeLessThan(pause(3, 1));
  });

  test("its state is said", () => {
    expect(stateText({ kind: "live", behind: 314 }, 0)).toBe("live · 0.3 s behind");
    expect(stateText({ kind: "lost", at: 5_200, reason: "" }, 3_300)).toBe("stream lost, retrying in 2 s");
    expect(stateText({ kind: "silent", since: 1_000 }, 7_000)).toBe("stream silent for 6 s");
  });
});

describe("camera", () => {
  test("a point under the pointer stays there when one comes nearer", () => {
    const camera = new Camera();
    camera.view(800, 600);
    camera.over(4000, 2000);
    expect(camera.fitted).toBe(true);
    const before = camera.toWorld(200, 150);
    camera.zoom(3, 200, 150);
    const after = camera.toWorld(200, 150);
    expect(after[0]).toBeCloseTo(before[0]);
    expect(after[1]).toBeCloseTo(before[1]);
    expect(camera.fitted).toBe(false);
    camera.zoom(0.01);
    expect(camera.fitted).toBe(true);
    expect(camera.sees(0, 0, 4000, 2000)).toBe(true);
  });

  test("a link's sight holds until there is a layout, and then", () => {
    const camera = new Camera();
    camera.view(800, 600);
    camera.set({ x: 900, y: 300, scale: 2 });
    camera.over(4000, 2000);
    expect([camera.x, camera.y, camera.scale]).toEqual([900, 300, 2]);
    camera.over(600, 200);
    expect([camera.x, camera.y]).toEqual([600, 200]);
  });
});

describe("recording", () => {
  // the worker that asks isn't there without a browser
  let recording: typeof import("../src/cluster/recording");
  const asked: { id: number; url?: string; stop?: true }[] = [];
  let answer: (message: object) => void = () => {};
  beforeAll(async () => {
    class FakeWorker {
      set onmessage(listener: (event: { data: object }) => void) {
        answer = (data) => listener({ data });
      }
      postMessage(message: { id: number }) {
        asked.push(message);
      }
    }
    vi.stubGlobal("Worker", FakeWorker);
    vi.stubGlobal("location", { href: "http://localhost/" });
    recording = await import("../src/cluster/recording");
  });

  test("a chunk ends with its last frame", () => {
    const record = new recording.Recording();
    record.look({ by: "member", metrics: ["op"], every_ms: 1000 }, 10);
    expect(record.length).toBe(30_000);
    expect([record.chunkOf(30_000), record.chunkOf(30_001), record.chunkOf(60_000)]).toEqual([0, 1, 1]);
    expect(recording.chunkFrames(10_000)).toBe(2);
  });

  test("it is asked for once, given up when unwanted, and again while the trail grows into it", async () => {
    vi.useFakeTimers();
    asked.length = 0;
    const record = new recording.Recording();
    record.look({ by: "member", metrics: ["op"], every_ms: 1000 }, 10);
    expect(record.chunk(3, 100_000).found).toBe(null);
    record.chunk(3, 100_000);
    expect(asked.length).toBe(1);
    expect(asked[0].url).toContain("start_ms=90000&end_ms=120000&every_ms=1000&by=member&metrics=op");
    answer({ id: asked[0].id, found: { members: [], series: [], frames: [] } });
    await vi.advanceTimersByTimeAsync(2_500);
    expect(record.chunk(3, Date.now() + 1e9).found).not.toBe(null);
    expect(asked.length).toBe(2);
    record.chunk(9, 1e6);
    record.only([3]);
    expect(asked.at(-1)).toMatchObject({ stop: true });
    vi.useRealTimers();
  });
});
