// The report's view in the page of `iotrail serve`: of the trail as it was when the view was opened.

import type { View } from "../app/address";
import { known, useAnswer } from "../requests/ask";
import { State } from "../requests/view";
import type { Theme } from "../theme/theme";
import type { IoData } from "./data";
import { IoPage } from "./page";

interface Props {
  view: View;
  change: (part: Partial<View>) => void;
  theme: Theme;
}

export function IoView({ view, change, theme }: Props) {
  const answer = useAnswer<IoData>("api/report");
  const data = known(answer);
  return (
    <div class="io-view">
      <State answer={answer} />
      {data && data.cells.ops.length === 0 && (
        <p class="note">This trail has no file operations: iotrail record takes them.</p>
      )}
      {data && data.cells.ops.length > 0 && (
        <IoPage
          data={data}
          theme={theme}
          words={view.narrowed}
          onWords={(narrowed) => change({ narrowed })}
        />
      )}
    </div>
  );
}
