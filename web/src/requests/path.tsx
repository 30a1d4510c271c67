// One request's way: a tree of what happened, each line with its bar on the clock of the request's machine.

import { bytes, time } from "../format/units";
import type { Line, OnePath } from "./ask";

export function PathTree({ path }: { path: OnePath }) {
  const machines = [...new Set(path.lines.map((line) => line.process ?? line.node))];
  return (
    <>
      <p class="note">{path.head}</p>
      <table class="plain path">
        <thead>
          <tr>
            <th>what</th>
            <th>where</th>
            <th class="number">at</th>
            <th class="number">time</th>
            <th class="number">bytes</th>
            <th class="bars">0 … {time(path.span_ns)}</th>
          </tr>
        </thead>
        <tbody>
          {path.lines.map((line, number) => (
            <tr key={number}>
              <td>
                <span class="tree">{line.indent}</span>
                {line.label}
              </td>
              <td class="dim" title={line.node}>
                {line.process ?? line.node}
              </td>
              <td class="number">{line.at_ns === null ? "" : `+${time(line.at_ns)}`}</td>
              <td class="number">{took(line)}</td>
              <td class="number">{line.length === null ? "" : bytes(line.length)}</td>
              <td class="bars">
                <Bars line={line} span={path.span_ns} colour={machines.indexOf(line.process ?? line.node)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {[...path.holes, ...path.missing].map((said) => (
        <p class="failure-line" key={said}>
          {said}
        </p>
      ))}
      {path.clocks.map((said) => (
        <p class="note" key={said}>
          {said}
        </p>
      ))}
    </>
  );
}

function took(line: Line): string {
  if (line.at_ns === null) {
    return "";
  }
  return line.dur_ns === null ? "unfinished" : line.dur_ns === 0 ? "·" : time(line.dur_ns);
}

function Bars({ line, span, colour }: { line: Line; span: number; colour: number }) {
  const share = (ns: number) => `${(100 * ns) / Math.max(span, 1)}%`;
  return (
    <svg width="100%" height="12" aria-hidden="true">
      {line.bars.map(([at, dur]) => (
        <rect
          key={at}
          class={dur === null ? "open" : `of-${colour % 4}`}
          x={share(at)}
          y={dur === 0 ? 3 : 1}
          width={dur === null ? share(Math.max(span - at, 0)) : dur === 0 ? 2 : share(dur)}
          height={dur === 0 ? 6 : 10}
        />
      ))}
    </svg>
  );
}
