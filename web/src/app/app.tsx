// The frame around the views: brand, tabs, what is shown and how fresh it is, theme, help.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { AnomaliesView } from "../anomalies/view";
import { type StreamState, stateText } from "../cluster/live";
import { ClusterView } from "../cluster/view";
import type { Info } from "../cluster/wire";
import { IoView } from "../io/view";
import { RequestsView } from "../requests/view";
import { SqlView } from "../sql/view";
import { Brand, ThemeButton } from "../theme/brand";
import { useTheme } from "../theme/theme";
import { fromHash, toHash, type View } from "./address";
import { Help } from "./help";

/** The views, in the order of their tabs and keys. */
const VIEWS: { id: View["view"]; name: string }[] = [
  { id: "cluster", name: "Cluster" },
  { id: "requests", name: "Requests" },
  { id: "io", name: "I/O" },
  { id: "sql", name: "SQL" },
  { id: "anomalies", name: "Anomalies" },
];

const ADDRESS_MS = 300;

/** What the address says; of a sweep its anomalies, unless it says something else. */
function read(info: Info): View {
  return fromHash(location.hash || (info.sweep ? "view=anomalies" : ""));
}

export function App({ info }: { info: Info }) {
  const [theme, toggleTheme] = useTheme();
  const [view, setView] = useState<View>(() => read(info));
  const [stream, setStream] = useState<StreamState>({ kind: "none" });
  const [help, setHelp] = useState(false);
  const written = useRef("");
  // Only a sweep has anomalies.
  const views = VIEWS.filter((tab) => info.sweep || tab.id !== "anomalies");
  const current = useRef(view);
  current.current = view;
  const timer = useRef(0);

  const change = useCallback((part: Partial<View>) => {
    setView((before) => ({ ...before, ...part }));
    // Browsers refuse more than a few changes of the address a second.
    if (timer.current === 0) {
      timer.current = window.setTimeout(() => {
        timer.current = 0;
        written.current = `#${toHash(current.current)}`;
        history.replaceState(null, "", written.current);
      }, ADDRESS_MS);
    }
  }, []);

  useEffect(() => {
    const follow = () => {
      if (location.hash !== written.current) {
        setView(read(info));
      }
    };
    const key = (event: KeyboardEvent) => {
      if (
        event.target instanceof HTMLInputElement ||
        event.target instanceof HTMLSelectElement ||
        event.target instanceof HTMLTextAreaElement
      ) {
        return;
      }
      const tab = views[Number(event.key) - 1];
      if (event.key === "?") {
        setHelp((shown) => !shown);
      } else if (event.key === "Escape") {
        setHelp(false);
      } else if (tab && !event.ctrlKey && !event.metaKey && !event.altKey) {
        change({ view: tab.id });
      }
    };
    window.addEventListener("hashchange", follow);
    window.addEventListener("keydown", key);
    return () => {
      window.removeEventListener("hashchange", follow);
      window.removeEventListener("keydown", key);
    };
  }, [change]);

  const source = info.trail ?? info.collector ?? "";
  return (
    <div class="app">
      <header class="app-header">
        <Brand />
        <nav class="tabs" aria-label="Views">
          {views.map((tab) => (
            <button
              type="button"
              key={tab.id}
              aria-current={view.view === tab.id ? "page" : undefined}
              onClick={() => change({ view: tab.id })}
            >
              {tab.name}
            </button>
          ))}
        </nav>
        <span class="source mono" title={source}>
          {source.split("/").at(-1)}
        </span>
        <Freshness stream={stream} following={view.moment === null} />
        <button type="button" class="button small" onClick={() => setHelp(true)} aria-label="Help">
          ?
        </button>
        <ThemeButton theme={theme} onToggle={toggleTheme} class="button small" />
      </header>
      {view.view === "cluster" && (
        <ClusterView info={info} view={view} change={change} theme={theme} onStream={setStream} />
      )}
      {view.view === "requests" && <RequestsView info={info} view={view} change={change} theme={theme} />}
      {view.view === "io" && <IoView view={view} change={change} theme={theme} />}
      {view.view === "sql" && <SqlView view={view} change={change} />}
      {view.view === "anomalies" && <AnomaliesView theme={theme} />}
      {help && <Help close={() => setHelp(false)} />}
    </div>
  );
}

/** How fresh the picture is. */
function Freshness({ stream, following }: { stream: StreamState; following: boolean }) {
  const late = stream.kind === "live" && stream.behind > 5_000;
  const kind =
    stream.kind === "live"
      ? late
        ? "late"
        : following
          ? "live"
          : "ready"
      : stream.kind === "none"
        ? "none"
        : "lost";
  return (
    <output class={`freshness ${kind}`} title={stream.kind === "lost" ? stream.reason : undefined}>
      <i />
      {stateText(stream, Date.now())}
    </output>
  );
}
