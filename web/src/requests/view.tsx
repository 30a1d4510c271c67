// Requests: how long they took over time, the slowest, where the time of those that are left went, and one's way.
// A member or machine selected in the cluster leaves those in which it had a part.

import { useMemo } from "preact/hooks";
import type { View } from "../app/address";
import type { Info } from "../cluster/wire";
import { bytes, count, time } from "../format/units";
import type { Theme } from "../theme/theme";
import {
  type Answer,
  type Filter,
  type HeatMap,
  type Kind,
  known,
  type LatencyGraph,
  type OnePath,
  type Overview,
  SPANS,
  useAnswer,
  words,
} from "./ask";
import { Graph } from "./graph";
import { HeatChart } from "./heat";
import { PathTree } from "./path";
import "./requests.css";

interface Props {
  info: Info;
  view: View;
  change: (part: Partial<View>) => void;
  theme: Theme;
}

const spanName = (seconds: number): string =>
  seconds === 0 ? "all time" : seconds < 60 ? `${seconds} s` : `${seconds / 60} min`;
const COLUMNS = 120;

export function RequestsView({ info, view, change, theme }: Props) {
  const through = [...view.selected][0] ?? null;
  // Of a live stream the moment is now, taken once: the picture stands still while one looks at it.
  const end = useMemo(
    () => view.moment ?? (info.live ? Date.now() : null),
    [view.moment, info.live, view.span],
  );
  const filter: Filter = {
    client: view.client,
    op: view.op,
    component: view.component,
    through,
    start_ms: view.span === 0 || end === null ? null : Math.round(end - view.span * 1000),
    end_ms: view.span === 0 || end === null ? null : Math.round(end),
  };
  const overview = useAnswer<Overview>(`api/requests?${words(filter)}`);
  const seen = known(overview);
  const [from, to] = [filter.start_ms ?? seen?.start_ms ?? null, filter.end_ms ?? seen?.end_ms ?? null];
  const every = from === null || to === null ? 1 : Math.max(1, Math.ceil((to + 1 - from) / COLUMNS));
  const heat = useAnswer<HeatMap>(
    from === null || to === null || !seen?.count
      ? null
      : `api/heat?${words({ ...filter, start_ms: from, end_ms: to + 1 }, { every_ms: every })}`,
  );
  const graph = useAnswer<LatencyGraph>(seen?.count ? `api/graph?${words(filter)}` : null);
  // a machine's name may hold spaces
  const [, node = "", crumb] = view.request?.match(/^(.*) (\d+)$/s) ?? [];
  const path = useAnswer<OnePath>(crumb ? `api/path?${new URLSearchParams({ node, crumb })}` : null);
  const heatMap = known(heat);
  return (
    <main class="requests">
      <Filters view={view} change={change} kinds={seen?.kinds ?? []} through={through} />
      <div class="requests-body">
        <section aria-label="Latency over time">
          <h2>Latency over time</h2>
          <State answer={overview} />
          {seen && (
            <p class="note">
              {count(seen.count)} requests
              {seen.count === 0 && ": none here; choose another stretch of time, or leave out a filter"}
            </p>
          )}
          {heatMap && to !== null && seen?.count !== 0 && (
            <HeatChart
              map={heatMap}
              end={to}
              theme={theme}
              onMoment={(moment) => change({ moment, playing: false })}
            />
          )}
        </section>
        <div class="requests-columns">
          <section aria-label="Slowest requests">
            <h2>Slowest</h2>
            <Slowest seen={seen} chosen={view.request} change={change} />
          </section>
          <section aria-label="Way of a request" class="wide">
            <h2>{crumb ? "Its way" : "The way of a request"}</h2>
            {!crumb && <p class="note">Choose one of the slowest.</p>}
            <State answer={path} />
            {path.kind === "found" && <PathTree path={path.found} />}
          </section>
        </div>
        <section aria-label="Latency graph">
          <h2>Where the time goes</h2>
          <State answer={graph} />
          {known(graph) && seen?.count !== 0 && <Graph graph={known(graph) as LatencyGraph} theme={theme} />}
        </section>
      </div>
    </main>
  );
}

/** That an answer is awaited, or why there is none. */
export function State({ answer }: { answer: Answer<unknown> }) {
  if (answer.kind === "waiting") {
    return <p class="note">asking …</p>;
  }
  if (answer.kind === "refused") {
    return (
      <p class="failure-line" role="alert">
        {answer.error}
        {answer.hint && <span class="dim"> {answer.hint}</span>}
      </p>
    );
  }
  return null;
}

function Filters({
  view,
  change,
  kinds,
  through,
}: {
  view: View;
  change: Props["change"];
  kinds: Kind[];
  through: string | null;
}) {
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      {(["component", "op", "client"] as const).map((name) => {
        const values = [...new Set(kinds.map((kind) => kind[name]).filter((one) => one !== null))].sort();
        const now = view[name];
        return (
          <label key={name}>
            {name}
            <select
              value={now ?? ""}
              onChange={(event) => change({ [name]: event.currentTarget.value || null, request: null })}
            >
              <option value="">all</option>
              {(now !== null && !values.includes(now) ? [now, ...values] : values).map((value) => (
                <option key={value} value={value}>
                  {value}
                </option>
              ))}
            </select>
          </label>
        );
      })}
      <label>
        time
        <select
          value={String(view.span)}
          onChange={(event) => change({ span: Number(event.currentTarget.value), request: null })}
        >
          {SPANS.map((seconds) => (
            <option key={seconds} value={String(seconds)}>
              {spanName(seconds)}
            </option>
          ))}
        </select>
      </label>
      {view.span !== 0 && view.moment !== null && (
        <span class="note">until {new Date(view.moment).toISOString().slice(11, 19)}</span>
      )}
      {through !== null && (
        <button
          type="button"
          class="button small"
          onClick={() => change({ selected: new Set(), request: null })}
        >
          through {through} ×
        </button>
      )}
    </form>
  );
}

function Slowest({
  seen,
  chosen,
  change,
}: {
  seen: Overview | null;
  chosen: string | null;
  change: Props["change"];
}) {
  if (!seen) {
    return null;
  }
  return (
    <table class="plain slowest">
      <thead>
        <tr>
          <th>request</th>
          <th>client</th>
          <th class="number">bytes</th>
          <th class="number">time</th>
        </tr>
      </thead>
      <tbody>
        {seen.slowest.map((one) => {
          const key = `${one.node} ${one.crumb}`;
          return (
            <tr key={`${key} ${one.ts_ms}`} class={key === chosen ? "chosen" : undefined}>
              <td>
                <button
                  type="button"
                  class="link"
                  title={`${new Date(one.ts_ms).toISOString()} on ${one.node}`}
                  onClick={() => change({ request: key })}
                >
                  {one.component} {one.op}
                </button>
                {one.status ? <span class="failure-line"> {one.status}</span> : null}
              </td>
              <td class="dim">{one.client ?? ""}</td>
              <td class="number">{one.length === null ? "" : bytes(one.length)}</td>
              <td class="number">{time(one.dur)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
