// The findings: what is wrong, what it costs, what to do. Worst first; a click shows where it happened.

import { count, plural, bytes as showBytes, time } from "../format/units";
import type { Finding, IoData, Severity } from "./data";
import { processName, shortPath, threadName } from "./names";
import type { ViewProps } from "./page";
import { Section } from "./section";
import { clampSpan, type Selection } from "./selection";

const SEVERITIES: Record<Severity, { rank: number; mark: string }> = {
  high: { rank: 0, mark: "▲" },
  medium: { rank: 1, mark: "◆" },
  low: { rank: 2, mark: "●" },
};

/** By severity, then by cost; unknown cost last. */
export function worstFirst(findings: Finding[]): Finding[] {
  return [...findings].sort(
    (a, b) =>
      SEVERITIES[a.severity].rank - SEVERITIES[b.severity].rank ||
      (b.cost ?? -1) - (a.cost ?? -1) ||
      a.title.localeCompare(b.title),
  );
}

/** The buckets a finding covers; null where it has no time. */
function spanOf(finding: Finding, data: IoData): [number, number] | null {
  if (finding.start === null || finding.stop === null) {
    return null;
  }
  const { origin, bucket } = data.run;
  return [Math.floor((finding.start - origin) / bucket), Math.floor((finding.stop - origin) / bucket) + 1];
}

/** Whether a finding is about something that is selected. */
export function concerns(finding: Finding, selection: Selection, data: IoData): boolean {
  const span = spanOf(finding, data);
  const overlaps = !selection.span || !span || (span[0] < selection.span[1] && span[1] > selection.span[0]);
  const same = (wanted: number | null, own: number | null) =>
    wanted === null || own === null || own === wanted;
  return (
    overlaps &&
    same(selection.file, finding.file) &&
    same(selection.process, finding.process) &&
    same(selection.thread, finding.thread)
  );
}

type Props = ViewProps & { onSelect: (selection: Selection) => void };

export function Findings({ data, selection, onSelect }: Props) {
  const findings = worstFirst(data.findings);
  const counts = (["high", "medium", "low"] as const)
    .map((severity) => [severity, findings.filter((f) => f.severity === severity).length] as const)
    .filter(([, n]) => n > 0);
  const away = findings.filter((finding) => !concerns(finding, selection, data)).length;
  const show = (finding: Finding) => {
    const span = spanOf(finding, data);
    onSelect({
      span: span && clampSpan(span[0], span[1], data.run.buckets),
      file: finding.file,
      process: finding.thread === null ? finding.process : null,
      thread: finding.thread,
      call: null,
    });
  };
  return (
    <Section
      id="findings"
      title="Findings"
      note={
        findings.length === 0 ? undefined : (
          <>
            {counts.map(([severity, n]) => `${n} ${severity}`).join(", ")}
            {away > 0 && `; ${away} of them outside the selection, dimmed`}
          </>
        )
      }
    >
      {findings.length === 0 ? (
        <p class="all-well">
          <b>No known problem was found in this trail.</b> The rest of the page shows where the time went.
        </p>
      ) : (
        <div class="findings">
          {findings.map((finding) => (
            <article
              key={`${finding.finding} ${finding.title}`}
              class="finding"
              data-severity={finding.severity}
              data-away={!concerns(finding, selection, data)}
            >
              <div class="finding-head">
                <span class="severity">
                  <span aria-hidden="true">{SEVERITIES[finding.severity].mark}</span> {finding.severity}
                </span>
                <code class="muted">{finding.finding}</code>
                {finding.cost !== null && (
                  <span class="finding-cost" title="Time this accounts for, summed over threads">
                    {time(finding.cost)}
                  </span>
                )}
              </div>
              <h3>{finding.title}</h3>
              <p class="evidence">{finding.evidence}</p>
              <p class="advice">
                <b>Do:</b> {finding.advice}
              </p>
              <div class="finding-foot">
                <span class="muted">
                  {[
                    finding.ops !== null && plural(finding.ops, "operation"),
                    finding.bytes !== null && finding.bytes > 0 && showBytes(finding.bytes),
                  ]
                    .filter(Boolean)
                    .join(" · ") || count(null)}
                </span>
                <Where finding={finding} data={data} />
                <button type="button" class="button no-print" onClick={() => show(finding)}>
                  Show where<span class="hidden-label">: {finding.title}</span>
                </button>
              </div>
            </article>
          ))}
        </div>
      )}
    </Section>
  );
}

function Where({ finding, data }: { finding: Finding; data: IoData }) {
  const names = [
    finding.file !== null && {
      full: data.files.path[finding.file],
      short: shortPath(data.files.path[finding.file], 34),
    },
    finding.thread !== null && {
      full: threadName(data, finding.thread),
      short: threadName(data, finding.thread),
    },
    finding.thread === null &&
      finding.process !== null && {
        full: processName(data, finding.process),
        short: processName(data, finding.process),
      },
  ].filter((name) => name !== false);
  return (
    <span class="where">
      {names.map((name) => (
        <code key={name.full} title={name.full}>
          {name.short}
        </code>
      ))}
    </span>
  );
}
