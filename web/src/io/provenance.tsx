// What the trail doesn't hold, and how it came to be.

import { bytes, exact, time } from "../format/units";
import type { IoData } from "./data";
import { processName } from "./names";
import { Section } from "./section";

export function Provenance({ data }: { data: IoData }) {
  return (
    <>
      <Section id="unseen" title="What was not seen">
        <div class="panel">
          {data.unseen.length === 0 ? (
            <p class="table-empty">The recorder knows of nothing it missed: no call was dropped.</p>
          ) : (
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">What</th>
                  <th scope="col" class="numeric">
                    Amount
                  </th>
                  <th scope="col">Where</th>
                  <th scope="col">Details</th>
                </tr>
              </thead>
              <tbody>
                {data.unseen.map((row) => (
                  <tr key={`${row.kind} ${row.process} ${row.file} ${row.detail}`}>
                    <td class="words">{row.kind.replaceAll("_", " ")}</td>
                    <td class="numeric" title={exact(row.amount)}>
                      {row.kind === "mapped_file" ? bytes(row.amount) : exact(row.amount)}
                    </td>
                    {row.process === null && row.file === null ? (
                      <td class="words">the recording</td>
                    ) : (
                      <td>
                        <code>
                          {[
                            row.process !== null && processName(data, row.process),
                            row.file !== null && data.files.path[row.file],
                          ]
                            .filter(Boolean)
                            .join(", ")}
                        </code>
                      </td>
                    )}
                    <td>{row.detail ?? "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      </Section>
      <Section id="recorded" title="How it was recorded">
        <div class="panel">
          <table class="plain facts">
            <tbody>
              {data.recording.map((row) => (
                <tr key={`${row.node} ${row.name} ${row.value}`}>
                  <th scope="row">{row.name.replaceAll("_", " ")}</th>
                  <td>
                    <code>{row.value ?? "–"}</code>
                  </td>
                </tr>
              ))}
              <tr>
                <th scope="row">trail</th>
                <td>
                  <code>
                    {data.trail.path}, snapshot {data.trail.snapshot}
                  </code>
                </td>
              </tr>
            </tbody>
          </table>
        </div>
      </Section>
      <footer class="muted">
        <p>
          Written by {data.made.by} at {data.made.at.slice(0, 19).replace("T", " ")} UTC. The numbers are
          those of <code>iotrail sql {data.trail.path}</code>; what follows the brush is exact for whole time
          buckets of {time(data.run.bucket)}. Bytes in IEC units (1 KiB = 1,024 B), counts in SI units (1 k =
          1,000), times in UTC.
        </p>
      </footer>
    </>
  );
}
