// The I/O view: what was recorded, what is wrong with it, and where the time went; all of it narrowed by
// one selection (a span of time, a file, process, thread or call).

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TimeAxis } from "../chart/time-chart";
import type { Theme } from "../theme/theme";
import { BlockView } from "./block";
import { CausalityView } from "./causality";
import { Cube } from "./cube";
import { hasOnlyRequests, type IoData } from "./data";
import { Diagnosis } from "./diagnosis";
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

interface Props {
  data: IoData;
  theme: Theme;
  /** The selection as words of an address: what it is narrowed to at first, and whenever somebody else changes them. */
  words: string;
  onWords: (words: string) => void;
  /** Before what was recorded. */
  children?: ComponentChildren;
}

export function IoPage({ data, theme, words, onWords, children }: Props) {
  const [selection, setSelection] = useState<Selection>(() => fromHash(words, data));
  const cube = useMemo(() => new Cube(data), [data]);
  const whole = useMemo(() => cube.sum(WHOLE), [cube]);
  const sums = useMemo(() => cube.sum(selection), [cube, selection]);
  const axis = useMemo<TimeAxis>(() => ({ ...data.run }), [data]);
  const span = useMemo<[number, number]>(() => [sums.from, sums.to], [sums.from, sums.to]);

  const said = useRef(words);
  useEffect(() => {
    const now = toHash(selection, data);
    if (now !== said.current) {
      said.current = now;
      onWords(now);
    }
  }, [selection, data]);

  useEffect(() => {
    if (words !== said.current) {
      said.current = words;
      setSelection(fromHash(words, data));
    }
  }, [words, data]);

  const onChoose = useCallback((dimension: Dimension, row: number | null) => {
    setSelection((now) => ({ ...now, [dimension]: row }));
  }, []);
  const onBrush = useCallback(
    (from: number, to: number) => {
      setSelection((now) => ({ ...now, span: clampSpan(from, to, data.run.buckets) }));
    },
    [data],
  );

  const showWhere = useCallback(
    (place: Selection) => {
      setSelection(place);
      // The chart of what the finding is about; it follows the selection, so that it shows the calls at once.
      const drawn = data.heat.files.some((heat) => heat.file === place.file);
      const device = place.file !== null && data.block?.devices.file.includes(place.file);
      const chart = device
        ? "block"
        : drawn
          ? "heat"
          : place.file !== null || !data.timed
            ? "throughput"
            : "split";
      const title = document.getElementById(`${chart}-title`);
      title?.focus({ preventScroll: true });
      title?.scrollIntoView({ block: "start" });
    },
    [data],
  );

  const view = { data, axis, selection, onChoose, onBrush };
  // What isn't known isn't drawn as if it were 0.
  const hasCalls = !hasOnlyRequests(data);
  return (
    <div class="io">
      {/* no link: the address holds what is shown */}
      <button type="button" class="skip" onClick={() => document.getElementById("findings-title")?.focus()}>
        Skip to the diagnosis
      </button>
      <Header data={data} selection={selection} whole={whole} sums={sums}>
        {children}
      </Header>
      <SelectionBar {...view} series={sums.series} theme={theme} onSelect={setSelection} />
      <main>
        {(hasCalls || data.diagnosis.length > 0) && <Diagnosis {...view} onSelect={showWhere} />}
        {data.timed && (hasCalls || data.threads.id.length > 0) && (
          <TimeSplit {...view} sums={sums} span={span} theme={theme} />
        )}
        {data.causality && <CausalityView {...view} causality={data.causality} span={span} theme={theme} />}
        {hasCalls && <Throughput {...view} sums={sums} span={span} theme={theme} />}
        {hasCalls && data.timed && <Latency {...view} sums={sums} theme={theme} />}
        {data.block && <BlockView {...view} block={data.block} span={span} theme={theme} />}
        {(data.block === null || data.heat.files.length > 0) && <Heat {...view} span={span} theme={theme} />}
        {hasCalls && <Tables {...view} sums={sums} />}
        <Provenance data={data} />
      </main>
    </div>
  );
}
