// The diagnosis: a card a cause, with what mending it saves and what to do; a click shows where it happened.

import { count, plural, bytes as showBytes, time } from "../format/units";
import type { Card, IoData, Severity } from "./data";
import { processName, shortPath, threadName } from "./names";
import type { ViewProps } from "./page";
import { Section } from "./section";
import { clampSpan, type Selection } from "./selection";

const MARKS: Record<Severity, string> = { high: "▲", medium: "◆", low: "●" };

/** The buckets a card covers; null where it has no time. */
function spanOf(finding: Card, data: IoData): [number, number] | null {
  if (finding.start === null || finding.stop === null) {
    return null;
  }
  const { origin, bucket } = data.run;
  return [Math.floor((finding.start - origin) / bucket), Math.floor((finding.stop - origin) / bucket) + 1];
}

/** Whether a card is about something that is selected. */
export function concerns(finding: Card, selection: Selection, data: IoData): boolean {
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

export function Diagnosis({ data, selection, onSelect }: Props) {
  const findings = data.diagnosis;
  const counts = (["high", "medium", "low"] as const)
    .map((severity) => [severity, findings.filter((f) => f.severity === severity).length] as const)
    .filter(([, n]) => n > 0);
  const away = findings.filter((finding) => !concerns(finding, selection, data)).length;
  const show = (finding: Card) => {
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
      title="Diagnosis"
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
        <p class={data.timed ? "all-well" : "not-known"}>
          {data.timed ? (
            <>
              <b>No known problem was found in this trail.</b> The rest of the page shows where the time went.
            </>
          ) : (
            <>
              <b>How long operations took is not known:</b> the trace has no response times. Nothing is said
              of problems that cost time; none of the patterns that need no times was found.
            </>
          )}
        </p>
      ) : (
        <div class="findings">
          {findings.map((finding) => (
            <article
              key={`${finding.cause} ${finding.title}`}
              class="finding"
              data-severity={finding.severity}
              data-away={!concerns(finding, selection, data)}
            >
              <div class="finding-head">
                <span class="severity">
                  <span aria-hidden="true">{MARKS[finding.severity]}</span> {finding.severity}
                </span>
                <code class="muted">{finding.cause}</code>
                <Gain card={finding} />
              </div>
              <h3>{finding.title}</h3>
              <p class="evidence">{finding.evidence}</p>
              {finding.location !== null && (
                <p class="evidence">
                  <b>Where:</b> {finding.location}
                </p>
              )}
              <p class="advice">
                <b>Do:</b> {finding.advice}
              </p>
              {finding.details.length > 1 && <Details card={finding} />}
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

function Gain({ card }: { card: Card }) {
  if (card.gain !== null && card.gain > 0) {
    const share = card.share === null ? "" : ` (${Math.round(card.share * 100)} % of the run)`;
    return (
      <span class="finding-cost" title="Estimate: time of the run that mending this saves">
        saves {time(card.gain)}
        {share}
      </span>
    );
  }
  return card.cost === null ? null : (
    <span class="finding-cost" title="Time this accounts for, summed over threads">
      takes {time(card.cost)}
    </span>
  );
}

/** The findings behind a card but for the leading one, whose words are the card's. */
function Details({ card }: { card: Card }) {
  return (
    <details class="finding-details">
      <summary>{plural(card.details.length - 1, "more finding")} over the same calls</summary>
      <ul>
        {card.details.slice(1).map((detail) => (
          <li key={`${detail.finding} ${detail.title}`}>
            <code class="muted">{detail.finding}</code> {detail.title} {detail.evidence}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Where({ finding, data }: { finding: Card; data: IoData }) {
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
