// The latency graph: drawn by Graphviz in the browser, of the same DOT that the command line writes, and as a table of
// its steps.

import { useEffect, useRef, useState } from "preact/hooks";
import { count, time } from "../format/units";
import { oneLine } from "../format/visible";
import type { Theme } from "../theme/theme";
import type { Edge, LatencyGraph, Point } from "./ask";

/** Steps that a drawing stays legible with; of more the table alone tells. */
const MOST_DRAWN = 160;

const name = (point: Point): string =>
  [point.component, point.name, point.moment].filter((word) => word !== null && word !== "").join(" ");

export function Graph({ graph, theme }: { graph: LatencyGraph; theme: Theme }) {
  const steps = [...graph.edges].sort((a, b) => b.critical_ns - a.critical_ns || b.count - a.count);
  return (
    <>
      <p class="note">{graph.head}</p>
      {graph.edges.length <= MOST_DRAWN ? (
        <Drawing graph={graph} theme={theme} />
      ) : (
        <p class="note">{graph.edges.length} steps are too many to draw: choose an operation.</p>
      )}
      <Steps steps={steps} />
      {graph.legend.map((line) => (
        <p class="note" key={line}>
          {line}
        </p>
      ))}
    </>
  );
}

function Drawing({ graph, theme }: { graph: LatencyGraph; theme: Theme }) {
  const box = useRef<HTMLDivElement>(null);
  const [failed, setFailed] = useState<string | null>(null);
  useEffect(() => {
    let shown = true;
    setFailed(null);
    // Graphviz is larger than the rest of the page: only who looks at a graph loads it.
    import("@viz-js/viz")
      .then((viz) => viz.instance())
      .then((viz) => {
        const svg = viz.renderSVGElement(recoloured(graph, theme));
        svg.removeAttribute("height");
        svg.style.maxWidth = svg.getAttribute("width") ?? "";
        svg.removeAttribute("width");
        svg.setAttribute("role", "img");
        svg.setAttribute("aria-label", oneLine(graph.head));
        if (shown) {
          box.current?.replaceChildren(svg);
        }
      })
      .catch((error: unknown) => shown && setFailed(String(error)));
    return () => {
      shown = false;
    };
  }, [graph, theme]);
  return (
    <>
      <div class="drawing" ref={box} />
      {failed !== null && <p class="failure-line">The graph can't be drawn: {failed}</p>}
    </>
  );
}

/** DOT in the colours of the page. */
function recoloured(graph: LatencyGraph, theme: Theme): string {
  return theme === "dark"
    ? graph.dot.replace(/#[0-9a-f]{6}/g, (colour) => graph.dark[colour] ?? colour)
    : graph.dot;
}

function Steps({ steps }: { steps: Edge[] }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th>from</th>
          <th>to</th>
          <th class="number">n</th>
          <th class="number">mean</th>
          <th class="number">p50</th>
          <th class="number">p99</th>
          <th class="number">of the time</th>
        </tr>
      </thead>
      <tbody>
        {steps.map((step) => (
          <tr key={`${name(step.source)} ${name(step.target)} ${step.kind} ${step.across}`}>
            <td>{name(step.source)}</td>
            <td>
              {step.across ? "⇢ " : ""}
              {name(step.target)}
            </td>
            <td class="number">{count(step.count)}</td>
            <td class="number">{time(step.mean_ns)}</td>
            <td class="number">{time(step.p50_ns)}</td>
            <td class="number">{time(step.p99_ns)}</td>
            <td class="number share">
              <i style={{ width: `${Math.min(100, step.share * 100)}%` }} />
              {step.critical ? `${(step.share * 100).toFixed(1)} %` : ""}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
