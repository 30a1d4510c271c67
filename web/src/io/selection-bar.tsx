// What the page shows now: the whole run in a strip to brush, and a chip for each filter. Stays in sight.

import { useMemo } from "preact/hooks";
import { BrushStrip } from "../chart/brush-strip";
import { bucketTitle } from "../chart/time-chart";
import { time } from "../format/units";
import type { Theme } from "../theme/theme";
import { sumBytes } from "./block-sums";
import type { Series } from "./cube";
import { hasOnlyRequests } from "./data";
import { threadName } from "./names";
import type { ViewProps } from "./page";
import { type Dimension, isWhole, type Selection, WHOLE } from "./selection";

type Props = ViewProps & { series: Series; theme: Theme; onSelect: (selection: Selection) => void };

export function SelectionBar({ data, axis, selection, series, theme, onChoose, onBrush, onSelect }: Props) {
  const span = selection.span;
  const name: Record<Dimension, (row: number) => string> = {
    file: (row) => data.files.path[row],
    process: (row) => `${data.processes.name[row]} (${data.processes.pid[row]})`,
    thread: (row) => threadName(data, row),
    call: (row) => data.calls.name[row],
  };
  const chips = (["process", "thread", "file", "call"] as const).flatMap((dimension) => {
    const row = selection[dimension];
    return row === null ? [] : [{ dimension, text: name[dimension](row) }];
  });
  // The strip shows activity even where a run moves no bytes.
  const other = useMemo(() => series.writeOps.map((n, b) => n + series.otherOps[b]), [series]);
  const requested = useMemo(
    () => (data.block && hasOnlyRequests(data) ? sumBytes(data.block, data.run.buckets) : null),
    [data],
  );
  const bytesMoved = series.readBytes.some((b) => b > 0) || series.writeBytes.some((b) => b > 0);
  return (
    <nav class="selection-bar" aria-label="Time span and filters">
      <div class="selection-line">
        <span class="selection-span" role="status" data-span={span ? span.join("-") : "whole"}>
          {span ? (
            <>
              <b>{bucketTitle(axis, span[0], span[1])}</b>
              <span class="muted"> ({time((span[1] - span[0]) * axis.bucket)})</span>
            </>
          ) : (
            <>
              <b>Whole run</b>
              <span class="muted"> · drag over any time axis to look closer</span>
            </>
          )}
        </span>
        {chips.map((chip) => (
          <button
            type="button"
            class="chip"
            key={chip.dimension}
            title={chip.text}
            aria-label={`Remove the filter ${chip.dimension} ${chip.text}`}
            onClick={() => onChoose(chip.dimension, null)}
          >
            <span class="chip-kind">{chip.dimension}</span>
            <span class="chip-text">{chip.text}</span>
            <span aria-hidden="true">×</span>
          </button>
        ))}
        <span
          class="bucket-note muted"
          title="Every number that follows the brush is exact for whole time buckets"
        >
          buckets of {time(axis.bucket)}
        </span>
        <button type="button" class="button" disabled={isWhole(selection)} onClick={() => onSelect(WHOLE)}>
          Whole run
        </button>
      </div>
      <BrushStrip
        axis={axis}
        up={requested ? requested.read : bytesMoved ? series.readBytes : series.readOps}
        down={requested ? requested.write : bytesMoved ? series.writeBytes : other}
        span={span}
        theme={theme}
        onBrush={onBrush}
      />
    </nav>
  );
}
