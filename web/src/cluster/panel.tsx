// Beside the picture: what is selected in numbers and over time; of nothing selected, the cluster and its hottest.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, count, rate, time } from "../format/units";
import { color, type Theme } from "../theme/theme";
import { History } from "./history";
import { title } from "./layout";
import {
  type Colouring,
  cacheHits,
  cpu,
  diskBusy,
  highest,
  percent,
  type Reading,
  received,
  responseTime,
  sent,
  spaceUsed,
  writeLatency,
} from "./measures";
import { ownerOf, type Placed } from "./membership";
import type { Player } from "./player";
import type { Samples } from "./samples";
import type { Grain } from "./wire";

/** Numbers of an owner, where it has them. */
const NUMBERS: [string, Reading, (value: number) => string][] = [
  ["CPU", cpu, percent],
  ["load average", (s, o) => s.sum("load", o), (v) => count(v)],
  ["memory", (s, o) => s.sum("daemon_memory", o), (v) => bytes(v)],
  ["requests", (s, o) => s.sum("op", o), (v) => `${count(v)}/s`],
  ["response time", responseTime, (v) => time(v)],
  ["received", received, rate],
  ["sent", sent, rate],
  ["replicas received", (s, o) => s.sum("replica_in", o), rate],
  ["replicas sent", (s, o) => s.sum("replica_out", o), rate],
  ["disk busy", diskBusy, percent],
  ["space used", spaceUsed, percent],
  ["small writes", writeLatency("small"), (v) => time(v)],
  ["large writes", writeLatency("large"), (v) => time(v)],
  ["cache hits", cacheHits, percent],
  ["dirty", (s, o) => s.sum("cache_dirty", o), (v) => bytes(v)],
  ["journal flushes", (s, o) => s.sum("journal_flush", o), (v) => `${count(v)}/s`],
  ["journal latency", (s, o) => s.sum("journal_time", o) / s.sum("journal_flush", o), (v) => time(v)],
  ["exports", (s, o) => s.of("export", "out", o), (v) => `${count(v)}/s`],
];

export function readings(samples: Samples, owner: number): [string, string][] {
  return NUMBERS.map(([name, read, format]): [string, number, (value: number) => string] => [
    name,
    read(samples, owner),
    format,
  ])
    .filter(([, value]) => Number.isFinite(value))
    .map(([name, value, format]) => [name, format(value)]);
}

/** What is drawn over time of one owner. */
const COURSES: { name: string; read: Reading; format: (value: number) => string; color: string }[] = [
  { name: "requests", read: (s, o) => s.sum("op", o), format: (v) => `${count(v)}/s`, color: "accent" },
  { name: "response time", read: responseTime, format: (v) => time(v), color: "high" },
  {
    name: "traffic",
    read: (s, o) => received(s, o) + sent(s, o),
    format: rate,
    color: "traffic-out",
  },
];
const COURSE_METRICS = ["op", "op_time", "message_in", "message_out", "network_in", "network_out"];
/** More would only be lines on top of each other. */
const MOST_COURSES = 4;

export interface PanelProps {
  player: Player;
  /** Grows with the player's samples, a few times a second. */
  tick: number;
  members: Placed[];
  grain: Grain;
  colouring: Colouring;
  selected: ReadonlySet<string>;
  theme: Theme;
  trail: boolean;
  onSelect: (owners: string[], more: boolean) => void;
  onGo: (owner: string) => void;
  /** Shows the requests in which the selected one had a part. */
  onRequests: () => void;
}

export function Panel(props: PanelProps) {
  const owners = useMemo(() => {
    const found = new Map<string, Placed[]>();
    for (const member of props.members) {
      const owner = ownerOf(member, props.grain);
      const together = found.get(owner);
      if (together) {
        together.push(member);
      } else {
        found.set(owner, [member]);
      }
    }
    return found;
  }, [props.members, props.grain]);
  return (
    <aside class="side-panel" aria-label={props.selected.size > 0 ? "Selection" : "Cluster"}>
      {props.selected.size > 0 ? (
        <Selection {...props} owners={owners} />
      ) : (
        <Cluster {...props} owners={owners} />
      )}
    </aside>
  );
}

type Inner = PanelProps & { owners: Map<string, Placed[]> };

/** An owner, its number among the samples (-1: it has none), and of how many members it is. */
type Numbered = [owner: string, number: number, many: number];

/** How many there are of each role and how many of them are up, and who doesn't answer. */
function census(members: readonly Placed[]): {
  roles: Map<string, { all: number; up: number }>;
  trouble: Placed[];
} {
  const roles = new Map<string, { all: number; up: number }>();
  const trouble: Placed[] = [];
  for (const member of members) {
    const role = roles.get(member.role) ?? { all: 0, up: 0 };
    roles.set(member.role, role);
    role.all += 1;
    role.up += member.state === "up" ? 1 : 0;
    if (member.state === "failed" || member.state === "down") {
      trouble.push(member);
    }
  }
  return { roles, trouble };
}

function Cluster({ player, members, owners, colouring, grain, onSelect, onGo }: Inner) {
  const { samples } = player;
  const { roles, trouble } = useMemo(() => census(members), [members]);
  // Found once: their names would be looked up ten thousand times a second.
  const numbered = useMemo(
    () => [...owners].map(([owner, all]): Numbered => [owner, samples.find(owner), all.length]),
    [owners, samples, samples.owners.length],
  );
  const ranked = highest(numbered, 10, ([, number, many]) => {
    const value = number < 0 ? Number.NaN : colouring.read(samples, number);
    return grain === "member" || !colouring.share ? value : value / many;
  });
  const most = colouring.share ? 1 : (ranked[0]?.[1] ?? 1);
  return (
    <>
      <section>
        <h2>Members</h2>
        <dl class="numbers">
          {[...roles].map(([role, { all, up }]) => (
            <div key={role}>
              <dt>{title(role)}</dt>
              <dd>{up === all ? all : `${up} of ${all} up`}</dd>
            </div>
          ))}
        </dl>
      </section>
      {trouble.length > 0 && (
        <section>
          <h2>Not answering</h2>
          <ul class="rows">
            {trouble.slice(0, 8).map((member) => (
              <li key={member.member}>
                <button type="button" onClick={() => onGo(ownerOf(member, grain))}>
                  <i class={`state ${member.state}`} />
                  <span>{member.member}</span>
                  <b>{member.state}</b>
                </button>
                {member.detail && <p>{member.detail}</p>}
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2>Highest {colouring.name}</h2>
        <ul class="rows" data-ranking={colouring.id}>
          {ranked.map(([[owner], value]) => (
            <li key={owner}>
              <button type="button" onClick={() => onSelect([owner], false)} onDblClick={() => onGo(owner)}>
                <span>{owner}</span>
                <em>
                  <i style={{ width: `${Math.min(100, (100 * value) / most)}%` }} />
                </em>
                <b>{colouring.format(value)}</b>
              </button>
            </li>
          ))}
        </ul>
        {ranked.length === 0 && <p class="muted">No samples at this moment.</p>}
      </section>
    </>
  );
}

function Selection({
  player,
  tick,
  owners,
  selected,
  grain,
  theme,
  trail,
  onSelect,
  onGo,
  onRequests,
}: Inner) {
  const shown = [...selected];
  return (
    <>
      <header class="selection-head">
        <h2>{shown.length === 1 ? "Selected" : `${shown.length} selected`}</h2>
        {trail && shown.length === 1 && grain === "member" && (
          <button type="button" class="link" onClick={onRequests} title="Where the time of its requests went">
            requests
          </button>
        )}
        <button type="button" class="link" onClick={() => onSelect([], false)}>
          clear
        </button>
      </header>
      {shown.slice(0, 40).map((owner, i) => {
        const members = owners.get(owner) ?? [];
        const number = player.samples.find(owner);
        const one = members.length === 1 ? members[0] : null;
        const where = one ? [one.rack, one.host].filter(Boolean).join(" / ") : `${members.length} members`;
        return (
          <section key={owner} data-owner={owner}>
            <h3>
              <button type="button" class="link" onClick={() => onGo(owner)} title="Go there">
                {owner}
              </button>
              {one && one.state !== "up" && <span class={`state-text ${one.state}`}>{one.state}</span>}
              <small>{members.length > 0 ? where : "not there at this moment"}</small>
            </h3>
            {one?.detail && <p class="detail">{one.detail}</p>}
            {i < MOST_COURSES && trail && (
              <Courses player={player} tick={tick} owner={owner} grain={grain} theme={theme} />
            )}
            {number >= 0 && (
              <dl class="numbers">
                {readings(player.samples, number).map(([name, value]) => (
                  <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
            )}
          </section>
        );
      })}
      {shown.length > 40 && <p class="muted">and {shown.length - 40} more</p>}
    </>
  );
}

function Courses({
  player,
  tick,
  owner,
  grain,
  theme,
}: {
  player: Player;
  tick: number;
  owner: string;
  grain: Grain;
  theme: Theme;
}) {
  const history = useMemo(
    () =>
      new History(
        owner,
        COURSES.map((course) => course.read),
      ),
    [owner, grain],
  );
  const [, filled] = useState(0);
  const filledAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => () => history.close(), [history]);
  useEffect(() => {
    const { moment } = player;
    history.add(player.samples, moment);
    // at first, after a jump, and now and then what was missed meanwhile
    if (Math.abs(moment - filledAt.current) > 20_000) {
      filledAt.current = moment;
      history.fill(grain, COURSE_METRICS, moment).then(
        () => filled((n) => n + 1),
        () => {},
      );
    }
  }, [tick, history]);
  return (
    <div class="courses">
      {COURSES.map((course, i) => (
        <Course key={course.name} history={history} index={i} moment={player.moment} theme={theme} />
      ))}
    </div>
  );
}

const WIDTH = 248;
const HEIGHT = 34;

function Course({
  history,
  index,
  moment,
  theme,
}: {
  history: History;
  index: number;
  moment: number;
  theme: Theme;
}) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const course = COURSES[index];
  const { ts, values } = history.course(index);
  const most = Math.max(0, ...values.map((value) => value ?? 0));
  useEffect(() => {
    if (!box.current) {
      return;
    }
    const stroke = color(course.color);
    const made = new uPlot(
      {
        width: WIDTH,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [2, 0, 1, 0],
        scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : 1] } },
        axes: [{ show: false }, { show: false }],
        series: [{}, { stroke, width: 1.25, fill: `${stroke}22`, points: { show: false } }],
      },
      [[], []],
      box.current,
    );
    chart.current = made;
    return () => made.destroy();
  }, [theme]);
  useEffect(() => {
    chart.current?.setData([ts, values] as uPlot.AlignedData, false);
    chart.current?.setScale("x", { min: moment / 1000 - 120, max: moment / 1000 });
  });
  const last = values.at(-1) ?? null;
  return (
    <figure>
      <figcaption>
        <span>{course.name}</span>
        <small>max {course.format(most)}</small>
        <b>{last === null ? "–" : course.format(last)}</b>
      </figcaption>
      <div
        ref={box}
        style={{ height: `${HEIGHT}px` }}
        role="img"
        aria-label={`${course.name} of two minutes`}
      />
    </figure>
  );
}
