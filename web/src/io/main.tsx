// Entry of the report: the I/O view over the data inlined in the page.

import { render } from "preact";
import "../theme/theme.css";
import { InlinedSource, type IoData, type IoSource } from "./data";
import { IoPage } from "./page";

async function open(source: IoSource, root: HTMLElement): Promise<void> {
  let data: IoData;
  try {
    data = await source.load();
  } catch (error) {
    root.innerHTML = "";
    render(<Failure error={error} />, root);
    return;
  }
  root.innerHTML = "";
  document.title = `${data.trail.name} – iotrail report`;
  render(<IoPage data={data} />, root);
}

function Failure({ error }: { error: unknown }) {
  return (
    <main class="failure">
      <h1>This report can't be read</h1>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <p>
        The file is cut short or was changed. Write it again: <code>iotrail report X.trail</code>
      </p>
    </main>
  );
}

const root = document.getElementById("page");
const inlined = document.getElementById("iotrail-data");
if (root && inlined) {
  void open(new InlinedSource(inlined), root);
}
