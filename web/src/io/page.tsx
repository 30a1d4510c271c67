// The I/O view: what was recorded, what is wrong with it, and where the time went; all of it narrowed by
// one selection (a span of time, a file, process, thread or call).

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import type { TimeAxis } from "../chart/time-chart";
import { useTheme } from "../theme/theme";
import { Cube } from "./cube";
import type { IoData } from "./data";
import { Findings } from "./findings";
import { Header } from "./header";
import { Heat } from "./heat";
import { Latency } from "./latency";
import { Provenance } from "./provenance";
import { clampSpan, type Dimension, fromHash, type Selection, toHash, WHOLE } from "./selection";
import { SelectionBar } from "./selection-bar";
import { Tables } from "./tables";
import { Throughput } from "./throughput";
import { TimeSplit } from "./time-split";
import "./page.css";

export interface ViewProps {
  data: IoData;
  axis: TimeAxis;
  selection: Selection;
  /** Narrows by a dimension; null widens again. */
  onChoose: (dimension: Dimension, row: number | null) => void;
  onBrush: (from: number, to: number) => void;
}

export function IoPage({ data }: { data: IoData }) {
  const [theme, toggleTheme] = useTheme();
  const [selection, setSelection] = useState<Selection>(() => fromHash(location.hash, data));
  const cube = useMemo(() => new Cube(data), [data]);
  const whole = useMemo(() => cube.sum(WHOLE), [cube]);
  const sums = useMemo(() => cube.sum(selection), [cube, selection]);
  const axis = useMemo<TimeAxis>(() => ({ ...data.run }), [data]);
  const span = useMemo<[number, number]>(() => [sums.from, sums.to], [sums.from, sums.to]);

  useEffect(() => {
    const hash = toHash(selection, data);
    if (hash !== location.hash.slice(1)) {
      // Replaced, not pushed: a brush is hundreds of states, and Back should leave the report.
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    }
  }, [selection, data]);

  useEffect(() => {
    const follow = () => setSelection(fromHash(location.hash, data));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, [data]);

  const onChoose = useCallback((dimension: Dimension, row: number | null) => {
    setSelection((now) => ({ ...now, [dimension]: row }));
  }, []);
  const onBrush = useCallback(
    (from: number, to: number) => {
      setSelection((now) => ({ ...now, span: clampSpan(from, to, data.run.buckets) }));
    },
    [data],
  );

  const view = { data, axis, selection, onChoose, onBrush };
  return (
    <>
      <a class="skip" href="#findings-title">
        Skip to the findings
      </a>
      <Header data={data} whole={whole} theme={theme} onToggleTheme={toggleTheme} />
      <SelectionBar {...view} series={sums.series} theme={theme} onSelect={setSelection} />
      <main>
        <Findings {...view} onSelect={setSelection} />
        <TimeSplit {...view} sums={sums} span={span} theme={theme} />
        <Throughput {...view} sums={sums} span={span} theme={theme} />
        <Latency {...view} sums={sums} theme={theme} />
        <Heat {...view} span={span} theme={theme} />
        <Tables {...view} sums={sums} />
        <Provenance data={data} />
      </main>
    </>
  );
}
