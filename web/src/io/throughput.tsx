// How much was moved, how often, and how many operations were under way, over time.

import { useMemo } from "preact/hooks";
import { Legend, TimeChart } from "../chart/time-chart";
import { count, plain, rate } from "../format/units";
import type { Theme } from "../theme/theme";
import type { Sums } from "./cube";
import type { ViewProps } from "./page";
import { Section } from "./section";

const perSecond = (value: number): string => `${count(value)}/s`;

type Props = ViewProps & { sums: Sums; span: [number, number]; theme: Theme };

export function Throughput({ data, axis, selection, sums, span, theme, onBrush }: Props) {
  const { series, bucketTime } = sums;
  const scale = 1e9 / axis.bucket;
  const narrowedTo = selection.process !== null || selection.thread !== null;
  const charts = useMemo(() => {
    const perSec = (values: Float64Array) => values.map((v) => v * scale);
    return {
      bytes: [
        { name: "Read", color: "kind-read", values: perSec(series.readBytes), fill: true },
        { name: "Written", color: "kind-write", values: perSec(series.writeBytes), fill: true },
      ],
      ops: [
        { name: "Reads", color: "kind-read", values: perSec(series.readOps) },
        { name: "Writes", color: "kind-write", values: perSec(series.writeOps) },
        { name: "Other calls", color: "kind-meta", values: perSec(series.otherOps) },
      ],
      depth: [
        {
          name: "Mean",
          color: "split-io",
          // of one process or thread: its I/O time over time
          values:
            narrowedTo || data.depth.mean === null
              ? bucketTime.io.map((ns) => ns / axis.bucket)
              : data.depth.mean,
          fill: true,
        },
        ...(narrowedTo || data.depth.most === null
          ? []
          : [{ name: "Largest", color: "muted", values: data.depth.most }]),
      ],
    };
  }, [series, bucketTime, scale, narrowedTo, data, axis]);
  const all =
    selection.file !== null || selection.call !== null ? "over all files and calls" : "operations under way";
  const common = { axis, span, theme, onBrush };
  return (
    <Section
      id="throughput"
      title="Throughput and queue depth"
      note={`Operations and bytes count when the call ${data.timed ? "returned" : "began"}.`}
    >
      <div class="panel charts">
        <div class="chart-head">
          <h3>Bytes per second</h3>
          <Legend entries={charts.bytes} />
        </div>
        <TimeChart
          {...common}
          label="Bytes read and written per second over time"
          series={charts.bytes}
          format={rate}
          binary
          height={170}
        />
        <div class="chart-head">
          <h3>Operations per second</h3>
          <Legend entries={charts.ops} />
        </div>
        <TimeChart
          {...common}
          label="Operations per second over time"
          series={charts.ops}
          format={perSecond}
          height={140}
        />
        {!data.timed ? (
          <p class="muted">Queue depth is not known: the trace has no response times.</p>
        ) : narrowedTo && data.depth.overlaps ? (
          <p class="muted">Queue depth of one process or thread is not shown: its requests overlap.</p>
        ) : (
          <>
            <div class="chart-head">
              <h3>
                Queue depth <span class="muted">{all}</span>
              </h3>
              <Legend entries={charts.depth} />
            </div>
            <TimeChart
              {...common}
              label="Queue depth over time"
              series={charts.depth}
              format={plain}
              height={120}
            />
          </>
        )}
      </div>
    </Section>
  );
}
