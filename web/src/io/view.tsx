// The report's view in the page of `iotrail serve`: of the trail as it was when the view was opened.

import type { View } from "../app/address";
import { known, useAnswer } from "../requests/ask";
import { State } from "../requests/view";
import type { Theme } from "../theme/theme";
import { hasOnlyRequests, type IoData } from "./data";
import { IoPage } from "./page";

interface Props {
  view: View;
  change: (part: Partial<View>) => void;
  theme: Theme;
}

export function IoView({ view, change, theme }: Props) {
  const [start, end] = view.part?.split("-") ?? [];
  const answer = useAnswer<IoData>(view.part ? `api/report?start_ns=${start}&end_ns=${end}` : "api/report");
  const data = known(answer);
  const isEmpty = data !== null && data.cells.ops.length === 0 && !hasOnlyRequests(data);
  return (
    <div class="io-view">
      {view.part && (
        <p class="note">
          A part of the trail, such as one measurement of a sweep.{" "}
          <button type="button" class="button small" onClick={() => change({ part: null, narrowed: "" })}>
            Show the whole trail
          </button>
        </p>
      )}
      <State answer={answer} />
      {isEmpty && <p class="note">This trail has no file operations: iotrail record takes them.</p>}
      {data && !isEmpty && (
        <IoPage
          key={`${data.run.start} ${data.run.duration}`}
          data={data}
          theme={theme}
          words={view.narrowed}
          onWords={(narrowed) => change({ narrowed })}
        />
      )}
    </div>
  );
}
